//! Whole programs: functions that own what they compute with, as C.
//!
//! Everything lies in one block of memory of the caller: the program's state, then the heap, which
//! grows upwards; frames of pending calls, from the end downwards. Where they meet, the program ends
//! with a status, and may be run again with a larger block. Nothing is undone then: whoever runs it
//! drops the block.
//!
//! - A scalar is a variable. A tensor is the address of its elements and its owner: an object on the
//!   heap, or [`NOBODY`] for inputs and constants. Data and cells are objects. A constructor without
//!   fields is a number, told apart from addresses by its last bit.
//! - An object starts with the number of its owners and its *kind*, which says how many addresses of
//!   other objects follow, and which memory it can be reused for. What it loses its last owner of is
//!   freed at once, by a list that is threaded through the dead: nothing recurses.
//! - Functions that call one another in a circle are one C function ([`groups`]); a call inside of it
//!   that something waits for pushes a frame of what is needed afterwards, and jumps. So recursion
//!   takes no C stack, and tail calls take no memory at all.

mod groups;
mod kinds;
mod runtime;
mod writer;

use indexmap::IndexSet;
use ir_core::{Diagnostic, Diagnostics, Module, Symbol, Type};
use prog::columns::Layout;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use target_core::whole::{Interface, MAIN, Place, State};
use target_core::{ALIGNMENT, Kernel};

use super::in_place::InPlace;
use super::{Style, Written, entry_name};
use crate::codegen::expr::storage;
use kinds::Kinds;

/// What the names of everything here start with, behind the prefix of all names.
const PREFIX: &str = "program_";

/// A program in C.
pub(super) struct Text {
    /// Its functions, and the entry.
    pub(super) text: String,
    /// What callers see: its inputs, then constants, then results, and last its state.
    pub(super) kernel: Kernel,
    /// The kernels that it calls.
    pub(super) callees: Vec<Symbol>,
}

/// What a writer knows of everything else.
struct Context<'a> {
    module: &'a Module,
    /// What names start with.
    prefix: String,
    kernels: &'a dyn Fn(Symbol) -> Option<Called>,
    kinds: Kinds,
    /// The first site of each operation that has some, by function.
    sites: FxHashMap<(Symbol, ir_core::OpId), usize>,
    /// The number of each operation that whoever runs the program computes, by function.
    operators: FxHashMap<(Symbol, ir_core::OpId), usize>,
    /// The number of each constant.
    constants: FxHashMap<ir_core::Attr, usize>,
    /// The functions that are called from outside of their group.
    entered: FxHashSet<Symbol>,
    /// What is counted.
    counters: IndexSet<Symbol, FxBuildHasher>,
}

/// A kernel as the program calls it.
pub(super) struct Called {
    /// Its function.
    pub(super) symbol: String,
    /// The bytes of its workspace.
    pub(super) workspace: usize,
    /// Whether it takes threads.
    pub(super) takes_threads: bool,
    /// The operand and the result that may be one buffer.
    pub(super) in_place: Option<InPlace>,
}

/// Whether `module` is a whole program.
pub(super) fn is_program(module: &Module) -> bool {
    module.get(MAIN).is_some_and(|item| item.signature.op == prog::FUNC)
}

/// The names that the C of a program has for itself.
pub(super) fn is_own_name(prefix: &str, name: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|name| name.starts_with(PREFIX))
}

/// What `what` of a program is called.
pub(super) fn name(prefix: &str, what: &str) -> String {
    format!("{prefix}{PREFIX}{what}")
}

