
/* ---- Vulkan: what is used of its interface, version 1.1 -------------------------------------- */

/* Handles: those that calls are dispatched by are pointers, all others numbers of 64 bits. */
typedef void *object;
typedef uint64_t handle;

struct application {
    int32_t type;
    const void *next;
    const char *name;
    uint32_t version;
    const char *engine;
    uint32_t engine_version;
    uint32_t api;
};

struct instance_info {
    int32_t type;
    const void *next;
    uint32_t flags;
    const struct application *application;
    uint32_t layer_count;
    const char *const *layers;
    uint32_t extension_count;
    const char *const *extensions;
};

/* What a device takes at most; what is not used here has no name. */
struct limits {
    uint32_t unused0[7];
    uint32_t buffer_bytes;
    uint32_t unused1[11];
    uint32_t buffers;
    uint32_t unused2[34];
    uint32_t shared_bytes;
    uint32_t blocks[3];
    uint32_t block_threads;
    uint32_t threads[3];
    uint64_t unused3[32];
};

struct properties {
    uint32_t api;
    uint32_t driver;
    uint32_t vendor;
    uint32_t number;
    int32_t kind;
    char name[256];
    uint8_t cache[16];
    struct limits limits;
    uint32_t sparse[5];
};

struct more_properties {
    int32_t type;
    void *next;
    struct properties properties;
};

struct allocation_limit {
    int32_t type;
    void *next;
    uint32_t set_descriptors;
    uint64_t bytes;
};

struct queue_family {
    uint32_t flags;
    uint32_t count;
    uint32_t clock_bits;
    uint32_t granularity[3];
};

struct memory_kinds {
    uint32_t kind_count;
    struct {
        uint32_t flags;
        uint32_t heap;
    } kinds[32];
    uint32_t heap_count;
    struct {
        uint64_t bytes;
        uint32_t flags;
    } heaps[16];
};

/* Features that are asked for, by their numbers in the structure of them all. */
enum { FEATURES = 55, FLOAT64 = 39, INT64 = 40, INT16 = 41 };

struct storage16 {
    int32_t type;
    void *next;
    uint32_t buffers;
    uint32_t others[3];
};

struct storage8 {
    int32_t type;
    void *next;
    uint32_t buffers;
    uint32_t others[2];
};

struct narrow_arithmetic {
    int32_t type;
    void *next;
    uint32_t float16;
    uint32_t int8;
};

struct queue_info {
    int32_t type;
    const void *next;
    uint32_t flags;
    uint32_t family;
    uint32_t count;
    const float *priorities;
};

struct device_info {
    int32_t type;
    const void *next;
    uint32_t flags;
    uint32_t queue_count;
    const struct queue_info *queues;
    uint32_t layer_count;
    const char *const *layers;
    uint32_t extension_count;
    const char *const *extensions;
    const uint32_t *features;
};

struct buffer_info {
    int32_t type;
    const void *next;
    uint32_t flags;
    uint64_t bytes;
    uint32_t usage;
    int32_t sharing;
    uint32_t family_count;
    const uint32_t *families;
};

struct memory_needs {
    uint64_t bytes;
    uint64_t alignment;
    uint32_t kinds;
};

struct memory_info {
    int32_t type;
    const void *next;
    uint64_t bytes;
    uint32_t kind;
};

struct shader_info {
    int32_t type;
    const void *next;
    uint32_t flags;
    size_t bytes;
    const uint32_t *words;
};

struct binding {
    uint32_t binding;
    int32_t type;
    uint32_t count;
    uint32_t stages;
    const handle *samplers;
};

struct set_layout_info {
    int32_t type;
    const void *next;
    uint32_t flags;
    uint32_t count;
    const struct binding *bindings;
};

struct layout_info {
    int32_t type;
    const void *next;
    uint32_t flags;
    uint32_t set_count;
    const handle *sets;
    uint32_t constant_count;
    const void *constants;
};

struct stage {
    int32_t type;
    const void *next;
    uint32_t flags;
    uint32_t stage;
    handle shader;
    const char *entry;
    const void *specialization;
};

struct pipeline_info {
    int32_t type;
    const void *next;
    uint32_t flags;
    struct stage stage;
    handle layout;
    handle base;
    int32_t base_index;
};

struct pool_size {
    int32_t type;
    uint32_t count;
};

struct pool_info {
    int32_t type;
    const void *next;
    uint32_t flags;
    uint32_t sets;
    uint32_t size_count;
    const struct pool_size *sizes;
};

struct set_info {
    int32_t type;
    const void *next;
    handle pool;
    uint32_t count;
    const handle *layouts;
};

