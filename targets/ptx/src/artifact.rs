//! Packages of programs for NVIDIA's devices: the code as PTX, and C that calls the driver.
//!
//! `kernels.ptx` has an entry for each launch, and the driver translates it for the device that it finds.
//! `NAME.c` is the tables of [what all devices have in common](target_core::gpu::host), tables of entries
//! and launches, and `artifact/host.c`, which is the same in every package. It loads the driver when a program
//! runs, so that only a C compiler is needed to build it.

use ir_core::{Diagnostics, Module, Verified};
use target_core::gpu::host::{Code, Host};
use target_core::package::c::string;
use target_core::package::{Contents, File, Model};

use crate::PtxTarget;
use crate::codegen::{Entry, Source};

/// The files of `model`.
pub(crate) fn package(
    target: &PtxTarget,
    module: Verified<'_, Module>,
    model: &Model,
) -> Result<Vec<File>, Diagnostics> {
    let arch = target.options.arch.number();
    let about = ("ptx", format!("ptx{{arch=sm_{arch}}}"), "an NVIDIA device");
    let host = Host::new(module.get(), model, &target.gpu, about)?;
    let Source { text, entries } = target.source(module)?;
    let symbol = format!("{}_kernels", model.name);
    let tables = tables(&host, &entries, arch, &symbol);
    let file = File { name: "kernels.ptx".to_string(), contents: Contents::Text(text.clone()) };
    let code = Code { file, bytes: text.len() + 1, symbol };
    Ok(host.files(&(tables + include_str!("artifact/host.c")), vec![code]))
}

/// The tables of entries, launches and their buffers.
fn tables(host: &Host<'_>, entries: &[Entry], arch: u32, symbol: &str) -> String {
    let (mut launches, mut bound) = (String::new(), String::new());
    let (mut count, mut bounds, mut most) = (0, 0, 0);
    for site in &host.sites {
        let entry = entries.iter().enumerate().find(|(_, entry)| entry.kernel == site.kernel);
        // What runs on no thread is no launch.
        let Some((index, entry)) = entry.filter(|(_, entry)| !entry.launch.is_empty()) else {
            continue;
        };
        let ([x, y, z], [i, j, k]) = (entry.launch.blocks, entry.launch.threads);
        let own = site.places.len();
        launches +=
            &format!("    {{{index}, {{{x}, {y}, {z}}}, {{{i}, {j}, {k}}}, {bounds}, {own}}},\n");
        for place in &site.places {
            bound += &format!("    {},\n", host.plan.part(*place).offset);
        }
        count += 1;
        bounds += own;
        most = most.max(own);
    }
    let names: String =
        entries.iter().map(|entry| format!("    {},\n", string(&entry.name))).collect();
    format!(
        "
/* ---- code and launches ------------------------------------------------------------------------ */

/* The text of the code, which ends with a zero. */
static const unsigned char *const code = {symbol};

/* The compute capability that it needs. */
enum {{ CAPABILITY = {arch} }};

/* A launch of an entry on so many blocks and threads. Its parameters are the addresses of its buffers, which
   are `count` of those below, from `first` on. */
struct launch {{
    unsigned entry;
    unsigned blocks[3];
    unsigned threads[3];
    unsigned first;
    unsigned count;
}};

enum {{ ENTRIES = {}, LAUNCHES = {count}, BOUND = {bounds}, MOST_BUFFERS = {most} }};

static const char *const entries[ENTRIES + 1] = {{
{names}    NULL,
}};

static const struct launch launches[LAUNCHES + 1] = {{
{launches}    {{0, {{0, 0, 0}}, {{0, 0, 0}}, 0, 0}},
}};

/* Where buffers of launches start, in the memory of the device. */
static const uint64_t bound[BOUND + 1] = {{
{bound}    0,
}};
",
        entries.len()
    )
}
