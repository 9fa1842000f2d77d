
/* ---- the device ------------------------------------------------------------------------------ */

struct memory {
    handle buffer;
    handle memory;
    /* Where it is in this process; null where it is not. */
    unsigned char *bytes;
};

struct pipeline {
    handle set_layout;
    handle layout;
    handle pipeline;
};

struct {name}_device {
    void *library;
    struct vulkan vulkan;
    object instance;
    object physical;
    object device;
    object queue;
    uint32_t family;
    handle fence;
    handle command_pool;
    handle pool;
    /* What a run does. */
    object commands;
    struct memory memory;
    struct memory staging;
    struct pipeline pipelines[SHADERS + 1];
};

/* The status of what a call of the driver gave. */
static int told(int32_t result, const char *what, {name}_failure *failure)
{
    switch (result) {
    case NO_HOST_MEMORY:
    case NO_DEVICE_MEMORY:
        return failed(failure, {macro}_NO_MEMORY, what, result);
    case NO_EXTENSION:
    case NO_FEATURE:
        return failed(failure, {macro}_UNFIT_DEVICE, what, result);
    default:
        return result >= 0 ? {macro}_OK : failed(failure, {macro}_FAILED, what, result);
    }
}

/* Starts Vulkan. */
static int start({name}_device *d, {name}_failure *failure)
{
    const struct application application = {
        .type = APPLICATION_INFO, .name = "{name}", .api = VERSION_1_1};
    const struct instance_info info = {.type = INSTANCE_INFO, .application = &application};
    int32_t (*create)(const struct instance_info *, const void *, object *);
    get_function get;
    void *symbol;
    d->library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    symbol = d->library == NULL ? NULL : dlsym(d->library, "vkGetInstanceProcAddr");
    if (symbol == NULL) {
        return refused(failure, {macro}_NO_DEVICE, "there is no libvulkan.so.1");
    }
    /* C has no cast from what dlsym gives to a function. */
    memcpy(&get, &symbol, sizeof get);
    create = (int32_t(*)(const struct instance_info *, const void *, object *))get(
        NULL, "vkCreateInstance");
    if (create == NULL) {
        return refused(failure, {macro}_NO_DEVICE, "there is no vkCreateInstance");
    }
    const int32_t result = create(&info, NULL, &d->instance);
    if (result < 0) {
        d->instance = NULL;
        return failed(failure, {macro}_NO_DEVICE, "vkCreateInstance", result);
    }
    const char *missing = load(&d->vulkan, get, d->instance);
    return missing == NULL ? {macro}_OK : refused(failure, {macro}_NO_DEVICE, missing);
}

/* The queue family of a device that computes; -1 where it has none. */
static int computing(const struct vulkan *vulkan, object physical)
{
    struct queue_family families[16];
    uint32_t count = 16;
    vulkan->get_families(physical, &count, families);
    for (uint32_t i = 0; i < count; i++) {
        if ((families[i].flags & COMPUTE_QUEUE) != 0) {
            return (int)i;
        }
    }
    return -1;
}

/* Graphics processors before processors. */
static int rank_of(int32_t kind)
{
    static const int ranks[] = {3, 1, 0, 2, 3};
    return kind >= 0 && kind < 5 ? ranks[kind] : 3;
}

/* Chooses the first device whose name contains `wanted`. */
static int choose({name}_device *d, const char *wanted, {name}_failure *failure)
{
    object all[16];
    struct properties properties;
    uint32_t count = 16;
    int best = 4;
    const int32_t result = d->vulkan.list_devices(d->instance, &count, all);
    if (result < 0) {
        return failed(failure, {macro}_NO_DEVICE, "vkEnumeratePhysicalDevices", result);
    }
    for (uint32_t i = 0; i < count; i++) {
        d->vulkan.get_properties(all[i], &properties);
        const int family = computing(&d->vulkan, all[i]);
        const int rank = rank_of(properties.kind);
        const int is_wanted = wanted == NULL || strstr(properties.name, wanted) != NULL;
        if (family >= 0 && is_wanted && properties.api >= VERSION_1_1 && rank < best) {
            best = rank;
            d->physical = all[i];
            d->family = (uint32_t)family;
        }
    }
    if (d->physical == NULL) {
        return refused(failure, {macro}_NO_DEVICE, "there is no Vulkan 1.1 device of that name");
    }
    return {macro}_OK;
}

