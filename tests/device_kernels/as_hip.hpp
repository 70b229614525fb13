// The names of HIP's runtime and of hiprtc.
#pragma once

static std::string hip_source, hip_option;
static const char hip_log[] = "a line\nkernels.cu(3): error: told to fail\n";

static int compile(int count, const char **options) {
    hip_option = count == 1 ? options[0] : "";
    return told_number("compile_error", 0) ? 6 : 0;
}
// The code that hiprtc gives: the option and the source, so that the runtime can tell what it has.
static std::string compiled() { return "code " + hip_option + "\n" + hip_source; }

static int load_code(void **module, const char *image) {
    return std::strncmp(image, "code --offload-arch=gfx", 23) ? 209 : load(module, image);
}
static int use_first(int index) { return current < 0 && is_there(index) ? use(index) : 0; }

extern "C" {
CALL(hipInit, (unsigned), devices.empty() ? 100 : use_first(0))
CALL(hipGetDeviceCount, (int *count), device_count(count))
CALL(hipDeviceGet, (int *to, int index), device(to, index))
CALL(hipDeviceGetName, (char *to, int size, int index),
     device_name(to, size, index, "AMD Instinct MI300X"))
CALL(hipDeviceGetPCIBusId, (char *to, int size, int index), address(to, size, index))
CALL(hipDeviceTotalMem, (size_t *to, int index), total(to, index))
CALL(hipSetDevice, (int index), use(index))
CALL(hipDeviceSynchronize, (), synchronize())
CALL(hipDeviceCanAccessPeer, (int *to, int one, int other), can_access(to, one, other))
CALL(hipDeviceEnablePeerAccess, (int peer, unsigned flags), flags ? 1 : reach(peer))
CALL(hipMemGetInfo, (size_t *free, size_t *all), memory_info(free, all))
CALL(hipMalloc, (void **at, size_t size), allocate(at, size))
CALL(hipFree, (void *at), at ? give_back(at) : 0)
CALL(hipHostMalloc, (void **at, size_t size, unsigned flags), allocate_pinned(at, size, flags))
CALL(hipHostFree, (void *at), unpin(at, true))
CALL(hipHostRegister, (void *at, size_t size, unsigned flags), pin(at, size, flags))
CALL(hipHostUnregister, (void *at), unpin(at, false))
CALL(hipMemcpyAsync, (void *to, const void *from, size_t size, int kind, void *stream),
     kind != 4 ? 1 : copy(to, from, size, stream))
CALL(hipMemset, (void *at, int value, size_t size), clear(at, value, size))
CALL(hipStreamCreateWithFlags, (void **stream, unsigned flags), make_stream(stream, flags))
CALL(hipStreamDestroy, (void *stream), drop_stream(stream))
CALL(hipStreamWaitEvent, (void *stream, void *event, unsigned), wait_event(stream, event))
CALL(hipEventCreateWithFlags, (void **event, unsigned), make_event(event))
CALL(hipEventRecord, (void *event, void *stream), record(event, stream))
CALL(hipEventSynchronize, (void *event), await_event(event))
CALL(hipEventElapsedTime, (float *to, void *start, void *end), elapsed(to, start, end))
CALL(hipEventDestroy, (void *event), drop_event(event))
CALL(hipModuleLoadData, (void **module, const char *image), load_code(module, image))
CALL(hipModuleUnload, (void *module), unload(module))
CALL(hipModuleGetFunction, (void **found, void *module, const char *name),
     function(found, module, name, "", "("))
CALL(hipModuleLaunchKernel,
     (const char *name, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz,
      unsigned shared, void *stream, void **arguments, void **extra),
     y != 1 || z != 1 || ty != 1 || tz != 1 || shared || extra
         ? 1
         : launch(name, x, tx, stream, arguments))

const char *hipGetErrorName(int code) {
    const Error *error = error_of(code);
    return error && error->hip ? error->hip : "hipErrorUnknown";
}
const char *hipGetErrorString(int code) {
    const Error *error = error_of(code);
    return error ? error->text : "unknown error";
}

int hiprtcCreateProgram(void **program, const char *text, const char *, int, char **, char **) {
    hip_source = text;
    return *program = &hip_source, 0;
}
CALL(hiprtcCompileProgram, (void *, int count, const char **options), compile(count, options))
int hiprtcGetCodeSize(void *, size_t *size) { return *size = compiled().size() + 1, 0; }
int hiprtcGetCode(void *, char *to) { return std::strcpy(to, compiled().c_str()), 0; }
int hiprtcGetProgramLogSize(void *, size_t *size) { return *size = sizeof hip_log, 0; }
int hiprtcGetProgramLog(void *, char *to) { return std::memcpy(to, hip_log, sizeof hip_log), 0; }
int hiprtcDestroyProgram(void **program) { return *program = nullptr, 0; }
}
