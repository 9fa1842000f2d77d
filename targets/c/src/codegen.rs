//! From verified kernels to C text.
//!
//! One function per kernel. Loops are cut where what they choose changes (`cuts.rs`). Then analyses look at the body
//! once each:
//!
//! 1. *ranges*: which numbers an integer may be; they prove that plain C arithmetic is exact, and
//!    only what they cannot prove goes through functions that wrap;
//! 2. *affine*: indices as sums of products with constants;
//! 3. *plan*: which values get a variable, and which are written where they are used;
//! 4. *layout*: which buffers are variables, stack arrays, or places in the workspace;
//! 5. *chains*: which choices are between parts that follow one another;
//! 6. *arms*: which choices may be branches.
//!
//! Then the text is written in program order, each expression from the text of its operands.
//! **Equal modules give equal text.**

mod arms;
mod chains;
mod cuts;
mod expr;
mod helpers;
mod in_place;
mod kept;
mod kernel;
mod layout;
mod loads;
mod math;
mod plan;
mod program;
mod transposes;
mod values;
mod words;

use indexmap::{IndexMap, IndexSet};
use ir_core::diagnostics::{Diagnostic, Diagnostics};
use ir_core::{Body, Item, Module, Symbol, Verified};
use rustc_hash::{FxBuildHasher, FxHashMap};
use target_core::package::c::{Names, comment, is_name};
use target_core::{Kernel, affine, ranges};
use te::checks::CHECKS;
use te::loops::{Call, KERNEL, outputs, parameters};

use helpers::Helpers;
use kept::Kept;
use kernel::{Callee, Callees, Written};

/// What the text looks like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Style {
    /// Width of GNU vectors in bits; 0 for pure C11.
    pub vector_bits: usize,
    /// How many threads parallel loops are for. More run them as well, but those that need memory for each of
    /// their parts are in few parts.
    pub threads: usize,
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
    /// Declarations of the functions that whoever links the code provides.
    pub externals: Vec<String>,
}

/// How the entry of a kernel is called.
pub(crate) fn entry_name(symbol: &str) -> String {
    format!("{symbol}_entry")
}

/// The variable that holds the caller's parallel loop.
pub(crate) fn hook_name(prefix: &str) -> String {
    format!("{prefix}parallel_hook")
}

/// The variable that holds what computes operators that a program leaves to others.
pub(crate) fn operate_name(prefix: &str) -> String {
    program::operate_name(prefix)
}

/// What `what` of a whole program is called, where names start with `prefix`.
pub(crate) fn program_name(prefix: &str, what: &str) -> String {
    program::name(prefix, what)
}

/// The kernels of `module` in C. The errors are those of all kernels.
pub fn generate(module: Verified<'_, Module>, style: &Style) -> Result<Source, Diagnostics> {
    let mut sources = generate_parts(module, style, 1)?;
    Ok(sources.swap_remove(0))
}

/// The kernels of `module` in one to `parts` files of about the same size, which can be compiled at
/// a time and are linked together.
pub fn generate_parts(
    module: Verified<'_, Module>,
    style: &Style,
    parts: usize,
) -> Result<Vec<Source>, Diagnostics> {
    // A compiler takes longer to start than for so many operations.
    const WORTHWHILE: usize = 1000;
    let module = module.get();
    let kernels = kernels_of(module, style);
    let is_program = program::is_program(module);
    let written = write_kernels(&kernels, style, is_program)?;
    let program = match is_program {
        true => Some(write_program(module, style, &kernels, &written)?),
        false => None,
    };
    let sizes: Vec<usize> = written.keys().map(|name| kernels[name].body.op_count()).collect();
    let parts = parts.min(sizes.iter().sum::<usize>() / WORTHWHILE + 1).max(1);
    // The largest first, each into the part that is smallest so far.
    let mut largest_first: Vec<usize> = (0..sizes.len()).collect();
    largest_first.sort_by_key(|kernel| std::cmp::Reverse(sizes[*kernel]));
    // The program is the first file, with the kernels of scalars, so that these can be inlined.
    const PROGRAM: usize = 0;
    let mut loads = vec![0usize; parts];
    if program.is_some() && parts > 1 {
        loads[PROGRAM] = usize::MAX;
    }
    let mut part_of = vec![0usize; sizes.len()];
    for kernel in largest_first {
        let (name, one) = written.get_index(kernel).expect("all kernels have sizes");
        if program.is_some() && program::is_scalar(one, parameters(&kernels[name].item.signature)) {
            part_of[kernel] = PROGRAM;
            continue;
        }
        let part = (0..parts).min_by_key(|part| loads[*part]).expect("there is a part");
        loads[part] += sizes[kernel];
        part_of[kernel] = part;
    }
    // One of the files holds the variable of the caller's parallel loop.
    let mut loops = written.values().zip(&part_of).filter(|(one, _)| one.has_parallel_loops);
    let holder = loops.next().map(|(_, part)| *part);
    let sources = (0..parts).map(|part| {
        let mine = written.iter().zip(&part_of).filter(|(_, of)| **of == part);
        let mine = mine.map(|((name, one), _)| (*name, one)).collect();
        let program = program.as_ref().filter(|_| part == PROGRAM);
        assemble(&kernels, style, mine, &written, holder == Some(part), program)
    });
    Ok(sources.collect())
}

