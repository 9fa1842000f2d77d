
/* ---- CUDA: what is used of the driver's interface -------------------------------------------- */

typedef void *object;
typedef uint64_t address;

/* Numbers of the interface. */
enum {
    NO_MEMORY = 2,
    CAPABILITY_MAJOR = 75,
    CAPABILITY_MINOR = 76,
    /* Options of a module: where messages go, and how many bytes of them. */
    ERROR_LOG = 5,
    ERROR_LOG_BYTES = 6,
    /* A stream that waits for no other. */
    INDEPENDENT = 1,
    /* What other threads do at the same time is no concern of what is captured. */
    OF_THREAD = 1
};

/* The functions that are called: a member, the name, and the parameters. All return a status. */
#define FUNCTIONS(F) \
    F(start, "cuInit", (unsigned)) \
    F(count_devices, "cuDeviceGetCount", (int *)) \
    F(get_device, "cuDeviceGet", (int *, int)) \
    F(get_name, "cuDeviceGetName", (char *, int, int)) \
    F(get_attribute, "cuDeviceGetAttribute", (int *, int, int)) \
    F(retain, "cuDevicePrimaryCtxRetain", (object *, int)) \
    F(release, "cuDevicePrimaryCtxRelease_v2", (int)) \
    F(enter, "cuCtxPushCurrent_v2", (object)) \
    F(leave, "cuCtxPopCurrent_v2", (object *)) \
    F(load_module, "cuModuleLoadDataEx", (object *, const void *, unsigned, int *, void **)) \
    F(unload_module, "cuModuleUnload", (object)) \
    F(get_function, "cuModuleGetFunction", (object *, object, const char *)) \
    F(create_stream, "cuStreamCreate", (object *, unsigned)) \
    F(destroy_stream, "cuStreamDestroy_v2", (object)) \
    F(wait_for_stream, "cuStreamSynchronize", (object)) \
    F(allocate, "cuMemAlloc_v2", (address *, size_t)) \
    F(free_memory, "cuMemFree_v2", (address)) \
    F(upload, "cuMemcpyHtoDAsync_v2", (address, const void *, size_t, object)) \
    F(download, "cuMemcpyDtoHAsync_v2", (void *, address, size_t, object)) \
    F(launch, "cuLaunchKernel", (object, unsigned, unsigned, unsigned, unsigned, unsigned, \
        unsigned, unsigned, object, void **, void **))

/* Functions that older drivers lack: those that make one graph of the launches of a run. */
#define GRAPH_FUNCTIONS(F) \
    F(begin_capture, "cuStreamBeginCapture_v2", (object, int)) \
    F(end_capture, "cuStreamEndCapture", (object, object *)) \
    F(make_graph, "cuGraphInstantiateWithFlags", (object *, object, unsigned long long)) \
    F(destroy_captured, "cuGraphDestroy", (object)) \
    F(launch_graph, "cuGraphLaunch", (object, object)) \
    F(destroy_graph, "cuGraphExecDestroy", (object))

/* C has no cast from what dlsym gives to a function. */
#define MEMBER(member, name, parameters) int(*member) parameters;
#define LOAD(member, name, parameters) \
    symbol = dlsym(library, name); \
    if (symbol == NULL) { \
        missing = name; \
    } else { \
        memcpy(&cuda->member, &symbol, sizeof symbol); \
    }

struct cuda {
    FUNCTIONS(MEMBER)
    GRAPH_FUNCTIONS(MEMBER)
    int has_graphs;
};

/* The name of a function that the driver lacks; null where it has all that are needed. */
static const char *load(struct cuda *cuda, void *library)
{
    const char *missing = NULL;
    void *symbol;
    GRAPH_FUNCTIONS(LOAD)
    cuda->has_graphs = missing == NULL;
    missing = NULL;
    FUNCTIONS(LOAD)
    return missing;
}

/* ---- the device ------------------------------------------------------------------------------ */

struct {name}_device {
    void *library;
    struct cuda cuda;
    int number;
    object context;
    object module;
    object functions[ENTRIES + 1];
    object stream;
    address memory;
    /* All launches of a run; null where the driver makes no such graphs. */
    object graph;
};

/* The status of what a call of the driver gave. */
static int told(int result, const char *what, {name}_failure *failure)
{
    if (result == 0) {
        return {macro}_OK;
    }
    return failed(failure, result == NO_MEMORY ? {macro}_NO_MEMORY : {macro}_FAILED, what, result);
}

