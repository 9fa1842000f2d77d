//! What a program needs at run time, as text of C. `P_` stands for the prefix of its names, words in
//! capitals for what differs from program to program.

use super::{Context, kinds};

/// A function of the run time that is called in more places than this is not copied into them: compilers take
/// time that grows faster than the function that it would be copied into.
const INLINED: usize = 64;

/// The functions that `text` calls, and those that these call.
pub(super) fn needed(cx: &Context<'_>, scratch: usize, threads: &str, text: &str) -> String {
    let (p, kinds, constants) = (&cx.prefix, cx.kinds.count().max(1), cx.constants.len());
    let (mut pieces, mut called) = (Vec::new(), text.to_string());
    for (name, piece) in RUNTIME.iter().rev() {
        let calls = match name.is_empty() {
            true => 0,
            false => called.matches(&format!("{}(", name.replace("P_", p))).count(),
        };
        if name.is_empty() || calls > 0 {
            let piece = match calls > INLINED {
                true => piece.replace("static inline", &format!("static {OUT_OF_LINE}")),
                false => piece.to_string(),
            };
            let piece = piece.replace("    THREADS\n", threads).replace("P_", p);
            called += &piece;
            pieces.push(piece);
        }
    }
    pieces.reverse();
    let clock = if cx.counters.is_empty() { "" } else { "\n#include <time.h>\n" };
    let is_defined = pieces.iter().any(|piece| piece.contains(&OUT_OF_LINE.replace("P_", p)));
    let defined = if is_defined { DEFINE_OUT_OF_LINE.replace("P_", p) } else { String::new() };
    let text = clock.to_string() + &defined + &pieces.concat();
    let text = text.replace("KINDS", &kinds.to_string());
    let text = text.replace("    COUNTERS\n", if cx.counters.is_empty() { "" } else { COUNTERS });
    let text = text.replace("CONSTANTS", &constants.to_string());
    let text = text.replace("SCRATCH", &scratch.to_string());
    let text = match cx.kinds.open() {
        Some(first) => text.replace("FIRST_OPEN", &first.to_string()),
        None => text,
    };
    let text = text.replace("OPEN_SIZES", &kinds::OPEN_SIZES.to_string());
    text.replace("PARTS", &cx.kinds.part_counts())
}

/// What says of a function that it is not to be copied to where it is called.
const OUT_OF_LINE: &str = "P_OUT_OF_LINE";

const DEFINE_OUT_OF_LINE: &str = "
#ifdef __GNUC__
#define P_OUT_OF_LINE __attribute__((noinline))
#else
#define P_OUT_OF_LINE
#endif
";

/// What comes before the kinds: it names them.
pub(super) const TYPES: &str = "
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
        "P_is_alone",
        "