/* Whether the numbers of one side are all at most those of the other. */
static int is_within(const uint32_t *needed, const uint32_t *most)
{
    return needed[0] <= most[0] && needed[1] <= most[1] && needed[2] <= most[2];
}

/* Whether the device is large enough. */
static int measure({name}_device *d, {name}_failure *failure)
{
    struct allocation_limit allocation = {.type = ALLOCATION_LIMIT};
    struct more_properties found = {.type = MORE_PROPERTIES, .next = &allocation};
    d->vulkan.get_more_properties(d->physical, &found);
    const struct limits *limits = &found.properties.limits;
    const char *small = NULL;
    if (needed.buffers > limits->buffers) {
        small = "the device takes too few buffers";
    } else if (needed.buffer_bytes > limits->buffer_bytes) {
        small = "the device takes no buffers of that size";
    } else if (needed.shared_bytes > limits->shared_bytes) {
        small = "the device has too little shared memory";
    } else if (needed.block_threads > limits->block_threads
        || !is_within(needed.threads, limits->threads)) {
        small = "the device has too few threads in a block";
    } else if (!is_within(needed.blocks, limits->blocks)) {
        small = "the device takes too few blocks";
    } else if (DEVICE_BYTES > allocation.bytes) {
        small = "the device gives no memory of that size";
    }
    return small == NULL ? {macro}_OK : refused(failure, {macro}_UNFIT_DEVICE, small);
}

/* Opens the device with the features that the shaders need; the driver refuses those that it lacks. */
static int open_queue({name}_device *d, {name}_failure *failure)
{
    static const float priority = 1.0f;
    const char *extensions[2];
    uint32_t extension_count = 0;
    uint32_t features[FEATURES] = {0};
    struct storage16 shorts = {.type = STORAGE16, .buffers = 1};
    struct storage8 bytes = {.type = STORAGE8, .buffers = 1};
    struct narrow_arithmetic halves = {.type = NARROW_ARITHMETIC, .float16 = 1};
    void *chain = NULL;
    features[FLOAT64] = needed.float64;
    features[INT64] = needed.int64;
    features[INT16] = needed.int16;
    if (needed.storage16) {
        shorts.next = chain;
        chain = &shorts;
    }
    if (needed.storage8) {
        bytes.next = chain;
        chain = &bytes;
        extensions[extension_count++] = "VK_KHR_8bit_storage";
    }
    if (needed.float16) {
        halves.next = chain;
        chain = &halves;
        extensions[extension_count++] = "VK_KHR_shader_float16_int8";
    }
    const struct queue_info queue = {
        .type = QUEUE_INFO, .family = d->family, .count = 1, .priorities = &priority};
    const struct device_info info = {
        .type = DEVICE_INFO,
        .next = chain,
        .queue_count = 1,
        .queues = &queue,
        .extension_count = extension_count,
        .extensions = extensions,
        .features = features,
    };
    const int32_t result = d->vulkan.create_device(d->physical, &info, NULL, &d->device);
    if (result < 0) {
        d->device = NULL;
        return told(result, "vkCreateDevice", failure);
    }
    d->vulkan.get_queue(d->device, d->family, 0, &d->queue);
    return {macro}_OK;
}

/* The first kind of memory among `kinds` that has the properties `flags`; -1 where there is none. */
static int find_kind(const struct memory_kinds *all, uint32_t kinds, uint32_t flags)
{
    for (uint32_t i = 0; i < all->kind_count && i < 32; i++) {
        if ((kinds >> i & 1) == 1 && (all->kinds[i].flags & flags) == flags) {
            return (int)i;
        }
    }
    return -1;
}