/* Starts the driver. */
static int start({name}_device *d, {name}_failure *failure)
{
    d->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (d->library == NULL) {
        return refused(failure, {macro}_NO_DEVICE, "there is no libcuda.so.1");
    }
    const char *missing = load(&d->cuda, d->library);
    if (missing != NULL) {
        return refused(failure, {macro}_NO_DEVICE, missing);
    }
    const int result = d->cuda.start(0);
    return result == 0 ? {macro}_OK : failed(failure, {macro}_NO_DEVICE, "cuInit", result);
}

/* Chooses the first device whose name contains `wanted`, and that the code is not too new for. */
static int choose({name}_device *d, const char *wanted, {name}_failure *failure)
{
    int count = 0;
    int is_found = 0;
    int status = told(d->cuda.count_devices(&count), "cuDeviceGetCount", failure);
    for (int i = 0; status == {macro}_OK && i < count; i++) {
        char name[256] = "";
        int major = 0;
        int minor = 0;
        status = told(d->cuda.get_device(&d->number, i), "cuDeviceGet", failure);
        if (status == {macro}_OK) {
            status = told(d->cuda.get_name(name, (int)sizeof name, d->number), "cuDeviceGetName",
                failure);
        }
        if (status == {macro}_OK) {
            status = told(d->cuda.get_attribute(&major, CAPABILITY_MAJOR, d->number),
                "cuDeviceGetAttribute", failure);
        }
        if (status == {macro}_OK) {
            status = told(d->cuda.get_attribute(&minor, CAPABILITY_MINOR, d->number),
                "cuDeviceGetAttribute", failure);
        }
        name[sizeof name - 1] = '\0';
        if (status != {macro}_OK || (wanted != NULL && strstr(name, wanted) == NULL)) {
            continue;
        }
        if (10 * major + minor >= CAPABILITY) {
            return {macro}_OK;
        }
        is_found = 1;
    }
    if (status != {macro}_OK) {
        return status;
    }
    return is_found
        ? refused(failure, {macro}_UNFIT_DEVICE, "the device is older than the code")
        : refused(failure, {macro}_NO_DEVICE, "there is no NVIDIA device of that name");
}

/* Makes the context of the device the current one, for this thread. */
static int enter({name}_device *d, {name}_failure *failure)
{
    return told(d->cuda.enter(d->context), "cuCtxPushCurrent", failure);
}

/* Makes the context current that was so before. */
static void leave({name}_device *d)
{
    object own = NULL;
    d->cuda.leave(&own);
}

/* Translates the code for the device. */
static int translate({name}_device *d, {name}_failure *failure)
{
    char log[400] = "";
    int options[] = {ERROR_LOG, ERROR_LOG_BYTES};
    /* The driver takes the size in place of a pointer. */
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    const int result = d->cuda.load_module(&d->module, code, 2, options, values);
    if (result != 0) {
        d->module = NULL;
        log[sizeof log - 1] = '\0';
        return log[0] != '\0' ? refused(failure, {macro}_FAILED, log)
                              : told(result, "cuModuleLoadDataEx", failure);
    }
    for (int i = 0; i < ENTRIES; i++) {
        const int status = told(
            d->cuda.get_function(&d->functions[i], d->module, entries[i]), entries[i], failure);
        if (status != {macro}_OK) {
            return status;
        }
    }
    return {macro}_OK;
}

/* Copies the constants to the device. */
static int upload({name}_device *d, {name}_failure *failure)
{
    for (int i = 0; i < WEIGHTS; i++) {
        const struct weight *weight = &weights[i];
        const int status = weight->to.bytes == 0
            ? {macro}_OK
            : told(d->cuda.upload(d->memory + weight->to.offset, weight_data + weight->from,
                       weight->to.bytes, d->stream),
                  "cuMemcpyHtoDAsync", failure);
        if (status != {macro}_OK) {
            return status;
        }
    }
    return told(d->cuda.wait_for_stream(d->stream), "cuStreamSynchronize", failure);
}

/* Starts all launches, one after the other. */
static int launch_all({name}_device *d, {name}_failure *failure)
{
    for (int i = 0; i < LAUNCHES; i++) {
        const struct launch *launch = &launches[i];
        const unsigned *blocks = launch->blocks;
        const unsigned *threads = launch->threads;
        address addresses[MOST_BUFFERS + 1];
        void *parameters[MOST_BUFFERS + 1];
        for (unsigned k = 0; k < launch->count; k++) {
            addresses[k] = d->memory + bound[launch->first + k];
            parameters[k] = &addresses[k];
        }
        const int status = told(
            d->cuda.launch(d->functions[launch->entry], blocks[0], blocks[1], blocks[2],
                threads[0], threads[1], threads[2], 0, d->stream, parameters, NULL),
            "cuLaunchKernel", failure);
        if (status != {macro}_OK) {
            return status;
        }
    }
    return {macro}_OK;
}