/* Whether a tensor has this owner and no other. */
static inline int P_is_alone(const P_object *o)
{
    return P_is_object(o) && o->owners == 1;
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
        "P_take",
        "
/* The tensor whose extents and elements columns hold, with memory of its own. */
static int P_take(P_state *p, const P_column *columns, uint64_t axes, size_t size, P_tensor *to)
{
    int64_t extents[6];
    uint64_t count = 1;
    int is_empty = 0;
    if (columns[0].count != axes) {
        return P_fail(p, 3, -1);
    }
    memcpy(extents, columns[0].at, axes * sizeof *extents);
    for (uint64_t i = 0; i < axes; i++) {
        if (extents[i] < 0) {
            return P_fail(p, 3, -1);
        }
        is_empty |= extents[i] == 0;
    }
    for (uint64_t i = 0; i < axes && !is_empty; i++) {
        if ((uint64_t)extents[i] > columns[1].count / count) {
            return P_fail(p, 3, -1);
        }
        count *= (uint64_t)extents[i];
    }
    count = is_empty ? 0 : count;
    if (count != columns[1].count) {
        return P_fail(p, 3, -1);
    }
    if (count > SIZE_MAX / 2 / size) {
        return P_fail(p, 1, -1);
    }
    if (P_new_open(p, (size_t)count * size, -1, to)) {
        return 1;
    }
    memcpy(to->data - 48, extents, axes * sizeof *extents);
    if (count) {
        memcpy(to->data, columns[1].at, (size_t)count * size);
    }
    return 0;
}
",
    ),
    (
        "P_give",
        "
/* Makes columns of a tensor: its extents, and its elements. */
static void P_give(P_column *columns, uint64_t axes, P_tensor tensor)
{
    columns[0].at = tensor.data - 48;
    columns[0].count = axes;
    columns[1].at = tensor.data;
    columns[1].count = 1;
    for (uint64_t i = 0; i < axes; i++) {
        int64_t extent;
        memcpy(&extent, tensor.data - 48 + i * sizeof extent, sizeof extent);
        columns[1].count *= (uint64_t)extent;
    }
}
",
    ),
    (
        "P_new_sized",
        "
/* A new tensor with these extents, of elements of so many bytes. */
static int P_new_sized(P_state *p, const int64_t *extents, size_t axes, size_t size, int64_t site, P_tensor *to)
{
    size_t bytes = size;
    int is_empty = 0;
    for (size_t i = 0; i < axes; i++) {
        is_empty |= extents[i] == 0;
    }
    for (size_t i = 0; i < axes && !is_empty; i++) {
        if ((uint64_t)extents[i] > SIZE_MAX / 2 / bytes) {
            return P_fail(p, 1, site);
        }
        bytes *= (size_t)extents[i];
    }
    if (P_new_open(p, is_empty ? 0 : bytes, site, to)) {
        return 1;
    }
    memcpy(to->data - 48, extents, axes * sizeof *extents);
    return 0;
}
",
    ),
    (
        "P_has_rows",
        "
/* Whether `tensor` has so many rows, with these other extents. */
static int P_has_rows(P_tensor tensor, int64_t rows, const int64_t *others, size_t count)
{
    return !memcmp(tensor.data - 48, &rows, sizeof rows)
        && !memcmp(tensor.data - 40, others, count * sizeof *others);
}
",
    ),
    (
        "P_new_rows",
        "
/* A new tensor of so many rows of so many bytes, with these other extents. */
static int P_new_rows(P_state *p, int64_t rows, size_t bytes, const int64_t *others, size_t count,
                      int64_t site, P_tensor *to)
{
    if (bytes && (uint64_t)rows > SIZE_MAX / 2 / bytes) {
        return P_fail(p, 1, site);
    }
    if (P_new_open(p, (size_t)rows * bytes, site, to)) {
        return 1;
    }
    memcpy(to->data - 48, &rows, sizeof rows);
    memcpy(to->data - 40, others, count * sizeof *others);
    return 0;
}
",
    ),
    (
        "P_fill_rows",
        "
/* A tensor of `rows` rows of so many bytes: the `taken` ones at `from`, the last of them again and again. */
static int P_fill_rows(P_state *p, const unsigned char *from, size_t bytes, size_t taken, size_t rows,
                       int64_t site, P_tensor *to)
{
    if (P_new_open(p, rows * bytes, site, to)) {
        return 1;
    }
    for (size_t row = 0; row < rows; row++) {
        memcpy(to->data + row * bytes, from + (row < taken ? row : taken - 1) * bytes, bytes);
    }
    return 0;
}
",
    ),
    (
        "P_extent",
        "
/* The extent of an axis of a tensor that has its own. */
static inline int64_t P_extent(P_tensor tensor, size_t axis)
{
    int64_t extent;
    memcpy(&extent, tensor.data - 48 + axis * sizeof extent, sizeof extent);
    return extent;
}
",
    ),
    (
        "P_reshape",
        "
/* The elements of `from`, which has so many axes, with other extents, in the same memory where nobody else
   has that. */
static int P_reshape(P_state *p, P_tensor from, size_t rank, size_t size, const int64_t *extents, size_t axes,
                     int64_t site, P_tensor *to)
{
    uint64_t count = 1, wanted = 1;
    int is_empty = 0;
    for (size_t i = 0; i < rank; i++) {
        count *= (uint64_t)P_extent(from, i);
    }
    for (size_t i = 0; i < axes; i++) {
        if (extents[i] < 0) {
            return P_fail(p, 2, site);
        }
        is_empty |= extents[i] == 0;
    }
    for (size_t i = 0; i < axes && !is_empty; i++) {
        if ((uint64_t)extents[i] > count / wanted) {
            return P_fail(p, 2, site);
        }
        wanted *= (uint64_t)extents[i];
    }
    if ((is_empty ? 0 : wanted) != count) {
        return P_fail(p, 2, site);
    }
    if (P_is_object(from.owner) && from.owner->owners == 1) {
        *to = from;
    } else {
        if (P_new_open(p, (size_t)count * size, site + 1, to)) {
            return 1;
        }
        memcpy(to->data, from.data, (size_t)count * size);
        P_drop(p, from.owner);
    }
    memcpy(to->data - 48, extents, axes * sizeof *extents);
    return 0;
}
",
    ),
    (
        "P_indices",
        "
/* The indices of the elements of `mask`, which has so many axes, that hold: a row for each. */
static int P_indices(P_state *p, P_tensor mask, size_t axes, int64_t site, P_tensor *to)
{
    size_t count = 1, found = 0, row = 0;
    for (size_t i = 0; i < axes; i++) {
        count *= (size_t)P_extent(mask, i);
    }
    for (size_t i = 0; i < count; i++) {
        found += mask.data[i] != 0;
    }
    const int64_t extents[] = {(int64_t)found, (int64_t)axes};
    if (P_new_open(p, found * axes * sizeof(int32_t), site, to)) {
        return 1;
    }
    memcpy(to->data - 48, extents, sizeof extents);
    for (size_t i = 0; i < count; i++) {
        size_t rest = i;
        if (!mask.data[i]) {
            continue;
        }
        for (size_t axis = axes; axis--;) {
            const size_t extent = (size_t)P_extent(mask, axis);
            const int32_t index = (int32_t)(rest % extent);
            memcpy(to->data + (row * axes + axis) * sizeof index, &index, sizeof index);
            rest /= extent;
        }
        row++;
    }
    return 0;
}
",
    ),
    (
        "P_sort",
        "
/* Sorts numbers by their upper 32 bits, digit by digit from the last one on: by counting, or by insertion where
   they are few. Equal ones keep their order. Gives where they are then: `other` has room for them as well. */
static uint64_t *P_sort(uint64_t *own, uint64_t *other, size_t count)
{
    if (count <= 64) {
        for (size_t i = 1; i < count; i++) {
            const uint64_t one = own[i];
            size_t k = i;
            for (; k && own[k - 1] >> 32 > one >> 32; k--) {
                own[k] = own[k - 1];
            }
            own[k] = one;
        }
        return own;
    }
    uint32_t digits[4][256] = {{0}};
    for (size_t i = 0; i < count; i++) {
        for (unsigned digit = 0; digit < 4; digit++) {
            digits[digit][own[i] >> (32 + 8 * digit) & 255]++;
        }
    }
    for (unsigned digit = 0; digit < 4; digit++) {
        uint32_t *const starts = digits[digit];
        const unsigned shift = 32 + 8 * digit;
        uint32_t start = 0;
        uint64_t *const sorted = other;
        if (starts[own[0] >> shift & 255] == count) {
            continue;
        }
        for (unsigned i = 0; i < 256; i++) {
            const uint32_t found = starts[i];
            starts[i] = start;
            start += found;
        }
        for (size_t i = 0; i < count; i++) {
            sorted[starts[own[i] >> shift & 255]++] = own[i];
        }
        other = own;
        own = sorted;
    }
    return own;
}
",
    ),
    (
        "P_select",
        "
/* Keeps of numbers those among which the `wanted` ones with the least upper 32 bits are, in their order: all
   whose first bits are no greater. Gives how many there are. */
static size_t P_select(uint64_t *numbers, size_t count, size_t wanted)
{
    uint32_t found[2048] = {0};
    size_t kept = 0, before = 0;
    uint64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        found[numbers[i] >> 53]++;
    }
    while ((before += found[most]) < wanted) {
        most++;
    }
    for (size_t i = 0; i < count; i++) {
        numbers[kept] = numbers[i];
        kept += numbers[i] >> 53 <= most;
    }
    return kept;
}
",
    ),
    (
        "P_word",
        "
/* The upper or lower 32 bits of the integer of so many bytes at `place`, such that words are ordered as the
   integers are. */
static inline uint64_t P_word(const unsigned char *row, size_t size, size_t place, int is_upper)
{
    uint64_t wide;
    uint32_t word;
    if (size == sizeof word) {
        memcpy(&word, row + place * sizeof word, sizeof word);
        return word ^ 0x80000000u;
    }
    memcpy(&wide, row + place * sizeof wide, sizeof wide);
    return is_upper ? wide >> 32 ^ 0x80000000u : wide & 0xffffffffu;
}
",
    ),
    (
        "P_order",
        "
/* The places of the first elements of each row of integers of so many bytes, as many as are `wanted`, in
   ascending order. What is sorted are words of the integers, each before its place, in memory that nothing
   lies in. */
static int P_order(P_state *p, P_tensor tensor, size_t axes, size_t size, int64_t wanted, int64_t site,
                   P_tensor *to)
{
    const int64_t length = P_extent(tensor, axes - 1);
    const int64_t taken = wanted < 1 || wanted > length ? length : wanted;
    int64_t extents[6];
    size_t rows = 1, skipped, room;
    if (length > INT32_MAX) {
        return P_fail(p, 2, site);
    }
    for (size_t i = 0; i + 1 < axes; i++) {
        extents[i] = P_extent(tensor, i);
        rows *= (size_t)extents[i];
    }
    extents[axes - 1] = taken;
    if (P_new_sized(p, extents, axes, sizeof(int32_t), site + 1, to)) {
        return 1;
    }
    skipped = (size_t)(0 - (uintptr_t)p->heap) & 7;
    room = (size_t)(p->frames - p->heap);
    if (room < skipped || (room - skipped) / 16 < (size_t)length) {
        return P_fail(p, 1, site + 1);
    }
    uint64_t *const first = (uint64_t *)(void *)(p->heap + skipped);
    for (size_t row = 0; taken && row < rows; row++) {
        const unsigned char *const from = tensor.data + row * (size_t)length * size;
        uint64_t *own = first, *other = first + length;
        size_t count = (size_t)length;
        for (size_t i = 0; i < count; i++) {
            own[i] = P_word(from, size, i, 1) << 32 | i;
        }
        if (count >= 1024 && taken < length / 8) {
            count = P_select(own, count, (size_t)taken);
        }
        for (int is_upper = size == 4; is_upper < 2; is_upper++) {
            uint64_t *sorted;
            for (size_t i = 0; i < count && size == 8; i++) {
                const uint64_t place = own[i] & 0xffffffffu;
                own[i] = P_word(from, size, place, is_upper) << 32 | place;
            }
            sorted = P_sort(own, other, count);
            other = sorted == own ? other : own;
            own = sorted;
        }
        for (size_t i = 0; i < (size_t)taken; i++) {
            const int32_t place = (int32_t)(own[i] & 0xffffffffu);
            memcpy(to->data + (row * (size_t)taken + i) * sizeof place, &place, sizeof place);
        }
    }
    return 0;
}
",
    ),
    (
        "P_move",
        "
/* Copies the first `part` indices of each axis from one tensor to another, which have these extents. */
static void P_move(unsigned char *to, const int64_t *to_extents, const unsigned char *from,
                   const int64_t *from_extents, const int64_t *part, size_t axes, size_t size)
{
    int64_t at[6] = {0};
    size_t axis = axes, bytes = size;
    for (size_t i = 0; i < axes; i++) {
        if (!part[i]) {
            return;
        }
    }
    /* The last axes that are whole on both sides are one piece, and so is a part of the one before. */
    while (axis && (axis == axes || (part[axis] == to_extents[axis] && part[axis] == from_extents[axis]))) {
        axis--;
        bytes *= (size_t)part[axis];
    }
    for (;;) {
        size_t target = 0, source = 0, i = axis;
        for (size_t k = 0; k < axes; k++) {
            const size_t index = k < axis ? (size_t)at[k] : 0;
            target = target * (size_t)to_extents[k] + index;
            source = source * (size_t)from_extents[k] + index;
        }
        memcpy(to + target * size, from + source * size, bytes);
        while (i && ++at[i - 1] == part[i - 1]) {
            at[--i] = 0;
        }
        if (!i) {
            return;
        }
    }
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

/// The members of the state for what is counted: calls and nanoseconds, what is counted now, and since
/// when.
const COUNTERS: &str = "    int64_t *counters;
    int64_t counted;
    int64_t since;
";

/// Data as columns, see [`prog::columns`]: what is left to walk over is a stack of frames.
pub(super) const WALKS: &str = "
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
pub(super) const ENCODE: &str = "
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
pub(super) const DECODE: &str = "
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
