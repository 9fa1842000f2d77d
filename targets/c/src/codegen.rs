//! From verified kernels to C text.
//!
//! One function per kernel. Before it is written, four analyses look at its body once each:
//!
//! 1. *ranges*: which numbers an integer may be; they prove that plain C arithmetic is exact, and
//!    only what they cannot prove goes through functions that wrap;
//! 2. *affine*: indices as sums of products with constants;
//! 3. *plan*: which values get a variable, and which are written where they are used;
//! 4. *layout*: which buffers are variables, stack arrays, or places in the workspace.
//!
//! Then the text is written in program order, each expression from the text of its operands.
//! **Equal modules give equal text.**

mod affine;
mod expr;
mod helpers;
mod kernel;
mod layout;
mod math;
mod names;
mod plan;
mod ranges;
mod values;

use indexmap::IndexMap;
use ir_core::diagnostics::Diagnostic;
use ir_core::{Module, Symbol, Verified};
use rustc_hash::{FxBuildHasher, FxHashMap};
use target_core::Kernel;
use te::loops::{Call, KERNEL, OUTPUTS};

pub(crate) use expr::storage;
use helpers::Helpers;
use kernel::{Callee, Callees, Written};

/// What the text looks like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Style {
    /// Width of GNU vectors in bits; 0 for pure C11.
    pub vector_bits: usize,
    /// What all public names start with.
    pub prefix: String,
    /// Whether each kernel also gets a function of a list of buffers, for callers that know its
    /// type at run time only, and parallel loops run on the threads of that caller.
    pub entries: bool,
    /// The model that the kernels belong to, if they do: they are `static` then, and take the
    /// threads that parallel loops run on, of type `NAME_threads`.
    pub model: Option<String>,
}

/// Generated code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// The source file.
    pub text: String,
    /// A header that declares its functions.
    pub header: String,
    /// The kernels, in the order of the module.
    pub kernels: Vec<Kernel>,
    /// The kernels whose last parameter is the caller's threads, in the same order.
    pub take_threads: Vec<String>,
}

/// How the entry of a kernel is called.
pub(crate) fn entry_name(symbol: &str) -> String {
    format!("{symbol}_entry")
}

/// The variable that holds the caller's parallel loop.
pub(crate) fn hook_name(prefix: &str) -> String {
    format!("{prefix}parallel_hook")
}

/// Whether `name` can be what public names start with.
pub(crate) fn is_name(name: &str) -> bool {
    names::Names::default().fresh(name) == name
}

/// The kernels of `module` in C. The errors are those of all kernels.
pub fn generate(module: Verified<'_, Module>, style: &Style) -> Result<Source, Vec<Diagnostic>> {
    let kernels = kernels_of(module.get());
    generate_some(module.get(), style, &symbols_of(&kernels, style), kernels)
}

/// The kernels of `module` in at most `parts` files that can be compiled at a time. Kernels that
/// call one another are in one file.
pub fn generate_parts(
    module: Verified<'_, Module>,
    style: &Style,
    parts: usize,
) -> Result<Vec<Source>, Vec<Diagnostic>> {
    // A compiler takes longer to start than for so many operations.
    const WORTHWHILE: usize = 400;
    let module = module.get();
    let kernels = kernels_of(module);
    let symbols = symbols_of(&kernels, style);
    let size = |name: &Symbol| module.body(*name).map_or(0, |body| body.op_count());
    let total: usize = kernels.iter().map(size).sum();
    let parts = parts.min(total / WORTHWHILE + 1).max(1);
    // Each kernel joins the group of the first one that it is connected to.
    let mut group: IndexMap<Symbol, usize, FxBuildHasher> =
        kernels.iter().enumerate().map(|(index, name)| (*name, index)).collect();
    for name in &kernels {
        let Some(body) = module.body(*name) else { continue };
        for call in body.walk().filter_map(|op| body.view::<Call>(op)) {
            let (Some(&one), Some(&other)) = (group.get(name), group.get(&call.kernel)) else {
                continue;
            };
            let (kept, dropped) = (one.min(other), one.max(other));
            group.values_mut().filter(|group| **group == dropped).for_each(|group| *group = kept);
        }
    }
    let mut sizes: IndexMap<usize, usize, FxBuildHasher> = IndexMap::default();
    for (name, group) in &group {
        *sizes.entry(*group).or_default() += size(name);
    }
    // The largest first, each into the part that is smallest so far.
    sizes.sort_by(|one, size, other, other_size| other_size.cmp(size).then(one.cmp(other)));
    let mut loads = vec![0usize; parts];
    let mut part_of: FxHashMap<usize, usize> = FxHashMap::default();
    for (group, size) in &sizes {
        let part = (0..parts).min_by_key(|part| loads[*part]).unwrap_or(0);
        loads[part] += size;
        part_of.insert(*group, part);
    }
    let (mut sources, mut errors) = (Vec::new(), Vec::new());
    for part in 0..parts {
        let mine = |name: &&Symbol| group.get(*name).and_then(|g| part_of.get(g)) == Some(&part);
        let mine: Vec<Symbol> = kernels.iter().filter(mine).copied().collect();
        if mine.is_empty() && part > 0 {
            continue;
        }
        match generate_some(module, style, &symbols, mine) {
            Ok(source) => sources.push(source),
            Err(mut found) => errors.append(&mut found),
        }
    }
    if errors.is_empty() { Ok(sources) } else { Err(errors) }
}