/// The functions of a program that calls the kernels `written`.
fn write_program(
    module: &Module,
    style: &Style,
    kernels: &Kernels<'_>,
    written: &IndexMap<Symbol, Written, FxBuildHasher>,
) -> Result<program::Text, Diagnostics> {
    let called = |name: Symbol| {
        let (symbol, one) = (kernels.get(&name)?.symbol.clone(), written.get(&name)?);
        let (workspace, takes_threads) = (one.workspace, one.takes_threads);
        Some(program::Called { symbol, workspace, takes_threads, in_place: one.in_place })
    };
    program::write(module, style, &called)
}

/// A kernel to write.
struct Unwritten<'m> {
    item: &'m Item,
    body: &'m Body,
    /// Its function.
    symbol: String,
}

/// The kernels with a body, in the order of the module.
type Kernels<'m> = IndexMap<Symbol, Unwritten<'m>, FxBuildHasher>;

fn kernels_of<'m>(module: &'m Module, style: &Style) -> Kernels<'m> {
    let items = module.items.iter().filter(|(_, item)| item.signature.op.as_str() == KERNEL);
    let mut names = Names::default();
    // Is the function that runs parallel loops.
    names.fresh_public(&format!("{}parallel", style.prefix));
    let items: Vec<_> =
        items.filter_map(|(name, item)| Some((*name, item, item.body.as_deref()?))).collect();
    for name in items.iter().filter_map(|(_, item, _)| kernel::external(item, style)) {
        names.fresh_public(&name);
    }
    let kernel = |(name, item, body): (Symbol, &'m Item, &'m Body)| {
        let base = format!("{}{}", style.prefix, name.as_str());
        let base = match program::is_own_name(&style.prefix, &base) {
            true => format!("{}kernel_{}", style.prefix, name.as_str()),
            false => base,
        };
        let own = || names.fresh_public(&base);
        let symbol = kernel::external(item, style).unwrap_or_else(own);
        (name, Unwritten { item, body, symbol })
    };
    items.into_iter().map(kernel).collect()
}

