/* Runs {name} once and prints the results. Generated: a start for a program of your own.

       ./example [FILE...]

   A FILE holds one input, in the order of {name}.h: its elements, row by row, in the byte order of
   this machine. Inputs without a file, or with `-`, are random numbers: the same that
   `relay-opt run --fill {seed}` takes, whose output looks like this one's. */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "{name}.h"

enum kind { KIND_FLOAT, KIND_BFLOAT, KIND_INT, KIND_UINT, KIND_BOOL };

/* An input or a result. */
struct tensor {
    const char *name;
    const char *type;
    enum kind kind;
    /* Bytes of an element, and number of elements; of a column, of those of one node. */
    size_t bytes;
    size_t count;
    int is_column;
    /* Of the random numbers. */
    uint64_t seed;
    /* Random floats are at least this, and less than the sum of both. */
    double least;
    double width;
};

/* Elements of an input or a result, and how many there are; of a column, how many nodes. */
struct buffer {
    unsigned char *data;
    size_t count;
};

{tables}
/* At most so many elements are printed. */
enum { SHOWN = 6 };

/* ---- elements ------------------------------------------------------------------------------ */

static void put(unsigned char *place, size_t bytes, uint64_t bits)
{
    const uint8_t bits8 = (uint8_t)bits;
    const uint16_t bits16 = (uint16_t)bits;
    const uint32_t bits32 = (uint32_t)bits;
    switch (bytes) {
    case 1: memcpy(place, &bits8, sizeof bits8); break;
    case 2: memcpy(place, &bits16, sizeof bits16); break;
    case 4: memcpy(place, &bits32, sizeof bits32); break;
    default: memcpy(place, &bits, sizeof bits); break;
    }
}

static uint64_t get(const unsigned char *place, size_t bytes)
{
    uint8_t bits8;
    uint16_t bits16;
    uint32_t bits32;
    uint64_t bits;
    switch (bytes) {
    case 1: memcpy(&bits8, place, sizeof bits8); return bits8;
    case 2: memcpy(&bits16, place, sizeof bits16); return bits16;
    case 4: memcpy(&bits32, place, sizeof bits32); return bits32;
    default: memcpy(&bits, place, sizeof bits); return bits;
    }
}

/* A float of 16 bits, `fraction` of them after the point; the sign and the exponent are the rest. */
static uint64_t to_half(double value, int fraction)
{
    const int bias = (1 << (14 - fraction)) - 1;
    const uint64_t sign = value < 0.0 ? 0x8000u : 0u;
    int exponent;
    if (value == 0.0) {
        return sign;
    }
    frexp(value, &exponent);
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    const uint64_t units = (uint64_t)rint(ldexp(fabs(value), fraction - exponent));
    return sign | (units + ((uint64_t)(exponent + bias - 1) << fraction));
}

static double of_half(uint64_t bits, int fraction)
{
    const int bias = (1 << (14 - fraction)) - 1;
    const int exponent = (int)((bits & 0x7fffu) >> fraction);
    const uint64_t units = bits & ((1u << fraction) - 1u);
    double value;
    if (exponent == 2 * bias + 1) {
        value = units == 0 ? (double)INFINITY : (double)NAN;
    } else {
        const uint64_t leading = exponent == 0 ? 0u : 1u << fraction;
        value = ldexp((double)(units + leading), (exponent == 0 ? 1 : exponent) - bias - fraction);
    }
    return (bits & 0x8000u) != 0 ? -value : value;
}

/* ---- random numbers ------------------------------------------------------------------------ */

/* SplitMix64 (Steele et al., OOPSLA 2014). */
static uint64_t random_bits(uint64_t *state)
{
    uint64_t bits = *state += 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 31);
}

/* A number below `bound`. */
static uint64_t random_below(uint64_t *state, uint64_t bound)
{
    const uint64_t bits = random_bits(state);
    return ((bits >> 32) * bound + (((bits & 0xffffffffu) * bound) >> 32)) >> 32;
}

