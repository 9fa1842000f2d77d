/* A driver of NVIDIA's that computes nothing: it writes what it is asked for to the file DRIVER_TRACE, checks
   that the calls fit together, and lets the call number DRIVER_FAIL fail. Memory is filled with a pattern. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, FAILS = 999, NO_CONTEXT = 201 };

static FILE *trace;
static int calls;
static int depth;
static int live;
static int retained;
static unsigned char *memory;
static size_t memory_bytes;
static const char *text;
static int capturing;
static char entries[MOST][64];
static int entry_count;
static char captured[1 << 16];

static void note(const char *what)
{
    if (trace == NULL) {
        trace = fopen(getenv("DRIVER_TRACE"), "w");
    }
    fputs(what, trace);
    fflush(trace);
}

/* Counts a call; whether it works. */
static int works(const char *name)
{
    char line[128];
    const char *fails = getenv("DRIVER_FAIL");
    snprintf(line, sizeof line, "call %s\n", name);
    note(line);
    return fails == NULL || ++calls != atoi(fails);
}

#define CALL(name) \
    if (!works(name)) { \
        return FAILS; \
    }
#define CALL_IN_CONTEXT(name) \
    CALL(name) \
    if (depth == 0) { \
        note("no context\n"); \
        return NO_CONTEXT; \
    }

/* When the driver is unloaded, nothing may be left. */
__attribute__((destructor)) static void unload(void)
{
    char line[128];
    if (trace == NULL) {
        return;
    }
    snprintf(line, sizeof line, "left %d objects, %d contexts, %d uses\n", live, depth, retained);
    note(line);
    fclose(trace);
}

int cuInit(unsigned flags)
{
    CALL("cuInit")
    return flags == 0 ? 0 : FAILS;
}

int cuDeviceGetCount(int *count)
{
    CALL("cuDeviceGetCount")
    *count = 2;
    return 0;
}

int cuDeviceGet(int *device, int number)
{
    CALL("cuDeviceGet")
    *device = 10 + number;
    return 0;
}

int cuDeviceGetName(char *name, int bytes, int device)
{
    CALL("cuDeviceGetName")
    snprintf(name, (size_t)bytes, "Device %d", device - 10);
    return 0;
}

/* The first one is old. */
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    CALL("cuDeviceGetAttribute")
    *value = attribute == 76 ? 0 : attribute == 75 ? (device == 10 ? 3 : 9) : -1;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    CALL("cuDevicePrimaryCtxRetain")
    *context = &retained;
    retained++;
    return device == 11 ? 0 : FAILS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)works("cuDevicePrimaryCtxRelease_v2");
    retained--;
    return device == 11 ? 0 : FAILS;
}

int cuCtxPushCurrent_v2(void *context)
{
    CALL("cuCtxPushCurrent_v2")
    depth++;
    return context == &retained ? 0 : FAILS;
}

int cuCtxPopCurrent_v2(void **context)
{
    (void)works("cuCtxPopCurrent_v2");
    *context = &retained;
    depth--;
    return 0;
}

int cuModuleLoadDataEx(void **module, const void *data, unsigned count, int *options, void **values)
{
    if (!works("cuModuleLoadDataEx")) {
        if (count == 2 && options[0] == 5 && options[1] == 6 && (size_t)values[1] > 20) {
            strcpy(values[0], "line 1: no code");
        }
        return FAILS;
    }
    text = data;
    *module = &text;
    live++;
    return depth > 0 ? 0 : NO_CONTEXT;
}

int cuModuleUnload(void *module)
{
    (void)works("cuModuleUnload");
    live--;
    return module == &text ? 0 : FAILS;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    char wanted[128];
    CALL_IN_CONTEXT("cuModuleGetFunction")
    snprintf(wanted, sizeof wanted, ".entry %s(", name);
    if (module != &text || strstr(text, wanted) == NULL || entry_count == MOST) {
        return FAILS;
    }
    snprintf(entries[entry_count], sizeof entries[0], "%s", name);
    *function = entries[entry_count++];
    return 0;
}

int cuStreamCreate(void **stream, unsigned flags)
{
    CALL_IN_CONTEXT("cuStreamCreate")
    *stream = &capturing;
    live++;
    return flags == 1 ? 0 : FAILS;
}

int cuStreamDestroy_v2(void *stream)
{
    (void)works("cuStreamDestroy_v2");
    live--;
    return stream == &capturing ? 0 : FAILS;
}