struct bound_part {
    handle buffer;
    uint64_t offset;
    uint64_t bytes;
};

struct set_write {
    int32_t type;
    const void *next;
    handle set;
    uint32_t binding;
    uint32_t element;
    uint32_t count;
    int32_t descriptors;
    const void *images;
    const struct bound_part *buffers;
    const handle *views;
};

struct command_pool_info {
    int32_t type;
    const void *next;
    uint32_t flags;
    uint32_t family;
};

struct commands_info {
    int32_t type;
    const void *next;
    handle pool;
    int32_t level;
    uint32_t count;
};

struct begin_info {
    int32_t type;
    const void *next;
    uint32_t flags;
    const void *inheritance;
};

struct barrier {
    int32_t type;
    const void *next;
    uint32_t from;
    uint32_t to;
};

struct copy {
    uint64_t from;
    uint64_t to;
    uint64_t bytes;
};

struct submission {
    int32_t type;
    const void *next;
    uint32_t wait_count;
    const handle *waits;
    const uint32_t *wait_stages;
    uint32_t commands_count;
    const object *commands;
    uint32_t signal_count;
    const handle *signals;
};

struct fence_info {
    int32_t type;
    const void *next;
    uint32_t flags;
};

/* Numbers of the types of these structures. */
enum {
    APPLICATION_INFO = 0,
    INSTANCE_INFO = 1,
    QUEUE_INFO = 2,
    DEVICE_INFO = 3,
    SUBMISSION = 4,
    MEMORY_INFO = 5,
    FENCE_INFO = 8,
    BUFFER_INFO = 12,
    SHADER_INFO = 16,
    STAGE = 18,
    PIPELINE_INFO = 29,
    LAYOUT_INFO = 30,
    SET_LAYOUT_INFO = 32,
    POOL_INFO = 33,
    SET_INFO = 34,
    SET_WRITE = 35,
    COMMAND_POOL_INFO = 39,
    COMMANDS_INFO = 40,
    BEGIN_INFO = 42,
    BARRIER = 46,
    MORE_PROPERTIES = 1000059001,
    NARROW_ARITHMETIC = 1000082000,
    STORAGE16 = 1000083000,
    ALLOCATION_LIMIT = 1000168000,
    STORAGE8 = 1000177000
};

/* Other numbers of the interface. */
enum {
    VERSION_1_1 = (1 << 22) | (1 << 12),
    COMPUTE_QUEUE = 2,
    COMPUTE_STAGE = 32,
    COMPUTE_POINT = 1,
    STORAGE_BUFFER = 7,
    /* Uses of a buffer: as one of shaders, and for copies from and to it. */
    BUFFER_USAGE = 32 | 1 | 2,
    ON_DEVICE = 1,
    ON_HOST = 2 | 4,
    /* Where barriers stand: shaders, copies, and this machine; and what these write and read. */
    BARRIER_STAGES = 0x800 | 0x1000 | 0x4000,
    WRITES = 0x40 | 0x1000 | 0x4000,
    READS = 0x20 | 0x800 | 0x2000,
    /* Results. */
    NO_HOST_MEMORY = -1,
    NO_DEVICE_MEMORY = -2,
    NO_EXTENSION = -7,
    NO_FEATURE = -8
};

