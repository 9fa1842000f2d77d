/* Vulkan, whose loader is DRIVER_REAL, but for the call number DRIVER_FAIL that gives a result, which fails.
   What was called, and how much of it is left at the end, goes to the file DRIVER_TRACE.

   Arguments are handed on as numbers of 64 bits, which is how these are passed on the machines that tests run
   on. */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 128, FAILS = -3 };

typedef void (*function)(void);
typedef int32_t (*real)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
typedef function (*get_function)(void *, const char *);

static FILE *trace;
static int calls;
static int live;
static void *library;

static void note(const char *what, const char *name)
{
    if (trace == NULL) {
        trace = fopen(getenv("DRIVER_TRACE"), "w");
    }
    fprintf(trace, "%s %s\n", what, name);
    fflush(trace);
}

__attribute__((destructor)) static void unload(void)
{
    char line[64];
    if (trace != NULL) {
        snprintf(line, sizeof line, "%d objects", live);
        note("left", line);
        fclose(trace);
    }
}

static int32_t call(const char *name, real real, int made, uint64_t a, uint64_t b, uint64_t c,
    uint64_t d, uint64_t e, uint64_t f)
{
    const char *fails = getenv("DRIVER_FAIL");
    note("call", name);
    if (fails != NULL && ++calls == atoi(fails)) {
        return FAILS;
    }
    const int32_t result = real(a, b, c, d, e, f);
    live += result == 0 ? made : 0;
    return result;
}

#define CALLED(F) \
    F(vkCreateInstance, 1) \
    F(vkEnumeratePhysicalDevices, 0) \
    F(vkCreateDevice, 1) \
    F(vkCreateBuffer, 1) \
    F(vkAllocateMemory, 1) \
    F(vkBindBufferMemory, 0) \
    F(vkMapMemory, 0) \
    F(vkCreateShaderModule, 1) \
    F(vkCreateDescriptorSetLayout, 1) \
    F(vkCreatePipelineLayout, 1) \
    F(vkCreateComputePipelines, 1) \
    F(vkCreateDescriptorPool, 1) \
    F(vkAllocateDescriptorSets, 0) \
    F(vkCreateCommandPool, 1) \
    F(vkAllocateCommandBuffers, 0) \
    F(vkBeginCommandBuffer, 0) \
    F(vkEndCommandBuffer, 0) \
    F(vkCreateFence, 1) \
    F(vkResetFences, 0) \
    F(vkWaitForFences, 0) \
    F(vkQueueSubmit, 0)

/* What destroys something of a device, and then what destroys what it is given. */
#define DESTROYING(F) \
    F(vkDestroyBuffer, b) \
    F(vkFreeMemory, b) \
    F(vkDestroyShaderModule, b) \
    F(vkDestroyDescriptorSetLayout, b) \
    F(vkDestroyPipelineLayout, b) \
    F(vkDestroyPipeline, b) \
    F(vkDestroyDescriptorPool, b) \
    F(vkDestroyCommandPool, b) \
    F(vkDestroyFence, b) \
    F(vkDestroyDevice, a) \
    F(vkDestroyInstance, a)

#define WRAP_CALLED(name, made) \
    static real real_##name; \
    static int32_t own_##name(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) \
    { \
        return call(#name, real_##name, made, a, b, c, d, e, f); \
    }
#define WRAP_DESTROYING(name, what) \
    static real real_##name; \
    static void own_##name(uint64_t a, uint64_t b, uint64_t c) \
    { \
        live -= what != 0; \
        real_##name(a, b, c, 0, 0, 0); \
    }

CALLED(WRAP_CALLED)
DESTROYING(WRAP_DESTROYING)

#define FIND(wanted, unused) \
    if (strcmp(name, #wanted) == 0) { \
        real_##wanted = (real)found; \
        return (function)own_##wanted; \
    }

function vkGetInstanceProcAddr(void *instance, const char *name)
{
    get_function get;
    void *symbol;
    if (library == NULL) {
        library = dlopen(getenv("DRIVER_REAL"), RTLD_NOW | RTLD_LOCAL);
    }
    symbol = dlsym(library, "vkGetInstanceProcAddr");
    memcpy(&get, &symbol, sizeof get);
    const function found = get(instance, name);
    CALLED(FIND)
    DESTROYING(FIND)
    return found;
}
