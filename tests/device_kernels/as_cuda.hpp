// The names of CUDA's driver.
#pragma once

static int context_of(void *context) {
    for (size_t index = 0; index < devices.size(); index++)
        if (devices[index].get() == context && devices[index]->is_open) return (int)index;
    return -1;
}
static int attribute(int *value, int number, int index) {
    if (!is_there(index)) return 101;
    if (number == 16) return *value = (int)told_number("multiprocessors", 2), 0;
    if (number == 38) return *value = (int)told_number("l2_bytes", 64 * 1024), 0;
    if (number == 20) return *value = (int)told_number("mode", 0), 0;
    return number == 75 ? (*value = 9, 0) : number == 76 ? (*value = 0, 0) : 1;
}
static int uuid(char *to, int index, int kind) {
    if (!is_there(index)) return 101;
    return std::memset(to, 16 * kind + index, 16), 0;
}
static int retain(void **context, int index) {
    if (!is_there(index)) return 101;
    devices[index]->is_open = true, counts["contexts"]++;
    return *context = devices[index].get(), 0;
}
static int load_ptx(void **module, const char *image) {
    const std::string text = image;
    const bool is_ptx = text.find(".version") != std::string::npos &&
                        text.find(".target sm_") != std::string::npos;
    return is_ptx ? load(module, text) : 218;
}

extern "C" {
CALL(cuInit, (unsigned flags), flags ? 1 : devices.empty() ? 100 : 0)
CALL(cuDriverGetVersion, (int *to), (*to = (int)told_number("version", 12080), 0))
CALL(cuDeviceGetCount, (int *count), device_count(count))
CALL(cuDeviceGet, (int *to, int index), device(to, index))
CALL(cuDeviceGetName, (char *to, int size, int index), device_name(to, size, index, "NVIDIA H200"))
CALL(cuDeviceGetPCIBusId, (char *to, int size, int index), address(to, size, index))
CALL(cuDeviceTotalMem_v2, (size_t *to, int index), total(to, index))
CALL(cuDeviceGetUuid, (char *to, int index), uuid(to, index, 1))
CALL(cuDeviceGetUuid_v2, (char *to, int index), uuid(to, index, 2))
CALL(cuDeviceGetAttribute, (int *to, int number, int index), attribute(to, number, index))
CALL(cuDevicePrimaryCtxRetain, (void **context, int index), retain(context, index))
CALL(cuCtxSetCurrent, (void *context), context_of(context) < 0 ? 201 : use(context_of(context)))
CALL(cuCtxSynchronize, (), synchronize())
CALL(cuDeviceCanAccessPeer, (int *to, int one, int other), can_access(to, one, other))
CALL(cuCtxEnablePeerAccess, (void *peer, unsigned flags),
     flags ? 1 : context_of(peer) < 0 ? 201 : reach(context_of(peer)))
CALL(cuMemGetInfo_v2, (size_t *free, size_t *all), memory_info(free, all))
CALL(cuMemAlloc_v2, (void **at, size_t size), allocate(at, size))
CALL(cuMemFree_v2, (void *at), give_back(at))
CALL(cuMemHostAlloc, (void **at, size_t size, unsigned flags), allocate_pinned(at, size, flags))
CALL(cuMemFreeHost, (void *at), unpin(at, true))
CALL(cuMemHostRegister_v2, (void *at, size_t size, unsigned flags), pin(at, size, flags))
CALL(cuMemHostUnregister, (void *at), unpin(at, false))
CALL(cuMemcpyAsync, (void *to, const void *from, size_t size, void *stream),
     copy(to, from, size, stream))
CALL(cuMemsetD8_v2, (void *at, unsigned char value, size_t size), clear(at, value, size))
CALL(cuStreamCreate, (void **stream, unsigned flags), make_stream(stream, flags))
CALL(cuStreamDestroy_v2, (void *stream), drop_stream(stream))
CALL(cuStreamWaitEvent, (void *stream, void *event, unsigned), wait_event(stream, event))
CALL(cuEventCreate, (void **event, unsigned), make_event(event))
CALL(cuEventRecord, (void *event, void *stream), record(event, stream))
CALL(cuEventSynchronize, (void *event), await_event(event))
CALL(cuEventElapsedTime, (float *to, void *start, void *end), elapsed(to, start, end))
CALL(cuEventDestroy_v2, (void *event), drop_event(event))
CALL(cuModuleLoadData, (void **module, const char *image), load_ptx(module, image))
CALL(cuModuleUnload, (void *module), unload(module))
CALL(cuModuleGetFunction, (void **found, void *module, const char *name),
     function(found, module, name, ".visible .entry ", "("))
CALL(cuLaunchKernel,
     (const char *name, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz,
      unsigned shared, void *stream, void **arguments, void **extra),
     y != 1 || z != 1 || ty != 1 || tz != 1 || shared || extra
         ? 1
         : launch(name, x, tx, stream, arguments))

int cuGetErrorName(int code, const char **to) {
    const Error *error = error_of(code);
    return error ? (*to = error->cuda, 0) : 1;
}
int cuGetErrorString(int code, const char **to) {
    const Error *error = error_of(code);
    return error ? (*to = error->text, 0) : 1;
}
}