/* Makes one graph of all launches, where the driver can. Without one, a run starts them itself. */
static void capture({name}_device *d)
{
    object captured = NULL;
    if (!d->cuda.has_graphs || d->cuda.begin_capture(d->stream, OF_THREAD) != 0) {
        return;
    }
    const int status = launch_all(d, NULL);
    if (d->cuda.end_capture(d->stream, &captured) != 0 || captured == NULL) {
        return;
    }
    if (status != {macro}_OK || d->cuda.make_graph(&d->graph, captured, 0) != 0) {
        d->graph = NULL;
    }
    d->cuda.destroy_captured(captured);
}

/* What is made in the context; what fails leaves the rest to be released. */
static int prepare({name}_device *d, {name}_failure *failure)
{
    int status = translate(d, failure);
    if (status == {macro}_OK) {
        status = told(d->cuda.create_stream(&d->stream, INDEPENDENT), "cuStreamCreate", failure);
        d->stream = status == {macro}_OK ? d->stream : NULL;
    }
    if (status == {macro}_OK) {
        status = told(d->cuda.allocate(&d->memory, DEVICE_BYTES), "cuMemAlloc", failure);
        d->memory = status == {macro}_OK ? d->memory : 0;
    }
    if (status == {macro}_OK) {
        status = upload(d, failure);
    }
    if (status == {macro}_OK) {
        capture(d);
    }
    return status;
}

/* All that a device needs, step by step. */
static int set_up({name}_device *d, const char *wanted, {name}_failure *failure)
{
    int status = start(d, failure);
    if (status == {macro}_OK) {
        status = choose(d, wanted, failure);
    }
    if (status == {macro}_OK) {
        status = told(d->cuda.retain(&d->context, d->number), "cuDevicePrimaryCtxRetain", failure);
        d->context = status == {macro}_OK ? d->context : NULL;
    }
    if (status == {macro}_OK) {
        status = enter(d, failure);
    }
    if (status == {macro}_OK) {
        status = prepare(d, failure);
        leave(d);
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
    const struct cuda *cuda = &device->cuda;
    if (device->context != NULL) {
        /* What fails here has nobody to tell. */
        const int is_current = enter(device, NULL) == {macro}_OK;
        if (device->stream != NULL) {
            cuda->wait_for_stream(device->stream);
        }
        if (device->graph != NULL) {
            cuda->destroy_graph(device->graph);
        }
        if (device->memory != 0) {
            cuda->free_memory(device->memory);
        }
        if (device->stream != NULL) {
            cuda->destroy_stream(device->stream);
        }
        if (device->module != NULL) {
            cuda->unload_module(device->module);
        }
        if (is_current) {
            leave(device);
        }
        cuda->release(device->number);
    }
    if (device->library != NULL) {
        dlclose(device->library);
    }
    free(device);
}

/* Copies the inputs, computes, and copies the results back, in the current context. */
static int compute_here({name}_device *d, const void *const *in, void *const *out,
    {name}_failure *failure)
{
    int status = {macro}_OK;
    for (int i = 0; status == {macro}_OK && i < INPUTS; i++) {
        if (inputs[i].bytes > 0) {
            status = told(
                d->cuda.upload(d->memory + inputs[i].offset, in[i], inputs[i].bytes, d->stream),
                "cuMemcpyHtoDAsync", failure);
        }
    }
    if (status == {macro}_OK) {
        status = d->graph != NULL
            ? told(d->cuda.launch_graph(d->graph, d->stream), "cuGraphLaunch", failure)
            : launch_all(d, failure);
    }
    if (status == {macro}_OK) {
        status = told(d->cuda.wait_for_stream(d->stream), "cuStreamSynchronize", failure);
    }
    for (int i = 0; status == {macro}_OK && i < RESULTS; i++) {
        if (results[i].bytes > 0) {
            status = told(
                d->cuda.download(out[i], d->memory + results[i].offset, results[i].bytes, d->stream),
                "cuMemcpyDtoHAsync", failure);
        }
    }
    /* Whatever failed, nothing uses the memory of the caller any more. */
    const int ended = told(d->cuda.wait_for_stream(d->stream), "cuStreamSynchronize",
        status == {macro}_OK ? failure : NULL);
    return status == {macro}_OK ? ended : status;
}

static int compute({name}_device *device, const void *const *in, void *const *out,
    {name}_failure *failure)
{
    int status = enter(device, failure);
    if (status == {macro}_OK) {
        status = compute_here(device, in, out, failure);
        leave(device);
    }
    return status;
}