/// The functions of all kernels, callees before callers, since these need the size of their
/// workspace. Those of a program may change operands where they are.
fn write_kernels(
    kernels: &Kernels<'_>,
    style: &Style,
    is_program: bool,
) -> Result<IndexMap<Symbol, Written, FxBuildHasher>, Diagnostics> {
    let mut callees = Callees::default();
    let mut errors = Diagnostics::new();
    let mut externals: FxHashMap<String, Vec<String>> = FxHashMap::default();
    let mut written = IndexMap::default();
    let mut pending: Vec<Symbol> = kernels.keys().copied().collect();
    while !pending.is_empty() {
        let ready = |name: &Symbol| {
            let body = kernels[name].body;
            body.walk().filter_map(|op| body.view::<Call>(op)).all(|call| {
                callees.known.contains_key(&call.kernel) || !kernels.contains_key(&call.kernel)
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
            let Unwritten { item, body, symbol } = &kernels[&name];
            match kernel::write(item, body, symbol, style, is_program, &callees) {
                Ok(one) => {
                    if one.is_external {
                        let types = externals.entry(symbol.clone()).or_insert(one.types.clone());
                        if *types != one.types {
                            let message = format!("`{symbol}` is declared with other parameters");
                            let error = Diagnostic::error("E0902", message);
                            errors.push(error.at(item.signature.span));
                        }
                    }
                    let callee = Callee {
                        symbol: symbol.clone(),
                        workspace: one.workspace,
                        writes: one.writes.clone(),
                        takes_threads: one.takes_threads,
                    };
                    callees.known.insert(name, callee);
                    written.insert(name, one);
                }
                Err(found) => {
                    callees.known.insert(name, Callee::default());
                    errors.extend(found);
                }
            }
        }
        pending = later;
    }
    if errors.is_empty() { Ok(written) } else { Err(errors) }
}

/// The file of the kernels `written`; those that they call may lie in others. `holds_hook` is
/// whether this file is the one that holds the variable of the caller's parallel loop.
fn assemble(
    kernels: &Kernels<'_>,
    style: &Style,
    written: IndexMap<Symbol, &Written, FxBuildHasher>,
    all: &IndexMap<Symbol, Written, FxBuildHasher>,
    holds_hook: bool,
    program: Option<&program::Text>,
) -> Source {
    let prefix = &style.prefix;
    let mut text = preamble(style, &written, holds_hook);
    let mut prototypes = String::new();
    let mut externals: IndexMap<&str, String, FxBuildHasher> = IndexMap::default();
    let (mut entries, mut take_threads) = (Vec::new(), Vec::new());
    for (name, Unwritten { item, symbol, .. }) in kernels {
        let Some(one) = written.get(name) else { continue };
        if one.is_external {
            externals.entry(symbol).or_insert_with(|| one.prototype.replace("restrict ", ""));
            continue;
        }
        prototypes += &format!("{};\n", one.prototype);
        if one.takes_threads {
            take_threads.push(name.to_string());
        }
        entries.push(Kernel {
            name: name.as_str().to_string(),
            symbol: symbol.clone(),
            names: one.names.clone(),
            params: parameters(&item.signature).to_vec(),
            outputs: outputs(&item.signature),
            workspace: one.workspace,
        });
    }
    let externals: Vec<String> = externals.into_values().collect();
    let provided = provided(&externals);
    text += "\n";
    text += &provided;
    text += &prototypes;
    let elsewhere: IndexSet<Symbol, FxBuildHasher> = written
        .values()
        .flat_map(|one| one.callees.iter().copied())
        .chain(program.into_iter().flat_map(|program| program.callees.iter().copied()))
        .filter(|name| !written.contains_key(name))
        .collect();
    for one in elsewhere.iter().filter_map(|name| all.get(name)) {
        text += &format!("{};\n", one.prototype);
    }
    if program.is_some() {
        text += &inlined(written.values().copied());
    }
    for (name, one) in written.iter().filter(|(_, one)| !one.is_external) {
        text += "\n";
        let Unwritten { item, symbol, .. } = &kernels[name];
        let ty = item.signature.ty.to_string();
        text += &format!("/* @{name}: {}{} */\n", comment(&ty), told(item, one));
        text += &one.text;
        if style.entries {
            text += "\n";
            text += &entry(symbol, one);
        }
    }
    if let Some(program) = program {
        text += &program.text;
        entries.push(program.kernel.clone());
    }
    let header = header(prefix, &entries, &provided, &prototypes);
    Source { text, header, kernels: entries, take_threads, externals }
}

/// Tells a compiler that makes shared objects that nobody replaces these kernels, so that it may
/// inline them.
fn inlined<'w>(written: impl Iterator<Item = &'w Written>) -> String {
    let mut text = String::new();
    for one in written.filter(|one| !one.is_external && !one.prototype.starts_with("static")) {
        text += &format!("__attribute__((visibility(\"hidden\"))) {};\n", one.prototype);
    }
    match text.is_empty() {
        true => text,
        false => format!("#ifdef __GNUC__\n{text}#endif\n"),
    }
}

/// What stands before the kernels `written`: the functions that they call.
fn preamble(
    style: &Style,
    written: &IndexMap<Symbol, &Written, FxBuildHasher>,
    holds_hook: bool,
) -> String {
    let mut helpers = Helpers::default();
    written.values().for_each(|one| helpers.include(&one.helpers));
    let mut text = "/* Generated from tensor loops. Do not edit. */\n\n".to_string();
    text += &helpers.text();
    let mut kept = Kept::default();
    written.values().for_each(|one| kept |= one.kept);
    text += &kept.definitions(&style.prefix);
    if written.values().any(|one| one.has_parallel_loops) {
        text += "\n";
        text += &parallel(style, holds_hook);
    }
    text
}

/// The header of `kernels`: what others provide, and the prototypes.
fn header(prefix: &str, kernels: &[Kernel], provided: &str, prototypes: &str) -> String {
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
    format!(
        "/* Generated from tensor loops. Do not edit. */\n\n#ifndef {guard}\n#define {guard}\n\n\
         #include <stdint.h>\n\n{sizes}#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n{provided}{public}\n\
         #ifdef __cplusplus\n}}\n#endif\n\n#endif\n"
    )
}

/// What a kernel tells of its checks, behind its type in a comment.
fn told(item: &Item, one: &Written) -> String {
    // Most kernels check nothing, and say nothing of it.
    let messages: Vec<String> = item.signature.attrs.value(CHECKS).unwrap_or_default();
    let Some(failed) = one.names.last() else { return String::new() };
    let line = |(number, message): (usize, &String)| {
        format!("\n   {failed}[{number}] is 1 on failure: {}", comment(message))
    };
    messages.iter().enumerate().map(line).collect()
}

/// The declarations `externals`, with what they are.
pub(crate) fn provided(externals: &[String]) -> String {
    if externals.is_empty() {
        return String::new();
    }
    let list: String = externals.iter().map(|one| format!("{one};\n")).collect();
    format!(
        "/* What you provide: called with tensors that are dense, row by row, and that share no memory\n   \
         with results; on several threads at a time. */\n{list}\n"
    )
}

/// The function that runs parallel loops, and the variable of the caller's, or its declaration.
fn parallel(style: &Style, holds_hook: bool) -> String {
    let prefix = &style.prefix;
    if let Some(model) = &style.model {
        return parallel_of_model(prefix, model);
    }
    let macro_name = format!("{}PARALLEL", prefix.to_uppercase());
    let hook = hook_name(prefix);
    let own = if style.entries {
        let linkage = if holds_hook { "" } else { "extern " };
        format!(
            "{linkage}void (*{hook})(void (*)(void *, ptrdiff_t, ptrdiff_t), void *, ptrdiff_t);\n\
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

/// The function that runs parallel loops of a compiled model, on the threads that its caller has.
fn parallel_of_model(prefix: &str, model: &str) -> String {
    format!(
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
