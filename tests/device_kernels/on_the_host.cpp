// A made-up driver, to be called libcuda.so.1, libamdhip64.so and libhiprtc.so, and the libnccl.so.2
// or librccl.so.1 beside it: what the probes call through ctypes is called here with the same
// arguments, and every kernel really runs.
//
// Tests say in words what the node is like and what is wrong, "devices=3;denied=0>1", by the
// variable GPUTOP_MADE_UP before the library is loaded or by made_up() later:
//
//     devices, memory_mib, name.0, address.0     the node; version, multiprocessors,
//                                                mode (of computing)
//     link_gbs, staged_gbs, pinned_gbs, ...      speeds; op_ns of each work, call_ns of each call
//     NAME=CODE, NAME=CODE@N                     a call's answer, or its answer from the Nth time on
//     kernel.NAME=CODE                           a fault when that kernel runs
//     denied=0>1, lost=0>1, spoil=NAME@1         peers and data: see node.hpp and doing.hpp
//     blocking=1, late_holds=N, late.0.1=NANOSECONDS
//                        copies that wait; a host that is slow; a stream that goes on late
//     hang.NAME=PATH, polls=N, nccl_gbs, nccl_version, last_error, room=FOLDER
//                        NCCL: see as_nccl.hpp; a communicator that is ready after N questions;
//                        where ranks of several nodes meet
//     compile_error=1                            hiprtc refuses
#include "doing.hpp"

static void make_node() {
    for (auto &device : devices) munmap(device->room, arena_bytes + huge_bytes);
    for (auto &[at, host] : pinned)
        if (host.is_ours) munmap(at, host.size);
    devices.clear(), pinned.clear(), events.clear(), counts.clear(), last.clear();
    queued = 0, now = 0, current = -1, ticks = 0;
    const int wanted = (int)told_number("devices", 0);
    for (int index = 0; index < wanted; index++) {
        devices.push_back(std::make_unique<Device>());
        devices.back()->plain = {index, -1};
        void *room = mmap(nullptr, arena_bytes + huge_bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        devices.back()->room = room;
        devices.back()->arena = (char *)(((size_t)room + huge_bytes - 1) / huge_bytes * huge_bytes);
    }
}

extern "C" void made_up(const char *words) {
    std::lock_guard held(lock);
    told.clear();
    std::string text = words ? words : "";
    for (size_t start = 0; start < text.size();) {
        const size_t end = std::min(text.find(';', start), text.size());
        const auto word = text.substr(start, end - start);
        const auto is = word.find('=');
        if (is != std::string::npos) told[word.substr(0, is)] = word.substr(is + 1);
        start = end + 1;
    }
    make_node();
}
// Forget what is wrong from now on.
extern "C" void made_well() {
    std::lock_guard held(lock);
    told.clear();
}
extern "C" long counted(const char *what) {
    std::lock_guard held(lock);
    return counts[what];
}
static const int begun = (made_up(getenv("GPUTOP_MADE_UP")), 0);

// Devices, of both drivers

static int device_count(int *count) { return *count = (int)devices.size(), 0; }
static bool is_there(int index) { return index >= 0 && index < (int)devices.size(); }
static std::string of_device(const char *what, int index, const std::string &otherwise) {
    return told_text(std::string(what) + "." + std::to_string(index), otherwise);
}
static int device(int *device, int index) { return is_there(index) ? (*device = index, 0) : 101; }
static int say(char *to, int size, const std::string &text) {
    if (size <= (int)text.size()) return 1;
    return std::memcpy(to, text.c_str(), text.size() + 1), 0;
}
static int device_name(char *to, int size, int index, const char *usual) {
    return is_there(index) ? say(to, size, of_device("name", index, usual)) : 101;
}
static int address(char *to, int size, int index) {
    char usual[16];
    snprintf(usual, sizeof usual, "0000:%02X:00.0", index + 1);
    return is_there(index) ? say(to, size, of_device("address", index, usual)) : 101;
}
static int total(size_t *size, int index) {
    return is_there(index) ? (*size = memory_bytes(), 0) : 101;
}
static int memory_info(size_t *free, size_t *total) {
    if (current < 0) return 201;
    return *total = memory_bytes(), *free = *total - here()->used, 0;
}
static int can_access(int *answer, int one, int other) {
    return is_there(one) && is_there(other) ? (*answer = may_reach(one, other), 0) : 101;
}
static int use(int index) {
    return is_there(index) ? (current = index, 0) : 101;
}

// Code

static int load(void **module, const std::string &image) {
    if (current < 0) return 201;
    counts["modules"]++;
    return *module = new std::string(image), 0;
}
static int unload(void *module) { return delete (std::string *)module, counts["modules"]--, 0; }
static int function(void **found, void *module, const char *name, const char *before,
                    const char *after) {
    const auto known = kernels.find(name);
    const auto &image = *(const std::string *)module;
    if (known == kernels.end() || image.find(before + known->first + after) == std::string::npos)
        return 500;
    return *found = (void *)known->first.c_str(), 0;
}

struct Error {
    int code;
    const char *cuda, *hip, *text;
};
static const Error errors[] = {
    {1, "CUDA_ERROR_INVALID_VALUE", "hipErrorInvalidValue", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory", "out of memory"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", nullptr, "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "hipErrorNoDevice", "no device is detected"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "hipErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", nullptr,
     "the provided PTX was compiled with an unsupported toolchain."},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "hipErrorOperatingSystem",
     "OS call failed or operation not supported on this OS"},
    {500, "CUDA_ERROR_NOT_FOUND", "hipErrorNotFound", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "hipErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "hipErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {711, "CUDA_ERROR_TOO_MANY_PEERS", nullptr, "peer mapping resources exhausted"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "hipErrorLaunchFailure", "unspecified launch failure"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", nullptr, "system not yet initialized"},
    {999, "CUDA_ERROR_UNKNOWN", "hipErrorUnknown", "unknown error"}};
static const Error *error_of(int code) {
    for (const Error &error : errors)
        if (error.code == code) return &error;
    return nullptr;
}

#include "as_cuda.hpp"
#include "as_hip.hpp"
#include "as_nccl.hpp"