/* Makes memory, on the device or for this machine. */
static int allocate({name}_device *d, uint64_t bytes, uint32_t flags, struct memory *made,
    {name}_failure *failure)
{
    const struct buffer_info info = {
        .type = BUFFER_INFO, .bytes = bytes > 0 ? bytes : 4, .usage = BUFFER_USAGE};
    struct memory_kinds kinds;
    struct memory_needs needs;
    int status = told(d->vulkan.create_buffer(d->device, &info, NULL, &made->buffer),
        "vkCreateBuffer", failure);
    if (status != {macro}_OK) {
        made->buffer = 0;
        return status;
    }
    d->vulkan.get_memory_needs(d->device, made->buffer, &needs);
    d->vulkan.get_memory_kinds(d->physical, &kinds);
    int kind = find_kind(&kinds, needs.kinds, flags);
    if (kind < 0 && flags == ON_DEVICE) {
        kind = find_kind(&kinds, needs.kinds, 0);
    }
    if (kind < 0) {
        return refused(failure, {macro}_UNFIT_DEVICE, "the device has no memory of that kind");
    }
    const struct memory_info memory = {
        .type = MEMORY_INFO, .bytes = needs.bytes, .kind = (uint32_t)kind};
    status = told(d->vulkan.allocate_memory(d->device, &memory, NULL, &made->memory),
        "vkAllocateMemory", failure);
    if (status != {macro}_OK) {
        made->memory = 0;
        return status;
    }
    status = told(d->vulkan.bind_memory(d->device, made->buffer, made->memory, 0),
        "vkBindBufferMemory", failure);
    if (status == {macro}_OK && flags == ON_HOST) {
        void *place = NULL;
        status = told(d->vulkan.map_memory(d->device, made->memory, 0, UINT64_MAX, 0, &place),
            "vkMapMemory", failure);
        made->bytes = place;
    }
    return status;
}

static void discard({name}_device *d, struct memory *memory)
{
    d->vulkan.destroy_buffer(d->device, memory->buffer, NULL);
    d->vulkan.free_memory(d->device, memory->memory, NULL);
    *memory = (struct memory){0};
}

/* Makes what records commands and waits for them. */
static int prepare({name}_device *d, {name}_failure *failure)
{
    const struct command_pool_info pool = {.type = COMMAND_POOL_INFO, .family = d->family};
    const struct fence_info fence = {.type = FENCE_INFO};
    const struct pool_size size = {STORAGE_BUFFER, BOUND + 1};
    const struct pool_info sets = {
        .type = POOL_INFO, .sets = LAUNCHES + 1, .size_count = 1, .sizes = &size};
    int status = told(d->vulkan.create_command_pool(d->device, &pool, NULL, &d->command_pool),
        "vkCreateCommandPool", failure);
    if (status != {macro}_OK) {
        d->command_pool = 0;
        return status;
    }
    status = told(d->vulkan.create_fence(d->device, &fence, NULL, &d->fence), "vkCreateFence",
        failure);
    if (status != {macro}_OK) {
        d->fence = 0;
        return status;
    }
    status = told(d->vulkan.create_pool(d->device, &sets, NULL, &d->pool),
        "vkCreateDescriptorPool", failure);
    if (status != {macro}_OK) {
        d->pool = 0;
    }
    return status;
}

/* Translates a shader for the device. */
static int translate({name}_device *d, const struct shader *shader, struct pipeline *made,
    {name}_failure *failure)
{
    struct binding bindings[MOST_BINDINGS + 1];
    handle module = 0;
    for (uint32_t i = 0; i < shader->bindings; i++) {
        bindings[i] = (struct binding){
            .binding = i, .type = STORAGE_BUFFER, .count = 1, .stages = COMPUTE_STAGE};
    }
    const struct set_layout_info set = {
        .type = SET_LAYOUT_INFO, .count = shader->bindings, .bindings = bindings};
    int status = told(d->vulkan.create_set_layout(d->device, &set, NULL, &made->set_layout),
        "vkCreateDescriptorSetLayout", failure);
    if (status != {macro}_OK) {
        made->set_layout = 0;
        return status;
    }
    const struct layout_info layout = {
        .type = LAYOUT_INFO, .set_count = 1, .sets = &made->set_layout};
    status = told(d->vulkan.create_layout(d->device, &layout, NULL, &made->layout),
        "vkCreatePipelineLayout", failure);
    if (status != {macro}_OK) {
        made->layout = 0;
        return status;
    }
    const struct shader_info code = {
        .type = SHADER_INFO, .bytes = shader->bytes, .words = shader->words};
    status = told(d->vulkan.create_shader(d->device, &code, NULL, &module),
        "vkCreateShaderModule", failure);
    if (status != {macro}_OK) {
        return status;
    }
    const struct pipeline_info info = {
        .type = PIPELINE_INFO,
        .stage = {.type = STAGE, .stage = COMPUTE_STAGE, .shader = module, .entry = shader->entry},
        .layout = made->layout,
    };
    status = told(d->vulkan.create_pipelines(d->device, 0, 1, &info, NULL, &made->pipeline),
        "vkCreateComputePipelines", failure);
    if (status != {macro}_OK) {
        made->pipeline = 0;
    }
    d->vulkan.destroy_shader(d->device, module, NULL);
    return status;
}

