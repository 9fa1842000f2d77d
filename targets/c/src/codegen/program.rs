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

use ir_core::{Diagnostic, Diagnostics, Module, Symbol, Type};
use rustc_hash::FxHashMap;
use target_core::{ALIGNMENT, Kernel};

use super::{Style, Written, entry_name};
use crate::codegen::expr::storage;
use kinds::Kinds;

/// The function that a program starts at.
pub(super) const MAIN: &str = "main";

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
    /// The number of each constant.
    constants: FxHashMap<ir_core::Attr, usize>,
}

/// A kernel as the program calls it.
pub(super) struct Called {
    /// Its function.
    pub(super) symbol: String,
    /// Whether it takes a workspace.
    pub(super) workspace: usize,
}

/// Whether `module` is a whole program.
pub(super) fn is_program(module: &Module) -> bool {
    module.get(MAIN).is_some_and(|item| item.signature.op == prog::FUNC)
}

/// The names that the C of a program has for itself.
pub(super) fn is_own_name(prefix: &str, name: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|name| name.starts_with(PREFIX))
}

/// The program of `module` in C. `written` are its kernels.
pub(super) fn write(
    module: &Module,
    style: &Style,
    written: &dyn Fn(Symbol) -> Option<Called>,
) -> Result<Text, Diagnostics> {
    let main = Symbol::new(MAIN);
    let prefix = format!("{}{PREFIX}", style.prefix);
    let constants = prog::sites::constants(module);
    let mut sites = FxHashMap::default();
    for (number, site) in prog::sites::of(module).iter().enumerate() {
        sites.entry((site.function, site.op)).or_insert(number);
    }
    let numbers = constants.keys().enumerate().map(|(number, key)| (*key, number)).collect();
    let kinds = Kinds::of(module)?;
    let cx = Context { module, prefix, kernels: written, kinds, sites, constants: numbers };
    refuse_unwritten(&cx)?;
    let groups = groups::of(module);
    let functions: Vec<Symbol> = prog::sites::functions(module).map(|(name, _)| name).collect();
    let numbers = functions.iter().enumerate().map(|(number, name)| (*name, number));
    let numbers: FxHashMap<Symbol, usize> = numbers.collect();
    let mut text = String::new();
    let mut callees = Vec::new();
    for group in &groups {
        text += &writer::group(&cx, group, &numbers, &mut callees)?;
    }
    let (entry, mut kernel) = entry(&cx, style, constants.values().map(|value| value.ty()), main)?;
    let scratch = callees.iter().filter_map(|name| written(*name)).map(|called| called.workspace);
    let scratch = scratch.max().unwrap_or(0).next_multiple_of(ALIGNMENT);
    kernel.workspace = scratch + FIRST_BLOCK;
    let text = format!(
        "{}{}{text}{entry}",
        cx.kinds.declarations(&cx.prefix),
        runtime(&cx.prefix, cx.kinds.count(), scratch)
    );
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

/// The function that is called with a list of buffers.
fn entry(
    cx: &Context<'_>,
    style: &Style,
    constants: impl Iterator<Item = Type>,
    main: Symbol,
) -> Result<(String, Kernel), Diagnostics> {
    let p = &cx.prefix;
    let item = cx.module.get(main).and_then(|item| Some((item, item.signature.ty.as_function()?)));
    let (item, ty) = item.expect("a program starts at a function");
    let results = prog::results(&ty.result);
    let is_tensor = |ty: &&Type| ty.as_tensor().is_some();
    let mut errors = Diagnostics::new();
    for part in ty.params.iter().chain(results) {
        if tensor_bytes(*part).is_none() && cx.kinds.data_type(*part).is_none() {
            let message = format!("`@{MAIN}` takes or gives {part}, and C takes tensors and data");
            errors.push(Diagnostic::error("E0902", message).at(item.signature.span));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let inputs: Vec<Type> = ty.params.iter().filter(is_tensor).copied().collect();
    let outputs: Vec<Type> = results.iter().filter(is_tensor).copied().collect();
    let constants: Vec<Type> = constants.collect();
    let first = inputs.len() + constants.len();
    let last = first + outputs.len();
    let is_scalar = |ty: &Type| ty.as_tensor().is_some_and(|tensor| tensor.rank() == 0);
    let mut arguments = vec!["p".to_string()];
    let (mut declared, mut reads, mut stores) = (String::new(), String::new(), String::new());
    let (mut input, mut output) = (0, first);
    for (index, ty) in ty.params.iter().enumerate() {
        let c = c_type(p, *ty);
        declared += &format!("    {c} a{index};\n");
        arguments.push(format!("a{index}"));
        if let Some(data) = cx.kinds.data_type(*ty) {
            reads += &format!("    failed = failed || {p}decode(p, {data}, &a{index});\n");
            continue;
        }
        reads += &match is_scalar(ty) {
            true => format!("    a{index} = *(const {c} *)buffers[{input}];\n"),
            false => format!(
                "    a{index}.data = (unsigned char *)buffers[{input}];\n    a{index}.owner = {p}NOBODY;\n"
            ),
        };
        input += 1;
    }
    for (index, ty) in results.iter().enumerate() {
        let c = c_type(p, *ty);
        declared += &format!("    {c} r{index};\n");
        arguments.push(format!("&r{index}"));
        if let Some(data) = cx.kinds.data_type(*ty) {
            stores += &format!("        failed = failed || {p}encode(p, {data}, r{index});\n");
            continue;
        }
        let bytes = tensor_bytes(*ty).unwrap_or(0);
        stores += &match is_scalar(ty) {
            true => format!("        *({c} *)buffers[{output}] = r{index};\n"),
            false => format!("        memcpy(buffers[{output}], r{index}.data, {bytes}u);\n"),
        };
        output += 1;
    }
    let has_data = results.iter().chain(&ty.params).any(|ty| cx.kinds.data_type(*ty).is_some());
    if has_data {
        // Where data starts, a tensor may start.
        stores = format!(
            "        failed = {p}write(p, block, 0, 64);\n        p->written = p->heap;\n{stores}"
        );
    }
    let walks = match has_data {
        true => cx.kinds.descriptions(p) + &WALKS.replace("P_", p),
        false => String::new(),
    };
    let symbol = format!("{}{MAIN}", style.prefix);
    let (name, function) = (entry_name(&symbol), writer::function_name(cx, main));
    let inputs_count = inputs.len();
    let text = format!(
        "{walks}
/* Runs the program. Buffers are inputs, constants, results, and four numbers: the bytes of `block` that
   it may use, behind which data that it takes is written; then the status, which is 0 where it ended
   well, 1 where the block is too small, and 2 where it failed; and where, or -1. Where it ended well, data that it gives is written in the block; the last two numbers are where, and its
   bytes. */
void {name}(void *const *buffers, unsigned char *block);
void {name}(void *const *buffers, unsigned char *block)
{{
    int64_t *state = (int64_t *)buffers[{last}];
    {p}state *p = {p}start(block, (size_t)state[0], buffers + {inputs_count});
    int failed = 0;
{declared}    state[1] = 1;
    state[2] = -1;
    state[3] = 0;
    if (!p) {{
        return;
    }}
    p->read = block + state[0];
{reads}    failed = failed || {function}({});
    if (!failed) {{
{stores}        state[2] = p->written - block;
        state[3] = p->heap - p->written;
    }}
    if (p->status) {{
        state[2] = p->site;
    }}
    state[1] = p->status;
}}
",
        arguments.join(", ")
    );
    let state = Type::tensor([4], ir_core::DType::INT64);
    let params = inputs.iter().chain(&constants).chain(&outputs).copied();
    let params: Vec<Type> = params.chain([state]).collect();
    let names = (0..params.len()).map(|index| format!("buffer_{index}")).collect();
    let outputs = outputs.len() + 1;
    let name = MAIN.to_string();
    Ok((text, Kernel { name, symbol, names, params, outputs, workspace: 0 }))
}

/// Data as bytes, in pre-order: of data the number of its constructor, in 8 bytes, then its fields; of a
/// scalar its bytes, and so of a tensor, which starts at a multiple of 64. Everything else starts at a
/// multiple of 8. What is left to walk over is a stack of frames.
const WALKS: &str = "
typedef struct P_walk {
    P_object *object;
    uint64_t field;
} P_walk;

/* Goes on with the fields of `o` later. */
static int P_descend(P_state *p, P_object *o)
{
    P_walk *walk = (P_walk *)P_push(p, sizeof(P_walk), -1);
    if (!walk) {
        return 1;
    }
    walk->object = o;
    walk->field = P_first_field[o->kind];
    return 0;
}

/* The next field to walk over, and the object that has it; null where there is none. */
static const P_field *P_next(P_state *p, unsigned char *bottom, P_object **o)
{
    while (p->frames != bottom) {
        P_walk *walk = (P_walk *)(void *)p->frames;
        uint64_t end = P_first_field[walk->object->kind + 1];
        const P_field *field = P_fields + walk->field;
        *o = walk->object;
        walk->field++;
        if (walk->field >= end) {
            p->frames += sizeof(P_walk);
        }
        if (walk->field <= end) {
            return field;
        }
    }
    return 0;
}

static int P_write(P_state *p, const void *from, size_t bytes, size_t alignment)
{
    size_t skipped = (size_t)(0 - (uintptr_t)p->heap) & (alignment - 1);
    size_t room = (bytes + 7) / 8 * 8;
    if ((size_t)(p->frames - p->heap) < skipped + room) {
        return P_fail(p, 1, -1);
    }
    memset(p->heap, 0, skipped + room);
    memcpy(p->heap + skipped, from, bytes);
    p->heap += skipped + room;
    return 0;
}

static int P_encode_one(P_state *p, uint32_t type, P_object *o)
{
    int is_object = P_is_object(o);
    uint64_t tag = is_object ? o->kind - P_first_kind[type] : (uint64_t)((uintptr_t)o >> 1);
    return P_write(p, &tag, sizeof tag, 8) || (is_object && P_descend(p, o));
}

/* Writes data of a type to the end of the heap. */
static int P_encode(P_state *p, uint32_t type, P_object *root)
{
    unsigned char *const bottom = p->frames;
    const P_field *field;
    P_object *o;
    if (P_encode_one(p, type, root)) {
        return 1;
    }
    while ((field = P_next(p, bottom, &o))) {
        unsigned char *at = (unsigned char *)o + field->at;
        int failed;
        switch (field->sort) {
        case 0:
            failed = P_write(p, at, field->bytes, 8);
            break;
        case 1:
            failed = P_write(p, *(unsigned char **)(void *)at, field->bytes, 64);
            break;
        case 2:
            failed = P_encode_one(p, field->type, *(P_object **)(void *)at);
            break;
        default:
            failed = P_descend(p, *(P_object **)(void *)at);
            break;
        }
        if (failed) {
            return 1;
        }
    }
    return 0;
}

static int P_decode_one(P_state *p, uint32_t type, P_object **to)
{
    uint64_t tag;
    uint32_t kind;
    memcpy(&tag, p->read, sizeof tag);
    p->read += sizeof tag;
    kind = P_first_kind[type] + (uint32_t)tag;
    if (P_first_field[kind] == P_first_field[kind + 1]) {
        *to = (P_object *)(uintptr_t)(tag << 1 | 1);
        return 0;
    }
    *to = P_allocate(p, kind, P_sizes[kind], 16);
    return !*to || P_descend(p, *to);
}

/* Makes data of a type of what is read next. */
static int P_decode(P_state *p, uint32_t type, P_object **root)
{
    unsigned char *const bottom = p->frames;
    const P_field *field;
    P_object *o;
    if (P_decode_one(p, type, root)) {
        return 1;
    }
    while ((field = P_next(p, bottom, &o))) {
        unsigned char *at = (unsigned char *)o + field->at;
        if (field->sort == 1) {
            p->read += (size_t)(0 - (uintptr_t)p->read) & 63;
            *(unsigned char **)(void *)at = p->read;
            *(P_object **)(void *)((unsigned char *)o + field->owner) = P_NOBODY;
        } else if (field->sort == 2) {
            if (P_decode_one(p, field->type, (P_object **)(void *)at)) {
                return 1;
            }
            continue;
        } else {
            memcpy(at, p->read, field->bytes);
        }
        p->read += (field->bytes + 7) / 8 * 8;
    }
    return 0;
}
";

/// The names of what a program consists of, and the functions on them.
fn runtime(p: &str, kinds: usize, scratch: usize) -> String {
    let kinds = kinds.max(1);
    let text = RUNTIME.replace("KINDS", &kinds.to_string());
    text.replace("SCRATCH", &scratch.to_string()).replace("P_", p)
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

const RUNTIME: &str = "
/* A running program. */
typedef struct P_state {
    unsigned char *block;
    unsigned char *heap;
    unsigned char *frames;
    unsigned char *scratch;
    void *const *constants;
    unsigned char *read;
    unsigned char *written;
    int64_t status;
    int64_t site;
    P_object *unused[KINDS];
} P_state;

static inline int P_fail(P_state *p, int64_t status, int64_t site)
{
    p->status = status;
    p->site = site;
    return 1;
}

/* Addresses are even. */
static inline int P_is_object(const P_object *o)
{
    return ((uintptr_t)o & 1) == 0;
}

static inline P_object **P_link(P_object *o)
{
    return (P_object **)(void *)(o + 1);
}

/* A new object with one owner; null where there is no memory. */
static inline P_object *P_allocate(P_state *p, uint32_t kind, size_t bytes, size_t alignment)
{
    P_object *o = p->unused[kind];
    if (o) {
        p->unused[kind] = *P_link(o);
    } else {
        size_t skipped = (size_t)(0 - (uintptr_t)p->heap) & (alignment - 1);
        if ((size_t)(p->frames - p->heap) < bytes + skipped) {
            P_fail(p, 1, -1);
            return 0;
        }
        o = (P_object *)(void *)(p->heap + skipped);
        p->heap += bytes + skipped;
        o->kind = kind;
    }
    o->owners = 1;
    return o;
}

static inline void P_free(P_state *p, P_object *o)
{
    *P_link(o) = p->unused[o->kind];
    p->unused[o->kind] = o;
}

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

static inline void P_dup(P_object *o)
{
    if (P_is_object(o)) {
        o->owners++;
    }
}

static inline void P_drop(P_state *p, P_object *o)
{
    if (P_is_object(o) && --o->owners == 0) {
        P_release(p, o);
    }
}

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
    p->constants = constants;
    p->written = p->heap;
    return p;
}
";

/// Whether all buffers of a kernel are scalars, so that it is worth to be written into the program.
pub(super) fn is_scalar(one: &Written, types: &[Type]) -> bool {
    let is_scalar = |ty: &Type| ty.as_tensor().is_some_and(|tensor| tensor.rank() == 0);
    types.iter().all(is_scalar) && !one.has_parallel_loops && one.callees.is_empty()
}
