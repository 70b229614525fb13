// kernels.cu on the host: every kernel runs here with the arguments that a driver is given for it.
#pragma once
#include <algorithm>
#include <barrier>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

struct Place {
    unsigned x;
};
static thread_local Place blockIdx, threadIdx;
static Place blockDim, gridDim;
static std::barrier<> *meeting;
static long long ticks;

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __shared__ static

static void __syncthreads() { meeting->arrive_and_wait(); }
template <class Number> static Number atomicAdd(Number *at, Number more) {
    return __atomic_fetch_add(at, more, __ATOMIC_RELAXED);
}
static unsigned long long atomicMin(unsigned long long *at, unsigned long long other) {
    const unsigned long long before = *at;  // no kernel that calls it runs on several threads here
    return *at = std::min(before, other), before;
}
static long long clock64() { return ticks += 1000000; }

#include KERNELS

// Memory that a kernel touches.
struct Range {
    char *at;
    size_t size;
};
struct Touched {
    Range written;
    std::vector<Range> read;
    unsigned passes = 1;
};

#define AS(type, place) (*(type *)p[place])
#define AT(place) AS(char *, place)

// The bytes of each kernel's arguments.
static const std::map<std::string, std::string> kernels = {
    {"gputop_copy", "8884"}, {"gputop_read", "8848"}, {"gputop_fill", "8844"},
    {"gputop_triad", "888844"}, {"gputop_chase", "888"}, {"gputop_random", "8888"},
    {"gputop_numbers", "888"}, {"gputop_unlike_random", "8888"}, {"gputop_unlike", "8888"},
    {"gputop_pattern", "888"}, {"gputop_unlike_pattern", "888888"},
    {"gputop_unlike_fill", "8848"}, {"gputop_unlike_triad", "888848"}, {"gputop_sum", "888"},
    {"gputop_ring", "888"}, {"gputop_hold", "888"}};

static Touched touched(const std::string &name, void **p) {
    const auto bytes = [p](int place, size_t each) { return AS(u64, place) * each; };
    if (name == "gputop_copy")
        return {{AT(0), bytes(2, 16)}, {{AT(1), bytes(2, 16)}}, AS(unsigned, 3)};
    if (name == "gputop_read") return {{AT(3), 4}, {{AT(0), bytes(1, 16)}}, AS(unsigned, 2)};
    if (name == "gputop_fill") return {{AT(0), bytes(1, 16)}, {}, AS(unsigned, 2)};
    if (name == "gputop_triad")
        return {{AT(0), bytes(3, 16)}, {{AT(1), bytes(3, 16)}, {AT(2), bytes(3, 16)}},
                AS(unsigned, 4)};
    if (name == "gputop_chase") return {{AT(2), 8}, {{AT(0), 8}}};
    if (name == "gputop_random") return {{AT(0), bytes(1, 8)}, {}};
    if (name == "gputop_numbers") return {{AT(0), bytes(1, 4)}, {}};
    if (name == "gputop_pattern") return {{AT(0), bytes(1, 4)}, {}};
    if (name == "gputop_unlike_pattern") return {{AT(5), 16}, {{AT(0), bytes(1, 4)}}};
    if (name == "gputop_unlike_random") return {{AT(3), 16}, {{AT(0), bytes(1, 8)}}};
    if (name == "gputop_unlike")
        return {{AT(3), 16}, {{AT(0), bytes(2, 8)}, {AT(1), bytes(2, 8)}}};
    if (name == "gputop_unlike_fill") return {{AT(3), 16}, {{AT(0), bytes(1, 4)}}};
    if (name == "gputop_unlike_triad")
        return {{AT(5), 16}, {{AT(0), bytes(3, 4)}, {AT(1), bytes(3, 4)}, {AT(2), bytes(3, 4)}}};
    if (name == "gputop_sum") return {{AT(2), 4}, {{AT(0), bytes(1, 4)}}};
    if (name == "gputop_ring") return {{AT(0), AS(u64, 1) * AS(u64, 2) * 8}, {}};
    return {{AT(2), 4}, {{AT(0), 4}}};
}