/* Begins a list of commands. */
static int begin({name}_device *d, object *commands, {name}_failure *failure)
{
    const struct commands_info info = {
        .type = COMMANDS_INFO, .pool = d->command_pool, .count = 1};
    const struct begin_info start = {.type = BEGIN_INFO};
    const int status = told(d->vulkan.allocate_commands(d->device, &info, commands),
        "vkAllocateCommandBuffers", failure);
    if (status != {macro}_OK) {
        return status;
    }
    return told(d->vulkan.begin(*commands, &start), "vkBeginCommandBuffer", failure);
}

/* What follows sees what was done before. */
static void settle({name}_device *d, object commands)
{
    const struct barrier barrier = {.type = BARRIER, .from = WRITES, .to = READS | WRITES};
    d->vulkan.wait_for_writes(
        commands, BARRIER_STAGES, BARRIER_STAGES, 0, 1, &barrier, 0, NULL, 0, NULL);
}

static void copy({name}_device *d, object commands, const struct memory *from, uint64_t from_offset,
    const struct memory *to, uint64_t to_offset, uint64_t bytes)
{
    const struct copy region = {from_offset, to_offset, bytes};
    if (bytes > 0) {
        d->vulkan.copy_buffer(commands, from->buffer, to->buffer, 1, &region);
    }
}

/* Runs a list of commands, and waits for its end. */
static int submit({name}_device *d, object commands, {name}_failure *failure)
{
    const struct submission submission = {
        .type = SUBMISSION, .commands_count = 1, .commands = &commands};
    int status = told(
        d->vulkan.submit(d->queue, 1, &submission, d->fence), "vkQueueSubmit", failure);
    if (status != {macro}_OK) {
        return status;
    }
    status = told(d->vulkan.wait_for_fences(d->device, 1, &d->fence, 1, UINT64_MAX),
        "vkWaitForFences", failure);
    if (status != {macro}_OK) {
        /* Nothing uses the memory any more when this returns. */
        d->vulkan.wait_idle(d->device);
        return status;
    }
    return told(d->vulkan.reset_fences(d->device, 1, &d->fence), "vkResetFences", failure);
}

/* Copies the constants to the device, by memory that is given back. */
static int upload({name}_device *d, {name}_failure *failure)
{
    struct memory staging = {0};
    object commands = NULL;
    int status = allocate(d, WEIGHT_BYTES, ON_HOST, &staging, failure);
    if (status == {macro}_OK) {
        status = begin(d, &commands, failure);
    }
    if (status == {macro}_OK) {
        for (int i = 0; i < WEIGHTS; i++) {
            const struct weight *weight = &weights[i];
            memcpy(staging.bytes + weight->from, weight_data + weight->from, weight->to.bytes);
            copy(d, commands, &staging, weight->from, &d->memory, weight->to.offset,
                weight->to.bytes);
        }
        settle(d, commands);
        status = told(d->vulkan.end(commands), "vkEndCommandBuffer", failure);
    }
    if (status == {macro}_OK) {
        status = submit(d, commands, failure);
    }
    discard(d, &staging);
    return status;
}

/* Notes a launch. */
static int note({name}_device *d, const struct launch *launch, {name}_failure *failure)
{
    const struct pipeline *pipeline = &d->pipelines[launch->shader];
    const struct set_info info = {
        .type = SET_INFO, .pool = d->pool, .count = 1, .layouts = &pipeline->set_layout};
    handle set = 0;
    const int status = told(
        d->vulkan.allocate_sets(d->device, &info, &set), "vkAllocateDescriptorSets", failure);
    if (status != {macro}_OK) {
        return status;
    }
    for (uint32_t i = launch->first; i < launch->first + launch->count; i++) {
        const struct bound_part part = {d->memory.buffer, bound[i].part.offset, bound[i].part.bytes};
        const struct set_write write = {
            .type = SET_WRITE,
            .set = set,
            .binding = bound[i].binding,
            .count = 1,
            .descriptors = STORAGE_BUFFER,
            .buffers = &part,
        };
        d->vulkan.write_sets(d->device, 1, &write, 0, NULL);
    }
    d->vulkan.bind_pipeline(d->commands, COMPUTE_POINT, pipeline->pipeline);
    d->vulkan.bind_sets(d->commands, COMPUTE_POINT, pipeline->layout, 0, 1, &set, 0, NULL);
    d->vulkan.dispatch(d->commands, launch->blocks[0], launch->blocks[1], launch->blocks[2]);
    settle(d, d->commands);
    return {macro}_OK;
}

