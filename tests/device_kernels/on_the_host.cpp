// kernels.cu on the host, behind the names of NVRTC and of CUDA's driver: what the probes call
// through ctypes is called here with the same arguments, and every thread of a grid really runs.
#include <barrier>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

struct Place {
    unsigned x;
};
static thread_local Place blockIdx, threadIdx;
static Place blockDim, gridDim;
static std::barrier<> *meeting;

#define __global__
#define __launch_bounds__(...)
#define __shared__ static

static void __syncthreads() { meeting->arrive_and_wait(); }
static unsigned atomicAdd(unsigned *at, unsigned more) {
    return __atomic_fetch_add(at, more, __ATOMIC_RELAXED);
}
static long long clock64() {
    return std::chrono::steady_clock::now().time_since_epoch().count();
}

#include KERNELS

static std::string source, option;
static int known[] = {80, 90};

extern "C" {
int told_compile_error = 0, contexts_held = 0, contexts_pushed = 0, modules_loaded = 0;
void *last_stream = nullptr;
const char *last_option() { return option.c_str(); }

int nvrtcCreateProgram(void **program, const char *text, const char *, int, char **, char **) {
    source = text;
    *program = &source;
    return 0;
}
int nvrtcCompileProgram(void *, int count, const char **options) {
    option = count ? options[0] : "";
    return told_compile_error;
}
int nvrtcGetCUBINSize(void *, size_t *size) { return *size = 5, 0; }
int nvrtcGetCUBIN(void *, char *to) { return std::memcpy(to, "cubin", 5), 0; }
int nvrtcGetPTXSize(void *, size_t *size) { return *size = 3, 0; }
int nvrtcGetPTX(void *, char *to) { return std::memcpy(to, "ptx", 3), 0; }
static const char said[] = "a line\nkernels.cu(3): error: told to fail\n";
int nvrtcGetProgramLogSize(void *, size_t *size) { return *size = sizeof said, 0; }
int nvrtcGetProgramLog(void *, char *to) { return std::memcpy(to, said, sizeof said), 0; }
int nvrtcDestroyProgram(void **program) { return *program = nullptr, 0; }
int nvrtcGetNumSupportedArchs(int *count) { return *count = 2, 0; }
int nvrtcGetSupportedArchs(int *to) { return std::memcpy(to, known, sizeof known), 0; }

int cuInit(unsigned) { return 0; }
int cuDeviceGet(int *device, int index) { return *device = index, 0; }
int cuDevicePrimaryCtxRetain(void **context, int) {
    return *context = &contexts_held, contexts_held++, 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return contexts_held--, 0; }
int cuCtxPushCurrent_v2(void *context) {
    return context == &contexts_held ? (contexts_pushed++, 0) : 201;
}
int cuCtxPopCurrent_v2(void **) { return contexts_pushed--, 0; }
int cuModuleLoadData(void **module, const char *) {
    if (contexts_pushed != 1) return 201;
    return *module = &modules_loaded, modules_loaded++, 0;
}
int cuModuleUnload(void *) { return modules_loaded--, 0; }
int cuModuleGetFunction(const char **function, void *, const char *name) {
    for (const char *one : {"gputop_copy", "gputop_read", "gputop_fill", "gputop_triad",
                            "gputop_chase"})
        if (!std::strcmp(name, one)) return *function = one, 0;
    return 500;
}

static void run_one(const std::string &name, void **p) {
#define AS(type, place) (*(type *)p[place])
    if (name == "gputop_copy")
        gputop_copy(AS(Piece *, 0), AS(const Piece *, 1), AS(u64, 2), AS(unsigned, 3));
    if (name == "gputop_read")
        gputop_read(AS(const Piece *, 0), AS(u64, 1), AS(unsigned, 2), AS(unsigned *, 3));
    if (name == "gputop_fill")
        gputop_fill(AS(Piece *, 0), AS(u64, 1), AS(unsigned, 2), AS(unsigned, 3));
    if (name == "gputop_triad")
        gputop_triad(AS(Floats *, 0), AS(const Floats *, 1), AS(const Floats *, 2), AS(u64, 3),
                     AS(unsigned, 4), AS(float, 5));
    if (name == "gputop_chase")
        gputop_chase(AS(const volatile u64 *, 0), AS(u64, 1), AS(u64 *, 2));
}

int cuLaunchKernel(const char *name, unsigned blocks, unsigned y, unsigned z, unsigned threads,
                   unsigned ty, unsigned tz, unsigned shared, void *stream, void **arguments,
                   void **extra) {
    if (contexts_pushed != 1 || y != 1 || z != 1 || ty != 1 || tz != 1 || shared || extra) return 1;
    if (threads > MOST_THREADS) return 701;
    last_stream = stream;
    gridDim = {blocks}, blockDim = {threads};
    for (unsigned block = 0; block < blocks; block++) {
        std::barrier<> here(threads);
        meeting = &here;
        std::vector<std::thread> running;
        for (unsigned thread = 0; thread < threads; thread++)
            running.emplace_back([=] {
                blockIdx = {block}, threadIdx = {thread};
                run_one(name, arguments);
            });
        for (auto &one : running) one.join();
    }
    return 0;
}
}