int cuStreamSynchronize(void *stream)
{
    CALL_IN_CONTEXT("cuStreamSynchronize")
    return stream == &capturing && !capturing ? 0 : FAILS;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    char line[64];
    CALL_IN_CONTEXT("cuMemAlloc_v2")
    memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    for (size_t i = 0; i < bytes; i++) {
        memory[i] = (unsigned char)(i % 251);
    }
    memory_bytes = bytes;
    *address = (uint64_t)(uintptr_t)memory;
    live++;
    snprintf(line, sizeof line, "allocate %zu\n", bytes);
    note(line);
    return 0;
}

int cuMemFree_v2(uint64_t address)
{
    (void)works("cuMemFree_v2");
    live--;
    if (address != (uint64_t)(uintptr_t)memory) {
        return FAILS;
    }
    free(memory);
    return 0;
}

/* Where an address lies in the memory; too far where it does not. */
static size_t offset_of(uint64_t address, size_t bytes)
{
    const uint64_t offset = address - (uint64_t)(uintptr_t)memory;
    return offset <= memory_bytes && bytes <= memory_bytes - offset ? (size_t)offset : SIZE_MAX;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
    char line[64];
    const size_t offset = offset_of(to, bytes);
    CALL_IN_CONTEXT("cuMemcpyHtoDAsync_v2")
    if (offset == SIZE_MAX || stream != &capturing || bytes == 0) {
        return FAILS;
    }
    snprintf(line, sizeof line, "upload %zu ", offset);
    note(line);
    for (size_t i = 0; i < bytes; i++) {
        fprintf(trace, "%02x", ((const unsigned char *)from)[i]);
    }
    note("\n");
    return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
    char line[64];
    const size_t offset = offset_of(from, bytes);
    CALL_IN_CONTEXT("cuMemcpyDtoHAsync_v2")
    if (offset == SIZE_MAX || stream != &capturing || bytes == 0) {
        return FAILS;
    }
    memcpy(to, memory + offset, bytes);
    snprintf(line, sizeof line, "download %zu %zu\n", offset, bytes);
    note(line);
    return 0;
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned i, unsigned j,
    unsigned k, unsigned shared, void *stream, void **parameters, void **extra)
{
    char line[1024];
    char wanted[128];
    CALL_IN_CONTEXT("cuLaunchKernel")
    if (shared != 0 || stream != &capturing || extra != NULL) {
        return FAILS;
    }
    size_t length = (size_t)snprintf(
        line, sizeof line, "launch %s %u %u %u %u %u %u", (char *)function, x, y, z, i, j, k);
    snprintf(wanted, sizeof wanted, ".entry %s(", (char *)function);
    const char *at = strstr(text, wanted);
    const char *end = strchr(at + strlen(wanted), ')');
    /* As many parameters are read as the entry has. */
    for (int number = 0; (at = strstr(at + 1, ".param")) != NULL && at < end; number++) {
        uint64_t address;
        memcpy(&address, parameters[number], sizeof address);
        length += (size_t)snprintf(
            line + length, sizeof line - length, " %zu", offset_of(address, 0));
    }
    strcpy(line + length, "\n");
    if (capturing) {
        strcat(captured, line);
    } else {
        note(line);
    }
    return 0;
}

#ifndef WITHOUT_GRAPHS

int cuStreamBeginCapture_v2(void *stream, int mode)
{
    CALL_IN_CONTEXT("cuStreamBeginCapture_v2")
    capturing = 1;
    return stream == &capturing && mode == 1 ? 0 : FAILS;
}

int cuStreamEndCapture(void *stream, void **graph)
{
    const int ends = works("cuStreamEndCapture");
    capturing = 0;
    if (!ends) {
        return FAILS;
    }
    *graph = captured;
    live++;
    return stream == &capturing ? 0 : FAILS;
}

int cuGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags)
{
    CALL_IN_CONTEXT("cuGraphInstantiateWithFlags")
    *made = &captured;
    live++;
    return graph == captured && flags == 0 ? 0 : FAILS;
}

int cuGraphDestroy(void *graph)
{
    (void)works("cuGraphDestroy");
    live--;
    return graph == captured ? 0 : FAILS;
}

int cuGraphLaunch(void *graph, void *stream)
{
    CALL_IN_CONTEXT("cuGraphLaunch")
    note(captured);
    return graph == &captured && stream == &capturing ? 0 : FAILS;
}

int cuGraphExecDestroy(void *graph)
{
    (void)works("cuGraphExecDestroy");
    live--;
    return graph == &captured ? 0 : FAILS;
}

#endif