/* Floats as the tensor says, integers from -4 to 4, without a sign from 0 to 4. */
static uint64_t random_element(const struct tensor *tensor, uint64_t *state)
{
    if (tensor->kind == KIND_BOOL) {
        return random_below(state, 2);
    }
    if (tensor->kind == KIND_INT) {
        return random_below(state, 9) - 4u;
    }
    if (tensor->kind == KIND_UINT) {
        return random_below(state, 5);
    }
    const double unit = (double)(random_bits(state) >> 11) / 9007199254740992.0;
    const double value = unit * tensor->width + tensor->least;
    const float narrow = (float)value;
    uint64_t bits = 0;
    uint32_t bits32;
    if (tensor->bytes == 2) {
        return to_half(value, tensor->kind == KIND_BFLOAT ? 7 : 10);
    }
    if (tensor->bytes == 4) {
        memcpy(&bits32, &narrow, sizeof bits32);
        return bits32;
    }
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ---- printing ------------------------------------------------------------------------------ */

/* The shortest number that reads back as `value`. */
static void print_float(float value)
{
    char text[32];
    int precision = 0;
    if (isnan(value) || isinf(value)) {
        fputs(isnan(value) ? "NaN" : value < 0.0f ? "-inf" : "inf", stdout);
        return;
    }
    /* Away from zero by a hair, so that a last digit in the middle rounds up. */
    const double nudged = nextafter((double)value, 2.0 * (double)value);
    do {
        snprintf(text, sizeof text, "%.*e", precision, nudged);
        precision++;
    } while (strtof(text, NULL) != value && precision < 9);
    const char *digit = text;
    if (*digit == '-') {
        putchar(*digit++);
    }
    const int exponent = atoi(strchr(digit, 'e') + 1);
    const float size = fabsf(value);
    const int is_short = size == 0.0f || (size >= 1e-4f && size < 1e16f);
    /* Digits before the point. */
    int before = is_short ? exponent + 1 : 1;
    if (before <= 0) {
        fputs("0.", stdout);
        for (; before < 0; before++) {
            putchar('0');
        }
    }
    for (; *digit != 'e'; digit++) {
        if (*digit == '.') {
            continue;
        }
        putchar(*digit);
        before--;
        if (before == 0 && (is_short || digit[1] == '.')) {
            putchar('.');
            if (digit[1] == 'e') {
                putchar('0');
            }
        }
    }
    for (; before > 0; before--) {
        fputs(before == 1 ? "0.0" : "0", stdout);
    }
    if (!is_short) {
        printf("e%d", exponent);
    }
}

static void print_element(const struct tensor *tensor, const unsigned char *place)
{
    const uint64_t bits = get(place, tensor->bytes);
    const uint32_t bits32 = (uint32_t)bits;
    const int unused = 64 - 8 * (int)tensor->bytes;
    float narrow;
    double value;
    if (tensor->kind == KIND_INT) {
        printf("%lld", (long long)(bits << unused) / (1LL << unused));
    } else if (tensor->kind == KIND_UINT || tensor->kind == KIND_BOOL) {
        printf("%lld", (long long)bits);
    } else if (tensor->bytes == 2) {
        print_float((float)of_half(bits, tensor->kind == KIND_BFLOAT ? 7 : 10));
    } else if (tensor->bytes == 4) {
        memcpy(&narrow, &bits32, sizeof narrow);
        print_float(narrow);
    } else {
        memcpy(&value, &bits, sizeof value);
        print_float((float)value);
    }
}

static void print(const struct tensor *tensor, const struct buffer *buffer)
{
    const size_t count = tensor->is_column ? buffer->count * tensor->count : tensor->count;
    printf("%-*s  %-*s  ", NAME_WIDTH, tensor->name, TYPE_WIDTH, tensor->type);
    for (size_t i = 0; i < count && i < SHOWN; i++) {
        if (i > 0) {
            putchar(' ');
        }
        print_element(tensor, buffer->data + i * tensor->bytes);
    }
    puts(count > SHOWN ? " \xe2\x80\xa6" : "");
}

/* ---- running ------------------------------------------------------------------------------- */

/* Memory of `bytes` bytes at a multiple of {alignment}. */
static void *allocate(size_t bytes)
{
    const size_t units = bytes / {alignment} + 1;
    void *memory = aligned_alloc({alignment}, units * {alignment});
    if (memory == NULL) {
        fprintf(stderr, "error: no memory for %zu bytes\n", bytes);
        exit(EXIT_FAILURE);
    }
    return memory;
}

/* Reads an input; of a column as many elements as there are. */
static void read_input(const struct tensor *tensor, const char *path, struct buffer *buffer)
{
    const size_t unit = tensor->bytes * tensor->count;
    size_t bytes = unit;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "error: cannot read %s\n", path);
        exit(EXIT_FAILURE);
    }
    if (tensor->is_column && fseek(file, 0, SEEK_END) == 0) {
        bytes = (size_t)ftell(file);
        buffer->count = unit > 0 ? bytes / unit : 0;
        rewind(file);
    }
    buffer->data = allocate(bytes);
    const size_t found = fread(buffer->data, 1, bytes, file);
    if (found != bytes || (unit > 0 && bytes % unit != 0) || fgetc(file) != EOF) {
        fprintf(stderr, "error: %s does not fit %s: expected %zu bytes, found %s\n", path,
                tensor->name, bytes, found < bytes ? "fewer" : "more");
        exit(EXIT_FAILURE);
    }
    fclose(file);
}

static void fill_input(const struct tensor *tensor, struct buffer *buffer)
{
    uint64_t state = tensor->seed;
    if (tensor->is_column) {
        fprintf(stderr, "error: %s is given by a file\n", tensor->name);
        exit(EXIT_FAILURE);
    }
    buffer->data = allocate(tensor->bytes * tensor->count);
    for (size_t element = 0; element < tensor->count; element++) {
        put(buffer->data + element * tensor->bytes, tensor->bytes, random_element(tensor, &state));
    }
}

int main(int argc, char **argv)
{
    struct buffer in[INPUTS + 1] = {{NULL, 0}};
    struct buffer out[OUTPUTS + 1] = {{NULL, 0}};
    if (argc > INPUTS + 1) {
        fprintf(stderr, "error: expected at most %d files, found %d\n", INPUTS, argc - 1);
        return EXIT_FAILURE;
    }
    for (int i = 0; i < INPUTS; i++) {
        if (i + 1 < argc && strcmp(argv[i + 1], "-") != 0) {
            read_input(&inputs[i], argv[i + 1], &in[i]);
        } else {
            fill_input(&inputs[i], &in[i]);
        }
    }
    for (int i = 0; i < OUTPUTS; i++) {
        if (!outputs[i].is_column) {
            out[i].data = allocate(outputs[i].bytes * outputs[i].count);
        }
    }
{start}    for (int i = 0; i < OUTPUTS; i++) {
        print(&outputs[i], &out[i]);
        if (!outputs[i].is_column) {
            free(out[i].data);
        }
    }
    for (int i = 0; i < INPUTS; i++) {
        free(in[i].data);
    }
{end}    return EXIT_SUCCESS;
}