/// The program of `module` in C. `written` are its kernels.
pub(super) fn write(
    module: &Module,
    style: &Style,
    written: &dyn Fn(Symbol) -> Option<Called>,
) -> Result<Text, Diagnostics> {
    let prefix = format!("{}{PREFIX}", style.prefix);
    let constants = prog::sites::constants(module);
    let mut sites = FxHashMap::default();
    for (number, site) in prog::sites::of(module).iter().enumerate() {
        sites.entry((site.function, site.op)).or_insert(number);
    }
    let numbers = constants.keys().enumerate().map(|(number, key)| (*key, number)).collect();
    let kinds = Kinds::of(module)?;
    let groups = groups::of(module);
    let counters = prog::sites::counters(module);
    let entered = groups::entered(module, &groups);
    let all = prog::operators::of(module).into_iter().enumerate();
    let operators = all.map(|(number, one)| ((one.function, one.op), number)).collect();
    let cx = Context {
        module,
        prefix,
        kernels: written,
        kinds,
        sites,
        operators,
        constants: numbers,
        entered,
        counters,
    };
    refuse_unwritten(&cx)?;
    let functions: Vec<Symbol> = prog::sites::functions(module).map(|(name, _)| name).collect();
    let numbers = functions.iter().enumerate().map(|(number, name)| (*name, number));
    let numbers: FxHashMap<Symbol, usize> = numbers.collect();
    let mut text = String::new();
    let mut callees = Vec::new();
    for group in &groups {
        text += &writer::group(&cx, group, &numbers, &mut callees)?;
    }
    let interface = interface(module)?;
    let scratch = callees.iter().filter_map(|name| written(*name)).map(|called| called.workspace);
    let scratch = scratch.max().unwrap_or(0).next_multiple_of(ALIGNMENT);
    let symbol = format!("{}{MAIN}", style.prefix);
    let entry = match style.model {
        Some(_) => String::new(),
        None => entry(&cx, &symbol, &interface),
    };
    let (params, outputs) = (interface.buffers(), interface.outputs());
    let names = (0..params.len()).map(|index| format!("buffer_{index}")).collect();
    let workspace = scratch + FIRST_BLOCK;
    let kernel = Kernel { name: MAIN.to_string(), symbol, names, params, outputs, workspace };
    let threads =
        style.model.as_ref().map(|model| format!("    const {model}_threads *threads;\n"));
    let (taken, given) = (&interface.taken.data, &interface.given.data);
    let layouts = taken.iter().chain(given);
    let is_data = |layout: &&Layout| layout.sorts[0].ty.as_tensor().is_none();
    let layouts: Vec<&Layout> = layouts.filter(is_data).collect();
    let mut walks = String::new();
    if !layouts.is_empty() {
        walks += &cx.kinds.descriptions(&cx.prefix, &layouts);
        walks += runtime::WALKS;
    }
    if given.iter().any(|layout| is_data(&layout)) {
        walks += runtime::ENCODE;
    }
    if taken.iter().any(|layout| is_data(&layout)) {
        walks += &cx.kinds.sizes(&cx.prefix);
        walks += runtime::DECODE;
    }
    let walks = walks.replace("P_", &cx.prefix);
    let text = format!("{text}{walks}{}{entry}", run(&cx, &interface));
    let runtime = runtime::needed(&cx, scratch, &threads.unwrap_or_default(), &text);
    let text = format!("{}{runtime}{text}", cx.kinds.declarations(&cx.prefix));
    callees.sort_unstable_by_key(|name| module.items.get_index_of(name));
    callees.dedup();
    Ok(Text { text, kernel, callees })
}