fn kernels_of(module: &Module) -> Vec<Symbol> {
    let kernels = module
        .items
        .iter()
        .filter(|(_, item)| item.signature.op.as_str() == KERNEL && item.body.is_some());
    kernels.map(|(name, _)| *name).collect()
}

/// The functions of kernels.
fn symbols_of(kernels: &[Symbol], style: &Style) -> Vec<(Symbol, String)> {
    let mut names = names::Names::default();
    // Is the function that runs parallel loops.
    names.fresh(&format!("{}parallel", style.prefix));
    let symbol =
        |name: &Symbol| (*name, names.fresh(&format!("{}{}", style.prefix, name.as_str())));
    kernels.iter().map(symbol).collect()
}

fn generate_some(
    module: &Module,
    style: &Style,
    symbols: &[(Symbol, String)],
    mut pending: Vec<Symbol>,
) -> Result<Source, Vec<Diagnostic>> {
    let mut helpers = Helpers::default();
    let mut callees = Callees::default();
    let mut errors = Vec::new();
    let symbol_of = |name: Symbol| symbols.iter().find(|(other, _)| *other == name);
    // Callees first, since callers need the size of their workspace.
    let mut written: Vec<(Symbol, Written)> = Vec::new();
    while !pending.is_empty() {
        let ready = |name: &Symbol| {
            let Some(body) = module.body(*name) else { return true };
            body.walk().filter_map(|op| body.view::<Call>(op)).all(|call| {
                callees.known.contains_key(&call.kernel) || symbol_of(call.kernel).is_none()
            })
        };
        let (now, later): (Vec<Symbol>, Vec<Symbol>) = pending.iter().partition(|name| ready(name));
        if now.is_empty() {
            let list: Vec<String> = later.iter().map(|name| format!("`@{name}`")).collect();
            let message = format!("kernels call one another in a circle: {}", list.join(", "));
            errors.push(Diagnostic::error("E0902", message));
            break;
        }
        for name in now {
            let (Some(item), Some((_, symbol))) = (module.get(name), symbol_of(name)) else {
                continue;
            };
            let Some(body) = &item.body else { continue };
            match kernel::write(item, body, symbol, &mut helpers, style, &callees) {
                Ok(one) => {
                    let callee = Callee {
                        symbol: symbol.clone(),
                        workspace: one.workspace,
                        writes: one.writes.clone(),
                        takes_threads: one.takes_threads,
                    };
                    callees.known.insert(name, callee);
                    written.push((name, one));
                }
                Err(mut found) => {
                    callees.known.insert(name, Callee::default());
                    errors.append(&mut found);
                }
            }
        }
        pending = later;
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(assemble(module, style, &helpers, symbols, &written))
}

fn assemble(
    module: &Module,
    style: &Style,
    helpers: &Helpers,
    symbols: &[(Symbol, String)],
    written: &[(Symbol, Written)],
) -> Source {
    let prefix = &style.prefix;
    let mut text = "/* Generated from tensor loops. Do not edit. */\n\n".to_string();
    text += &helpers.text();
    if written.iter().any(|(_, one)| one.has_parallel_loops) {
        text += "\n";
        text += &parallel(style);
    }
    let mut prototypes = String::new();
    let (mut kernels, mut take_threads) = (Vec::new(), Vec::new());
    for (name, symbol) in symbols {
        let Some((_, one)) = written.iter().find(|(other, _)| other == name) else { continue };
        let Some(item) = module.get(*name) else { continue };
        prototypes += &format!("{};\n", one.prototype);
        let params = match item.signature.ty.as_function() {
            Some(function) => function.params.to_vec(),
            None => vec![],
        };
        let outputs: i64 = item.signature.attrs.value(OUTPUTS).unwrap_or(0);
        if one.takes_threads {
            take_threads.push(name.to_string());
        }
        kernels.push(Kernel {
            name: name.as_str().to_string(),
            symbol: symbol.clone(),
            names: one.names.clone(),
            params,
            outputs: usize::try_from(outputs).unwrap_or(0),
            workspace: one.workspace,
        });
    }
    text += "\n";
    text += &prototypes;
    for (name, one) in written {
        text += "\n";
        let ty = module.get(*name).map(|item| item.signature.ty.to_string()).unwrap_or_default();
        text += &format!("/* @{name}: {} */\n", ty.replace("*/", "* /"));
        text += &one.text;
        if style.entries
            && let Some((_, symbol)) = symbols.iter().find(|(other, _)| other == name)
        {
            text += "\n";
            text += &entry(symbol, one);
        }
    }
    let guard = format!("{}KERNELS_H", prefix.to_uppercase());
    let mut sizes = String::new();
    for kernel in kernels.iter().filter(|kernel| kernel.workspace > 0) {
        let name = kernel.symbol.to_uppercase();
        sizes += &format!("#define {name}_WORKSPACE_BYTES {}u\n", kernel.workspace);
    }
    let sizes = match sizes.is_empty() {
        true => sizes,
        false => format!(
            "/* A workspace is aligned to 64 bytes; calls at one time need their own. */\n{sizes}\n"
        ),
    };
    let public = prototypes.replace("restrict ", "");
    let header = format!(
        "/* Generated from tensor loops. Do not edit. */\n\n#ifndef {guard}\n#define {guard}\n\n\
         #include <stdint.h>\n\n{sizes}#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n{public}\n\
         #ifdef __cplusplus\n}}\n#endif\n\n#endif\n"
    );
    Source { text, header, kernels, take_threads }
}

/// The function that runs parallel loops.
fn parallel(style: &Style) -> String {
    let prefix = &style.prefix;
    if let Some(model) = &style.model {
        return format!(
            "\
/* Runs `body` on ranges that cover 0 to `count`: on `threads`, where there are some; else by OpenMP,
   where that is on; else here. */
static void {prefix}parallel(const {model}_threads *threads, void (*body)(void *, ptrdiff_t, ptrdiff_t),
                        void *captures, ptrdiff_t count)
{{
    if (threads != NULL) {{
        threads->run(threads->context, body, captures, count);
        return;
    }}
#if defined(_OPENMP)
#pragma omp parallel for schedule(static)
    for (ptrdiff_t index = 0; index < count; index++) {{
        body(captures, index, index + 1);
    }}
#else
    body(captures, 0, count);
#endif
}}
"
        );
    }
    let macro_name = format!("{}PARALLEL", prefix.to_uppercase());
    let hook = hook_name(prefix);
    let own = if style.entries {
        format!(
            "void (*{hook})(void (*)(void *, ptrdiff_t, ptrdiff_t), void *, ptrdiff_t);\n\
             #define {macro_name}(body, captures, count) \\\n    \
             do {{ \\\n        if ({hook} != NULL) {{ \\\n            \
             {hook}(body, captures, count); \\\n        }} else {{ \\\n            \
             body(captures, 0, count); \\\n        }} \\\n    }} while (0)\n\n"
        )
    } else {
        String::new()
    };
    format!(
        "\
/* Runs `body` on ranges that cover 0 to `count`: by {macro_name}(body, captures, count), where it
   is defined, for threads of your own; else by OpenMP, where that is on; else one by one. */
{own}static void {prefix}parallel(void (*body)(void *, ptrdiff_t, ptrdiff_t), void *captures,
                        ptrdiff_t count)
{{
#if defined({macro_name})
    {macro_name}(body, captures, count);
#elif defined(_OPENMP)
#pragma omp parallel for schedule(static)
    for (ptrdiff_t index = 0; index < count; index++) {{
        body(captures, index, index + 1);
    }}
#else
    body(captures, 0, count);
#endif
}}
"
    )
}

/// A function that takes the buffers of a kernel as a list.
fn entry(symbol: &str, one: &Written) -> String {
    let mut arguments: Vec<String> =
        one.types.iter().enumerate().map(|(index, ty)| format!("({ty})buffers[{index}]")).collect();
    let mut unused = String::new();
    match one.workspace > 0 {
        true => arguments.push("workspace".to_string()),
        false => unused += "    (void)workspace;\n",
    }
    if one.types.is_empty() {
        unused += "    (void)buffers;\n";
    }
    let name = entry_name(symbol);
    let parameters = "(void *const *buffers, unsigned char *workspace)";
    format!(
        "void {name}{parameters};\nvoid {name}{parameters}\n{{\n{unused}    {symbol}({});\n}}\n",
        arguments.join(", ")
    )
}
