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
mod writer;

use indexmap::IndexSet;
use ir_core::{Diagnostic, Diagnostics, Module, Symbol, Type};
use prog::columns::Layout;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use target_core::whole::{Interface, MAIN, Place, State};
use target_core::{ALIGNMENT, Kernel};

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
        walks += WALKS;
    }
    if given.iter().any(|layout| is_data(&layout)) {
        walks += ENCODE;
    }
    if !taken.is_empty() {
        walks += &cx.kinds.sizes(&cx.prefix);
        walks += DECODE;
    }
    let walks = walks.replace("P_", &cx.prefix);
    let text = format!("{text}{walks}{}{entry}", run(&cx, &interface));
    let runtime = runtime(&cx, scratch, &threads.unwrap_or_default(), &text);
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
            let Some(kernel) = body.view::<prog::Kernel>(op) else { continue };
            if (cx.kernels)(kernel.function).is_none() {
                let message = format!("`@{name}` calls `@{}`, which has no body", kernel.function);
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
                encodes += &format!(
                    "    if ({p}give(p, columns + {first}, r{index})) {{\n        return p->status;\n    \
                     }}\n"
                );
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
                        let bytes = tensor_bytes(*ty).unwrap_or(0);
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

/// Data as columns, see [`prog::columns`]: what is left to walk over is a stack of frames.
const WALKS: &str = "
typedef struct P_walk {
    P_object *object;
    uint64_t link;
} P_walk;

/* Goes on with what `o` links to later. */
static int P_descend(P_state *p, P_object *o)
{
    P_walk *walk;
    if (P_first_link[o->kind] == P_first_field[o->kind + 1]) {
        return 0;
    }
    walk = (P_walk *)P_push(p, sizeof(P_walk), -1);
    if (!walk) {
        return 1;
    }
    walk->object = o;
    walk->link = P_first_link[o->kind];
    return 0;
}

/* The next link to walk over, and the object that has it; null where there is none. */
static const P_field *P_next(P_state *p, const unsigned char *bottom, P_object **o)
{
    P_walk *walk = (P_walk *)(void *)p->frames;
    const P_field *field;
    if (p->frames == bottom) {
        return 0;
    }
    field = P_fields + walk->link;
    *o = walk->object;
    walk->link++;
    if (walk->link == P_first_field[walk->object->kind + 1]) {
        p->frames += sizeof(P_walk);
    }
    return field;
}
";

/// Columns of data.
const ENCODE: &str = "
static int P_encode_one(P_state *p, const P_described *ty, P_column *columns, int writes,
                        const P_field *link, P_object *o)
{
    if (link->sort == 2) {
        const int is_object = P_is_object(o);
        const uint64_t tag =
            is_object ? o->kind - P_first_kind[link->type] : (uint64_t)((uintptr_t)o >> 1);
        if (writes) {
            memcpy(columns->at + columns->count * 8, &tag, 8);
        } else if (columns->count > (size_t)(p->frames - p->heap) / 8) {
            return P_fail(p, 1, -1);
        }
        columns->count++;
        if (!is_object) {
            return 0;
        }
    }
    for (uint32_t i = P_first_field[o->kind]; i < P_first_link[o->kind]; i++) {
        const P_field *const field = P_fields + i;
        P_column *const column = columns + ty->columns[i];
        if (writes) {
            const unsigned char *from = (unsigned char *)o + field->at;
            uint64_t place;
            if (field->sort == 1) {
                from = *(unsigned char **)(void *)((unsigned char *)o + field->at);
            } else if (field->sort == 4) {
                place = (uint64_t)(*(unsigned char **)(void *)((unsigned char *)o + field->at) - p->block);
                from = (const unsigned char *)&place;
            }
            memcpy(column->at + column->count * field->bytes, from, field->bytes);
        }
        column->count++;
    }
    return P_descend(p, o);
}

/* Counts or writes what the columns of `root` hold. */
static int P_encode_all(P_state *p, const P_described *ty, P_column *columns, int writes,
                        P_object *root)
{
    const unsigned char *const bottom = p->frames;
    const P_field *link;
    P_object *o;
    for (uint32_t i = 0; i < ty->count; i++) {
        columns[i].count = 0;
    }
    if (P_encode_one(p, ty, columns, writes, &ty->root, root)) {
        return 1;
    }
    while ((link = P_next(p, bottom, &o))) {
        o = *(P_object **)(void *)((unsigned char *)o + link->at);
        if (P_encode_one(p, ty, columns, writes, link, o)) {
            return 1;
        }
    }
    return 0;
}

/* Makes columns of data. */
static int P_encode(P_state *p, const P_described *ty, P_column *columns, P_object *root)
{
    if (P_encode_all(p, ty, columns, 0, root)) {
        return 1;
    }
    for (uint32_t i = 0; i < ty->count; i++) {
        const size_t skipped = (size_t)(0 - (uintptr_t)p->heap) & 63;
        const size_t room = (size_t)(p->frames - p->heap);
        const size_t size = ty->bytes[i] ? ty->bytes[i] : 1;
        if (room < skipped + 64 || columns[i].count > (room - skipped - 64) / size) {
            return P_fail(p, 1, -1);
        }
        columns[i].at = p->heap + skipped;
        p->heap += skipped + (columns[i].count * ty->bytes[i] + 63) / 64 * 64;
    }
    return P_encode_all(p, ty, columns, 1, root);
}
";

/// Data of columns.
const DECODE: &str = "
static int P_decode_one(P_state *p, const P_described *ty, P_column *columns, const P_field *link,
                        P_object **to)
{
    uint32_t kind = link->type;
    P_object *o;
    if (link->sort == 2) {
        uint64_t tag;
        if (!columns->count) {
            return P_fail(p, 3, -1);
        }
        memcpy(&tag, columns->at, sizeof tag);
        columns->at += sizeof tag;
        columns->count--;
        if (tag >= P_constructors[link->type]) {
            return P_fail(p, 3, -1);
        }
        kind = P_first_kind[link->type] + (uint32_t)tag;
        if (P_first_field[kind] == P_first_field[kind + 1]) {
            *to = (P_object *)(uintptr_t)(tag << 1 | 1);
            return 0;
        }
    }
    o = P_allocate(p, kind, P_sizes[kind], 16, -1);
    *to = o;
    if (!o) {
        return 1;
    }
    for (uint32_t i = P_first_field[kind]; i < P_first_link[kind]; i++) {
        const P_field *const field = P_fields + i;
        P_column *const column = columns + ty->columns[i];
        unsigned char *const at = (unsigned char *)o + field->at;
        if (!column->count) {
            return P_fail(p, 3, -1);
        }
        if (field->sort == 1) {
            *(unsigned char **)(void *)at = column->at;
            *(P_object **)(void *)((unsigned char *)o + field->owner) = P_NOBODY;
        } else {
            memcpy(at, column->at, field->bytes);
        }
        column->at += field->bytes;
        column->count--;
    }
    return P_descend(p, o);
}

/* Makes data of columns, all of them. */
static int P_decode(P_state *p, const P_described *ty, P_column *columns, P_object **root)
{
    const unsigned char *const bottom = p->frames;
    const P_field *link;
    P_object *o;
    if (P_decode_one(p, ty, columns, &ty->root, root)) {
        return 1;
    }
    while ((link = P_next(p, bottom, &o))) {
        P_object **const to = (P_object **)(void *)((unsigned char *)o + link->at);
        if (P_decode_one(p, ty, columns, link, to)) {
            return 1;
        }
    }
    for (uint32_t i = 0; i < ty->count; i++) {
        if (columns[i].count) {
            return P_fail(p, 3, -1);
        }
    }
    return 0;
}
";

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

/// The members of the state for what is counted: calls and nanoseconds, what is counted now, and since
/// when.
const COUNTERS: &str = "    int64_t *counters;
    int64_t counted;
    int64_t since;
";

/// The functions that `text` calls, and those that these call.
fn runtime(cx: &Context<'_>, scratch: usize, threads: &str, text: &str) -> String {
    let (p, kinds, constants) = (&cx.prefix, cx.kinds.count().max(1), cx.constants.len());
    let (mut pieces, mut called) = (Vec::new(), text.to_string());
    for (name, piece) in RUNTIME.iter().rev() {
        if name.is_empty() || called.contains(&format!("{}(", name.replace("P_", p))) {
            let piece = piece.replace("    THREADS\n", threads).replace("P_", p);
            called += &piece;
            pieces.push(piece);
        }
    }
    pieces.reverse();
    let clock = if cx.counters.is_empty() { "" } else { "\n#include <time.h>\n" };
    let text = (clock.to_string() + &pieces.concat()).replace("KINDS", &kinds.to_string());
    let text = text.replace("    COUNTERS\n", if cx.counters.is_empty() { "" } else { COUNTERS });
    let text = text.replace("CONSTANTS", &constants.to_string());
    let text = text.replace("SCRATCH", &scratch.to_string());
    let text = text.replace("FIRST_OPEN", &cx.kinds.open().unwrap_or_default().to_string());
    let text = text.replace("OPEN_SIZES", &kinds::OPEN_SIZES.to_string());
    text.replace("PARTS", &cx.kinds.part_counts())
}

/// What comes before the kinds: it names them.
const TYPES: &str = "
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What is shared: how many own it, and its kind. */
typedef struct P_object {
    uint32_t owners;
    uint32_t kind;
} P_object;

/* The elements of a tensor, and what owns their memory. */
typedef struct P_tensor {
    unsigned char *data;
    P_object *owner;
} P_tensor;

/* The owner of what lives as long as the program. */
#define P_NOBODY ((P_object *)(uintptr_t)1)
";

/// The functions that a program needs, by name, each behind those that it calls: what names them is
/// given, and those without a name always.
const RUNTIME: &[(&str, &str)] = &[
    (
        "",
        "
/* A column of data: its elements, and how many there are. */
typedef struct P_column {
    unsigned char *at;
    uint64_t count;
} P_column;
",
    ),
    (
        "",
        "
/* A running program. */
typedef struct P_state {
    unsigned char *block;
    unsigned char *heap;
    unsigned char *frames;
    unsigned char *scratch;
    COUNTERS
    THREADS
    int64_t status;
    int64_t site;
    P_object *unused[KINDS];
    unsigned char *constants[CONSTANTS + 1];
} P_state;
",
    ),
    (
        "",
        "
static inline int P_fail(P_state *p, int64_t status, int64_t site)
{
    p->status = status;
    p->site = site;
    return 1;
}
",
    ),
    (
        "P_now",
        "
static int64_t P_now(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
",
    ),
    (
        "P_resume",
        "
/* From now on, time is that of what has a counter of this number. */
static void P_resume(P_state *p, int64_t number)
{
    const int64_t now = P_now();
    p->counters[2 * p->counted + 1] += now - p->since;
    p->counted = number;
    p->since = now;
}
",
    ),
    (
        "P_visit",
        "
static void P_visit(P_state *p, int64_t number)
{
    P_resume(p, number);
    p->counters[2 * number]++;
}
",
    ),
    (
        "P_is_object",
        "
/* Addresses are even. */
static inline int P_is_object(const P_object *o)
{
    return ((uintptr_t)o & 1) == 0;
}
",
    ),
    (
        "P_link",
        "
static inline P_object **P_link(P_object *o)
{
    return (P_object **)(void *)(o + 1);
}
",
    ),
    (
        "P_allocate",
        "
/* A new object with one owner; null where there is no memory. */
static inline P_object *P_allocate(P_state *p, uint32_t kind, size_t bytes, size_t alignment,
                                  int64_t site)
{
    P_object *o = p->unused[kind];
    if (o) {
        p->unused[kind] = *P_link(o);
    } else {
        size_t skipped = (size_t)(0 - (uintptr_t)p->heap) & (alignment - 1);
        if ((size_t)(p->frames - p->heap) < bytes + skipped) {
            P_fail(p, 1, site);
            return 0;
        }
        o = (P_object *)(void *)(p->heap + skipped);
        p->heap += bytes + skipped;
        o->kind = kind;
    }
    o->owners = 1;
    return o;
}
",
    ),
    (
        "P_free",
        "
static inline void P_free(P_state *p, P_object *o)
{
    *P_link(o) = p->unused[o->kind];
    p->unused[o->kind] = o;
}
",
    ),
    (
        "P_release",
        "
/* By kind: how many addresses of other objects it starts with. */
static const uint32_t P_parts[] = {PARTS};

/* Frees an object that nobody owns, and what only it owned. Those that are to be freed yet are a list
   through the numbers of their owners, in multiples of 16 bytes of the block. */
static void P_release(P_state *p, P_object *o)
{
    o->owners = 0;
    for (;;) {
        P_object **parts = P_link(o);
        uint32_t next = o->owners;
        uint32_t count = P_parts[o->kind];
        for (uint32_t i = 0; i < count; i++) {
            P_object *part = parts[i];
            if (P_is_object(part) && --part->owners == 0) {
                part->owners = next;
                next = (uint32_t)((size_t)((unsigned char *)part - p->block) / 16);
            }
        }
        P_free(p, o);
        if (!next) {
            return;
        }
        o = (P_object *)(void *)(p->block + (size_t)next * 16);
    }
}
",
    ),
    (
        "P_dup",
        "
static inline void P_dup(P_object *o)
{
    if (P_is_object(o)) {
        o->owners++;
    }
}
",
    ),
    (
        "P_drop",
        "
static inline void P_drop(P_state *p, P_object *o)
{
    if (P_is_object(o) && --o->owners == 0) {
        P_release(p, o);
    }
}
",
    ),
    (
        "P_operate",
        "
/* Computes operator `number` of the program on the tensors at `values`: the bytes of its results. Then,
   where `number` is -1, gives these results, at `values`. Not 0 where that fails. It is set by who loads
   the program. */
extern int64_t (*P_operate)(int64_t number, void *const *values, int64_t *bytes);
int64_t (*P_operate)(int64_t number, void *const *values, int64_t *bytes);
",
    ),
    (
        "P_new_open",
        "
/* A new tensor of so many bytes. Its extents are a part of it: up to six, before its elements. */
static int P_new_open(P_state *p, size_t bytes, int64_t site, P_tensor *to)
{
    uint32_t kind = 0;
    size_t room = 64;
    while (room < bytes) {
        room *= 2;
        kind++;
        if (kind == OPEN_SIZES) {
            return P_fail(p, 1, site);
        }
    }
    to->owner = P_allocate(p, FIRST_OPEN + kind, 64 + room, 64, site);
    if (!to->owner) {
        return 1;
    }
    to->data = (unsigned char *)to->owner + 64;
    return 0;
}
",
    ),
    (
        "P_open",
        "
/* The tensor `from` of so many bytes with its extents, in the same memory where it has its own. */
static inline int P_open(P_state *p, P_tensor from, size_t bytes, const int64_t *extents, size_t axes,
                         int64_t site, P_tensor *to)
{
    if (P_is_object(from.owner)) {
        *to = from;
    } else {
        if (P_new_open(p, bytes, site, to)) {
            return 1;
        }
        memcpy(to->data, from.data, bytes);
    }
    memcpy(to->data - 48, extents, axes * sizeof *extents);
    return 0;
}
",
    ),
    (
        "P_give",
        "
/* Makes columns of a tensor with its extents: no constructor, and where it is. */
static int P_give(P_state *p, P_column *columns, P_tensor tensor)
{
    const uint64_t place = (uint64_t)(tensor.data - p->block);
    const size_t skipped = (size_t)(0 - (uintptr_t)p->heap) & 63;
    if ((size_t)(p->frames - p->heap) < skipped + 64) {
        return P_fail(p, 1, -1);
    }
    p->heap += skipped;
    memcpy(p->heap, &place, sizeof place);
    columns[0].at = p->heap;
    columns[0].count = 0;
    columns[1].at = p->heap;
    columns[1].count = 1;
    p->heap += 64;
    return 0;
}
",
    ),
    (
        "P_push",
        "
/* A frame of so many bytes, for a call at a site; null where there is no memory. */
static inline void *P_push(P_state *p, size_t bytes, int64_t site)
{
    if ((size_t)(p->frames - p->heap) < bytes) {
        P_fail(p, 1, site);
        return 0;
    }
    p->frames -= bytes;
    return p->frames;
}
",
    ),
    (
        "",
        "
static P_state *P_start(unsigned char *block, size_t bytes, void *const *constants)
{
    const size_t first = (sizeof(P_state) + 63) / 64 * 64;
    P_state *p = (P_state *)(void *)block;
    if (bytes < first + SCRATCH || bytes % 64) {
        return 0;
    }
    memset(p, 0, sizeof *p);
    p->block = block;
    p->scratch = block + first;
    p->heap = block + first + SCRATCH;
    p->frames = block + bytes;
    for (int i = 0; i < CONSTANTS; i++) {
        p->constants[i] = (unsigned char *)constants[i];
    }
    return p;
}
",
    ),
];

/// The variable of who computes operators.
pub(super) fn operate_name(prefix: &str) -> String {
    name(prefix, "operate")
}

/// Whether all buffers of a kernel are scalars, so that it is worth to be written into the program.
pub(super) fn is_scalar(one: &Written, types: &[Type]) -> bool {
    types.iter().copied().all(is_scalar_type) && !one.has_parallel_loops && one.callees.is_empty()
}
