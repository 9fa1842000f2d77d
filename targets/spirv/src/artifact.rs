//! Packages of programs for Vulkan devices: the shaders, and C that calls the driver.
//!
//! Each shader is a file of words, `shaders/N.spv`. `NAME.c` is the tables of
//! [what all devices have in common](target_core::gpu::host), tables of shaders, launches and of what these
//! ask of a device, and code that is the same in every package: `artifact/vulkan.c` declares what is used of
//! Vulkan, and `artifact/host.c` calls it. The driver is loaded when a program runs, so that only a C compiler is
//! needed to build it.

use ir_core::{Diagnostics, Module, Verified};
use target_core::gpu::host::{Code, Host};
use target_core::gpu::plan::buffer_bytes;
use target_core::package::c::string;
use target_core::package::{Contents, File, Model};
use te::loops::parameters;

use crate::SpirvTarget;
use crate::codegen::{Shader, shaders};
use crate::instructions::Capability;

/// The files of `model`.
pub(crate) fn package(
    target: &SpirvTarget,
    module: Verified<'_, Module>,
    model: &Model,
) -> Result<Vec<File>, Diagnostics> {
    let options = &target.options;
    let text = format!("spirv{{threads={},shared={}}}", options.threads, options.shared);
    let about = ("spirv", text, "a Vulkan 1.1 device");
    let mut host = Host::new(module.get(), model, &target.gpu, about)?;
    host.wanted = options.device.clone();
    // Lists of calls are no shaders, and what is never called is left out.
    let called = |shader: &Shader| {
        let mut sites = host.sites.iter();
        !shader.launch.is_empty() && sites.any(|site| site.kernel == shader.kernel)
    };
    let shaders: Vec<Shader> = shaders(module, &target.gpu)?.into_iter().filter(called).collect();
    let tables = tables(module.get(), &host, &shaders);
    let name = &model.name;
    let code = shaders.into_iter().enumerate().map(|(index, Shader { words, .. })| Code {
        bytes: 4 * words.len(),
        file: File { name: format!("shaders/{index}.spv"), contents: Contents::Words(words) },
        symbol: format!("{name}_shader_{index}"),
    });
    let code = code.collect();
    let driver = tables + include_str!("artifact/vulkan.c") + include_str!("artifact/host.c");
    Ok(host.files(&driver, code))
}

/// The tables of shaders, launches, the buffers that are bound, and what is needed of a device.
fn tables(module: &Module, host: &Host<'_>, shaders: &[Shader]) -> String {
    let name = &host.model.name;
    let (mut launches, mut bound, mut bounds, mut count) = (String::new(), String::new(), 0, 0);
    for site in &host.sites {
        let shader = shaders.iter().enumerate().find(|(_, one)| one.kernel == site.kernel);
        // What runs on no thread is no launch.
        let Some((index, shader)) = shader else { continue };
        let first = bounds;
        let places = site.places.iter().zip(&shader.bindings).enumerate();
        for (binding, (place, _)) in places.filter(|(_, (_, is_bound))| **is_bound) {
            let part = host.plan.part(*place);
            bound += &format!("    {{{binding}, {{{}, {}}}}},\n", part.offset, part.bytes.max(4));
            bounds += 1;
        }
        let ([x, y, z], own) = (shader.launch.blocks, bounds - first);
        launches += &format!("    {{{index}, {{{x}, {y}, {z}}}, {first}, {own}}},\n");
        count += 1;
    }
    let rows: String = shaders
        .iter()
        .enumerate()
        .map(|(index, shader)| {
            let (bytes, entry) = (4 * shader.words.len(), string(shader.kernel.as_str()));
            let bindings = shader.bindings.len();
            format!("    {{(const void *){name}_shader_{index}, {bytes}, {entry}, {bindings}}},\n")
        })
        .collect();
    let most_bindings = shaders.iter().map(|shader| shader.bindings.len()).max().unwrap_or(0);
    format!(
        "
/* ---- shaders and launches --------------------------------------------------------------------- */

/* A shader. Its buffers are bound from 0 on. */
struct shader {{
    const uint32_t *words;
    size_t bytes;
    const char *entry;
    uint32_t bindings;
}};

/* A launch of a shader on so many blocks. Its buffers are `count` of those below, from `first` on. */
struct launch {{
    uint32_t shader;
    uint32_t blocks[3];
    uint32_t first;
    uint32_t count;
}};

/* A buffer of a launch. */
struct bound {{
    uint32_t binding;
    struct part part;
}};

enum {{ SHADERS = {}, LAUNCHES = {count}, BOUND = {bounds}, MOST_BINDINGS = {most_bindings} }};

static const struct shader shaders[SHADERS + 1] = {{
{rows}    {{NULL, 0, NULL, 0}},
}};

static const struct launch launches[LAUNCHES + 1] = {{
{launches}    {{0, {{0, 0, 0}}, 0, 0}},
}};

static const struct bound bound[BOUND + 1] = {{
{bound}    {{0, {{0, 0}}}},
}};

{}",
        shaders.len(),
        needs(module, shaders)
    )
}

/// What `shaders` need of a device.
fn needs(module: &Module, shaders: &[Shader]) -> String {
    let most = |count: &dyn Fn(&Shader) -> i64| shaders.iter().map(count).max().unwrap_or(0);
    let by_axis = |counts: &dyn Fn(&Shader) -> [i64; 3]| {
        let axes = [0, 1, 2].map(|axis| most(&|shader| counts(shader)[axis]).to_string());
        axes.join(", ")
    };
    let has = |capability| shaders.iter().any(|shader| shader.capabilities.contains(&capability));
    let has = |capability| i32::from(has(capability));
    let buffers = most(&|shader| shader.bindings.iter().filter(|bound| **bound).count() as i64);
    let largest = |shader: &Shader| {
        let item = module.items.get(&shader.kernel);
        let params = item.map_or(&[][..], |item| parameters(&item.signature));
        let bytes = params.iter().filter_map(|ty| buffer_bytes(*ty)).max();
        i64::try_from(bytes.unwrap_or(0)).unwrap_or(i64::MAX)
    };
    format!(
        "/* What the shaders need of a device: numbers of buffers, bytes, blocks and threads, and features. */
static const struct {{
    uint32_t buffers;
    uint64_t buffer_bytes;
    uint32_t shared_bytes;
    uint32_t block_threads;
    uint32_t threads[3];
    uint32_t blocks[3];
    uint32_t float64;
    uint32_t int64;
    uint32_t int16;
    uint32_t float16;
    uint32_t storage16;
    uint32_t storage8;
}} needed = {{
    .buffers = {buffers},
    .buffer_bytes = {},
    .shared_bytes = {},
    .block_threads = {},
    .threads = {{{}}},
    .blocks = {{{}}},
    .float64 = {},
    .int64 = {},
    .int16 = {},
    .float16 = {},
    .storage16 = {},
    .storage8 = {},
}};
",
        most(&largest),
        most(&|shader| shader.shared as i64),
        most(&|shader| shader.launch.threads.iter().product()),
        by_axis(&|shader| shader.launch.threads),
        by_axis(&|shader| shader.launch.blocks),
        has(Capability::Float64),
        has(Capability::Int64),
        has(Capability::Int16),
        has(Capability::Float16),
        has(Capability::StorageBuffer16BitAccess),
        has(Capability::StorageBuffer8BitAccess),
    )
}