/// Errors for the calls of kernels that are declared only, which nobody can write.
fn refuse_unwritten(cx: &Context<'_>) -> Result<(), Diagnostics> {
    let mut errors = Diagnostics::new();
    for (name, body) in prog::sites::functions(cx.module) {
        let base = cx.module.get(name).and_then(|item| item.signature.span);
        for op in body.walk() {
            let mut kernels: Vec<Symbol> =
                body.view::<prog::Kernel>(op).map(|kernel| kernel.function).into_iter().collect();
            kernels.extend(body.view::<prog::Rows>(op).into_iter().flat_map(|rows| rows.kernels));
            kernels.extend(body.view::<prog::Bounded>(op).map(|bounded| bounded.kernel));
            kernels.extend(body.view::<prog::Sized>(op).map(|sized| sized.function));
            for kernel in kernels.into_iter().filter(|kernel| (cx.kernels)(*kernel).is_none()) {
                let message = format!("`@{name}` calls `@{kernel}`, which has no body");
                let error = Diagnostic::error("E0902", message).at(body.loc(op).span(base));
                errors.push(error.help("give the kernel a body"));
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Bytes of the block that a program is run with first, besides those of its kernels.
const FIRST_BLOCK: usize = 1 << 20;

/// The C type of values of type `ty`.
fn c_type(prefix: &str, ty: Type) -> String {
    match ty.as_tensor() {
        Some(tensor) if tensor.rank() == 0 => storage(tensor.dtype).to_string(),
        Some(_) => format!("{prefix}tensor"),
        None => format!("{prefix}object *"),
    }
}

/// The bytes of a tensor of type `ty`.
fn tensor_bytes(ty: Type) -> Option<usize> {
    let tensor = ty.as_tensor()?;
    ir_core::tensor::tensor_bytes(&tensor.known_shape()?, tensor.dtype)
}

/// The function that runs the program on buffers and columns.
fn run(cx: &Context<'_>, interface: &Interface) -> String {
    let p = &cx.prefix;
    let Interface { taken, constants, given, .. } = interface;
    let item = cx.module.get(MAIN).and_then(|item| item.signature.ty.as_function());
    let ty = item.expect("a program starts at a function");
    let first_result = taken.tensors.len() + constants.len();
    let first_given = taken.columns().count();
    let mut arguments = vec!["p".to_string()];
    let (mut declared, mut reads) = (String::new(), String::new());
    // Outputs are written when nothing can fail any more.
    let (mut encodes, mut stores) = (String::new(), String::new());
    for (index, (ty, place)) in ty.params.iter().zip(&taken.places).enumerate() {
        let c = c_type(p, *ty);
        declared += &format!("    {c} a{index};\n");
        arguments.push(format!("a{index}"));
        reads += &match *place {
            Place::Data(data) if prog::is_open(*ty) => {
                let first = taken.columns_of(data).start;
                let (axes, size) =
                    ty.as_tensor().map_or((0, 0), |tensor| (tensor.rank(), tensor.dtype.bytes()));
                format!(
                    "    if ({p}take(p, columns + {first}, {axes}, {size}, &a{index})) {{\n        \
                     return p->status;\n    }}\n"
                )
            }
            Place::Data(data) => {
                let first = taken.columns_of(data).start;
                let description = cx.kinds.described(p, *ty);
                format!(
                    "    if ({p}decode(p, &{description}, columns + {first}, &a{index})) {{\n        \
                     return p->status;\n    }}\n"
                )
            }
            Place::Tensor(input) if is_scalar_type(*ty) => {
                format!("    a{index} = *(const {c} *)buffers[{input}];\n")
            }
            Place::Tensor(input) => format!(
                "    a{index}.data = (unsigned char *)buffers[{input}];\n    \
                 a{index}.owner = {p}NOBODY;\n"
            ),
        };
    }
    for (index, (ty, place)) in prog::results(&ty.result).iter().zip(&given.places).enumerate() {
        let c = c_type(p, *ty);
        declared += &format!("    {c} r{index};\n");
        arguments.push(format!("&r{index}"));
        match *place {
            Place::Data(data) if prog::is_open(*ty) => {
                let first = first_given + given.columns_of(data).start;
                let axes = ty.as_tensor().map_or(0, |tensor| tensor.rank());
                stores += &format!("    {p}give(columns + {first}, {axes}, r{index});\n");
            }
            Place::Data(data) => {
                let first = first_given + given.columns_of(data).start;
                let description = cx.kinds.described(p, *ty);
                encodes += &format!(
                    "    if ({p}encode(p, &{description}, columns + {first}, r{index})) {{\n        \
                     return p->status;\n    }}\n"
                );
            }
            Place::Tensor(output) => {
                let output = first_result + output;
                stores += &match is_scalar_type(*ty) {
                    true => format!("    *({c} *)buffers[{output}] = r{index};\n"),
                    false => {
                        let bytes = tensor_bytes(*ty).expect("tensors have known extents");
                        format!("    memcpy(buffers[{output}], r{index}.data, {bytes}u);\n")
                    }
                };
            }
        }
    }
    let function = writer::function_name(cx, Symbol::new(MAIN));
    format!(
        "
/* Runs the program on buffers: the tensors that it takes, constants, and the tensors that it gives; and
   on the columns of the data that it takes, then those of what it gives. Gives 0 where it ended well, 1
   where there is too little memory, 2 where it failed, and 3 where columns are no data; then `p->site`
   says where. */
static int64_t {p}run({p}state *p, void *const *buffers, {p}column *columns)
{{
{declared}    (void)buffers;
    (void)columns;
{reads}    if ({function}({})) {{
        return p->status;
    }}
{encodes}{stores}    return 0;
}}
",
        arguments.join(", ")
    )
}

/// The function that is called with a list of buffers, the last of which is a
/// [`State`](target_core::whole::State).
fn entry(cx: &Context<'_>, symbol: &str, interface: &Interface) -> String {
    let p = &cx.prefix;
    let name = entry_name(symbol);
    let inputs = interface.taken.tensors.len();
    let state = interface.buffers().len() - 1;
    let taken = interface.taken.columns().count();
    let all = taken + interface.given.columns().count();
    let first = State::FIRST;
    let last = match interface.counters {
        0 => String::new(),
        _ => format!("    {p}resume(p, 0);\n"),
    };
    let counts = match interface.counters {
        0 => String::new(),
        counters => format!(
            "    memset(places + 2 * {all}, 0, {counters} * 2 * sizeof(int64_t));\n    \
             p->counters = places + 2 * {all};\n    p->since = {p}now();\n"
        ),
    };
    format!(
        "
/* Runs the program. The last of the buffers is its state. */
void {name}(void *const *buffers, unsigned char *block);
void {name}(void *const *buffers, unsigned char *block)
{{
    int64_t *const state = (int64_t *)buffers[{state}];
    int64_t *const places = state + {first};
    {p}column columns[{all} + 1];
    {p}state *const p = {p}start(block, (size_t)state[0], buffers + {inputs});
    state[1] = 1;
    state[2] = -1;
    if (!p) {{
        return;
    }}
{counts}    for (int i = 0; i < {taken}; i++) {{
        columns[i].at = block + places[2 * i];
        columns[i].count = (uint64_t)places[2 * i + 1];
    }}
    state[1] = {p}run(p, buffers, columns);
{last}    if (state[1]) {{
        state[2] = p->site;
        return;
    }}
    for (int i = {taken}; i < {all}; i++) {{
        places[2 * i] = columns[i].at - block;
        places[2 * i + 1] = (int64_t)columns[i].count;
    }}
}}
"
    )
}

/// What the program of `module` takes and gives.
fn interface(module: &Module) -> Result<Interface, Diagnostics> {
    let span = module.get(MAIN).and_then(|item| item.signature.span);
    let interface = Interface::of(module).expect("a program starts at a function");
    interface.map_err(|ty| {
        let message = format!("`@{MAIN}` takes or gives {ty}, and C takes tensors and data");
        Diagnostic::error("E0902", message).at(span).into()
    })
}

/// Whether `ty` is that of a scalar.
fn is_scalar_type(ty: Type) -> bool {
    ty.as_tensor().is_some_and(|tensor| tensor.rank() == 0)
}

/// The variable of who computes operators.
pub(super) fn operate_name(prefix: &str) -> String {
    name(prefix, "operate")
}

/// Whether all buffers of a kernel are scalars, so that it is worth to be written into the program.
pub(super) fn is_scalar(one: &Written, types: &[Type]) -> bool {
    types.iter().copied().all(is_scalar_type) && !one.has_parallel_loops && one.callees.is_empty()
}