static void run_one(const std::string &name, void **p) {
    if (name == "gputop_copy")
        gputop_copy(AS(Piece *, 0), AS(const Piece *, 1), AS(u64, 2), AS(unsigned, 3));
    else if (name == "gputop_read")
        gputop_read(AS(const Piece *, 0), AS(u64, 1), AS(unsigned, 2), AS(unsigned *, 3));
    else if (name == "gputop_fill")
        gputop_fill(AS(Piece *, 0), AS(u64, 1), AS(unsigned, 2), AS(unsigned, 3));
    else if (name == "gputop_triad")
        gputop_triad(AS(Floats *, 0), AS(const Floats *, 1), AS(const Floats *, 2), AS(u64, 3),
                     AS(unsigned, 4), AS(float, 5));
    else if (name == "gputop_chase")
        gputop_chase(AS(const volatile u64 *, 0), AS(u64, 1), AS(u64 *, 2));
    else if (name == "gputop_random")
        gputop_random(AS(u64 *, 0), AS(u64, 1), AS(u64, 2), AS(u64, 3));
    else if (name == "gputop_numbers")
        gputop_numbers(AS(float *, 0), AS(u64, 1), AS(u64, 2));
    else if (name == "gputop_unlike_random")
        gputop_unlike_random(AS(const u64 *, 0), AS(u64, 1), AS(u64, 2), AS(Found *, 3));
    else if (name == "gputop_pattern")
        gputop_pattern(AS(float *, 0), AS(u64, 1), AS(u64, 2));
    else if (name == "gputop_unlike_pattern")
        gputop_unlike_pattern(AS(const float *, 0), AS(u64, 1), AS(u64, 2), AS(u64, 3), AS(u64, 4),
                              AS(Found *, 5));
    else if (name == "gputop_unlike")
        gputop_unlike(AS(const u64 *, 0), AS(const u64 *, 1), AS(u64, 2), AS(Found *, 3));
    else if (name == "gputop_unlike_fill")
        gputop_unlike_fill(AS(const unsigned *, 0), AS(u64, 1), AS(unsigned, 2), AS(Found *, 3));
    else if (name == "gputop_unlike_triad")
        gputop_unlike_triad(AS(const float *, 0), AS(const float *, 1), AS(const float *, 2),
                            AS(u64, 3), AS(float, 4), AS(Found *, 5));
    else if (name == "gputop_sum")
        gputop_sum(AS(const unsigned *, 0), AS(u64, 1), AS(unsigned *, 2));
    else if (name == "gputop_ring")
        gputop_ring(AS(u64 *, 0), AS(u64, 1), AS(u64, 2));
    else if (name == "gputop_hold")
        gputop_hold(AS(const volatile unsigned *, 0), AS(u64, 1), AS(volatile unsigned *, 2));
}

// How many bytes are walked by one thread instead of a grid: a grid on one core goes through memory
// in strides that no cache helps.
static const size_t many_bytes = 1 << 20;

static void run_grid(const std::string &name, unsigned blocks, unsigned threads, void **p,
                     size_t bytes) {
    if (bytes > many_bytes) blocks = threads = 1;
    gridDim = {blocks}, blockDim = {threads};
    for (unsigned block = 0; block < blocks; block++) {
        blockIdx = {block};
        if (name != "gputop_read") {
            for (unsigned thread = 0; thread < threads; thread++)
                threadIdx = {thread}, run_one(name, p);
            continue;
        }
        std::barrier<> here(threads);  // its threads wait for each other
        meeting = &here;
        std::vector<std::thread> running;
        for (unsigned thread = 0; thread < threads; thread++)
            running.emplace_back([=] {
                blockIdx = {block}, threadIdx = {thread};
                run_one(name, p);
            });
        for (auto &one : running) one.join();
    }
}