/* Notes what a run does. */
static int record({name}_device *d, {name}_failure *failure)
{
    int status = begin(d, &d->commands, failure);
    if (status != {macro}_OK) {
        return status;
    }
    for (int i = 0; i < INPUTS; i++) {
        copy(d, d->commands, &d->staging, inputs[i].offset, &d->memory, inputs[i].offset,
            inputs[i].bytes);
    }
    settle(d, d->commands);
    for (int i = 0; i < LAUNCHES; i++) {
        status = note(d, &launches[i], failure);
        if (status != {macro}_OK) {
            return status;
        }
    }
    for (int i = 0; i < RESULTS; i++) {
        copy(d, d->commands, &d->memory, results[i].offset, &d->staging, results[i].offset,
            results[i].bytes);
    }
    settle(d, d->commands);
    return told(d->vulkan.end(d->commands), "vkEndCommandBuffer", failure);
}

/* All that a device needs, step by step; what fails leaves the rest to be released. */
static int set_up({name}_device *d, const char *wanted, {name}_failure *failure)
{
    int status = start(d, failure);
    if (status == {macro}_OK) {
        status = choose(d, wanted, failure);
    }
    if (status == {macro}_OK) {
        status = measure(d, failure);
    }
    if (status == {macro}_OK) {
        status = open_queue(d, failure);
    }
    if (status == {macro}_OK) {
        status = prepare(d, failure);
    }
    if (status == {macro}_OK) {
        status = allocate(d, DEVICE_BYTES, ON_DEVICE, &d->memory, failure);
    }
    if (status == {macro}_OK) {
        status = allocate(d, CHANGING_BYTES, ON_HOST, &d->staging, failure);
    }
    for (int i = 0; status == {macro}_OK && i < SHADERS; i++) {
        status = translate(d, &shaders[i], &d->pipelines[i], failure);
    }
    if (status == {macro}_OK && WEIGHTS > 0) {
        status = upload(d, failure);
    }
    if (status == {macro}_OK) {
        status = record(d, failure);
    }
    return status;
}

int {name}_init({name}_device **device, const char *wanted, {name}_failure *failure)
{
    if (failure != NULL) {
        failure->text[0] = '\0';
    }
    if (device == NULL) {
        return {macro}_BAD_DEVICE;
    }
    *device = NULL;
    {name}_device *d = calloc(1, sizeof *d);
    if (d == NULL) {
        return {macro}_NO_MEMORY;
    }
    const int status = set_up(d, wanted, failure);
    if (status != {macro}_OK) {
        {name}_release(d);
        return status;
    }
    *device = d;
    return {macro}_OK;
}

void {name}_release({name}_device *device)
{
    if (device == NULL) {
        return;
    }
    const struct vulkan *vulkan = &device->vulkan;
    if (device->device != NULL) {
        /* A device that was lost is idle. Handles that are 0 are none. */
        vulkan->wait_idle(device->device);
        for (int i = 0; i < SHADERS; i++) {
            vulkan->destroy_pipeline(device->device, device->pipelines[i].pipeline, NULL);
            vulkan->destroy_layout(device->device, device->pipelines[i].layout, NULL);
            vulkan->destroy_set_layout(device->device, device->pipelines[i].set_layout, NULL);
        }
        discard(device, &device->staging);
        discard(device, &device->memory);
        vulkan->destroy_pool(device->device, device->pool, NULL);
        vulkan->destroy_fence(device->device, device->fence, NULL);
        vulkan->destroy_command_pool(device->device, device->command_pool, NULL);
        vulkan->destroy_device(device->device, NULL);
    }
    if (device->instance != NULL && vulkan->destroy_instance != NULL) {
        vulkan->destroy_instance(device->instance, NULL);
    }
    if (device->library != NULL) {
        dlclose(device->library);
    }
    free(device);
}

static int compute({name}_device *device, const void *const *in, void *const *out,
    {name}_failure *failure)
{
    for (int i = 0; i < INPUTS; i++) {
        memcpy(device->staging.bytes + inputs[i].offset, in[i], inputs[i].bytes);
    }
    const int status = submit(device, device->commands, failure);
    for (int i = 0; status == {macro}_OK && i < RESULTS; i++) {
        memcpy(out[i], device->staging.bytes + results[i].offset, results[i].bytes);
    }
    return status;
}