/* The functions that are called: a member, the name, the type of what it gives, and its parameters. */
#define FUNCTIONS(F) \
    F(destroy_instance, "vkDestroyInstance", void, (object, const void *)) \
    F(list_devices, "vkEnumeratePhysicalDevices", int32_t, (object, uint32_t *, object *)) \
    F(get_properties, "vkGetPhysicalDeviceProperties", void, (object, struct properties *)) \
    F(get_more_properties, "vkGetPhysicalDeviceProperties2", void, \
        (object, struct more_properties *)) \
    F(get_families, "vkGetPhysicalDeviceQueueFamilyProperties", void, \
        (object, uint32_t *, struct queue_family *)) \
    F(get_memory_kinds, "vkGetPhysicalDeviceMemoryProperties", void, \
        (object, struct memory_kinds *)) \
    F(create_device, "vkCreateDevice", int32_t, \
        (object, const struct device_info *, const void *, object *)) \
    F(destroy_device, "vkDestroyDevice", void, (object, const void *)) \
    F(get_queue, "vkGetDeviceQueue", void, (object, uint32_t, uint32_t, object *)) \
    F(wait_idle, "vkDeviceWaitIdle", int32_t, (object)) \
    F(create_buffer, "vkCreateBuffer", int32_t, \
        (object, const struct buffer_info *, const void *, handle *)) \
    F(destroy_buffer, "vkDestroyBuffer", void, (object, handle, const void *)) \
    F(get_memory_needs, "vkGetBufferMemoryRequirements", void, \
        (object, handle, struct memory_needs *)) \
    F(allocate_memory, "vkAllocateMemory", int32_t, \
        (object, const struct memory_info *, const void *, handle *)) \
    F(free_memory, "vkFreeMemory", void, (object, handle, const void *)) \
    F(bind_memory, "vkBindBufferMemory", int32_t, (object, handle, handle, uint64_t)) \
    F(map_memory, "vkMapMemory", int32_t, \
        (object, handle, uint64_t, uint64_t, uint32_t, void **)) \
    F(create_shader, "vkCreateShaderModule", int32_t, \
        (object, const struct shader_info *, const void *, handle *)) \
    F(destroy_shader, "vkDestroyShaderModule", void, (object, handle, const void *)) \
    F(create_set_layout, "vkCreateDescriptorSetLayout", int32_t, \
        (object, const struct set_layout_info *, const void *, handle *)) \
    F(destroy_set_layout, "vkDestroyDescriptorSetLayout", void, (object, handle, const void *)) \
    F(create_layout, "vkCreatePipelineLayout", int32_t, \
        (object, const struct layout_info *, const void *, handle *)) \
    F(destroy_layout, "vkDestroyPipelineLayout", void, (object, handle, const void *)) \
    F(create_pipelines, "vkCreateComputePipelines", int32_t, \
        (object, handle, uint32_t, const struct pipeline_info *, const void *, handle *)) \
    F(destroy_pipeline, "vkDestroyPipeline", void, (object, handle, const void *)) \
    F(create_pool, "vkCreateDescriptorPool", int32_t, \
        (object, const struct pool_info *, const void *, handle *)) \
    F(destroy_pool, "vkDestroyDescriptorPool", void, (object, handle, const void *)) \
    F(allocate_sets, "vkAllocateDescriptorSets", int32_t, \
        (object, const struct set_info *, handle *)) \
    F(write_sets, "vkUpdateDescriptorSets", void, \
        (object, uint32_t, const struct set_write *, uint32_t, const void *)) \
    F(create_command_pool, "vkCreateCommandPool", int32_t, \
        (object, const struct command_pool_info *, const void *, handle *)) \
    F(destroy_command_pool, "vkDestroyCommandPool", void, (object, handle, const void *)) \
    F(allocate_commands, "vkAllocateCommandBuffers", int32_t, \
        (object, const struct commands_info *, object *)) \
    F(begin, "vkBeginCommandBuffer", int32_t, (object, const struct begin_info *)) \
    F(end, "vkEndCommandBuffer", int32_t, (object)) \
    F(copy_buffer, "vkCmdCopyBuffer", void, \
        (object, handle, handle, uint32_t, const struct copy *)) \
    F(wait_for_writes, "vkCmdPipelineBarrier", void, \
        (object, uint32_t, uint32_t, uint32_t, uint32_t, const struct barrier *, uint32_t, \
            const void *, uint32_t, const void *)) \
    F(bind_pipeline, "vkCmdBindPipeline", void, (object, int32_t, handle)) \
    F(bind_sets, "vkCmdBindDescriptorSets", void, \
        (object, int32_t, handle, uint32_t, uint32_t, const handle *, uint32_t, \
            const uint32_t *)) \
    F(dispatch, "vkCmdDispatch", void, (object, uint32_t, uint32_t, uint32_t)) \
    F(create_fence, "vkCreateFence", int32_t, \
        (object, const struct fence_info *, const void *, handle *)) \
    F(destroy_fence, "vkDestroyFence", void, (object, handle, const void *)) \
    F(reset_fences, "vkResetFences", int32_t, (object, uint32_t, const handle *)) \
    F(wait_for_fences, "vkWaitForFences", int32_t, \
        (object, uint32_t, const handle *, uint32_t, uint64_t)) \
    F(submit, "vkQueueSubmit", int32_t, (object, uint32_t, const struct submission *, handle))

#define MEMBER(member, name, type, parameters) type(*member) parameters;
#define LOAD(member, name, type, parameters) \
    vulkan->member = (type(*) parameters)get(instance, name); \
    if (vulkan->member == NULL) { \
        missing = name; \
    }

typedef void (*function)(void);
typedef function (*get_function)(object instance, const char *name);

struct vulkan {
    FUNCTIONS(MEMBER)
};

/* The name of a function that the driver lacks; null where it has all. */
static const char *load(struct vulkan *vulkan, get_function get, object instance)
{
    const char *missing = NULL;
    FUNCTIONS(LOAD)
    return missing;
}
