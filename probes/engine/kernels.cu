// What the probes run on a GPU, for CUDA (NVRTC) and HIP (hiprtc) alike: no header, no library.
//
// Sizes are in pieces of 16 bytes, the widest load there is. Every thread has IN_FLIGHT loads under
// way before it stores: over a link the answer takes a microsecond, and what is on its way in the
// meantime decides the bandwidth. Threads of one warp touch neighbours; a thread's own loads lie
// one whole grid apart.

// __launch_bounds__ with one block for each multiprocessor: with more the compiler keeps to 64
// registers, and twelve pieces want 48 beside their addresses.

#define IN_FLIGHT 12
#define MOST_THREADS 512

typedef unsigned long long u64;

struct alignas(16) Piece {
    unsigned x, y, z, w;
};

struct alignas(16) Floats {
    float x, y, z, w;
};

// Copies `pieces` from `from` to `to`, `passes` times.
extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
gputop_copy(Piece *to, const Piece *from, u64 pieces, unsigned passes) {
    const u64 step = (u64)gridDim.x * blockDim.x;
    const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned pass = 0; pass < passes; pass++) {
        u64 at = first;
        for (; at + (IN_FLIGHT - 1) * step < pieces; at += IN_FLIGHT * step) {
            Piece held[IN_FLIGHT];
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++) held[k] = from[at + k * step];
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++) to[at + k * step] = held[k];
        }
        for (; at < pieces; at += step) to[at] = from[at];
    }
}

// Adds every 32-bit word, modulo 2^32, `passes` times over, to *sum: what is read is needed. In each
// pass a block reads what its neighbour read before, so that its own first cache cannot answer.
extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
gputop_read(const Piece *from, u64 pieces, unsigned passes, unsigned *sum) {
    __shared__ unsigned partial[MOST_THREADS];
    const u64 step = (u64)gridDim.x * blockDim.x;
    unsigned total = 0;
    for (unsigned pass = 0; pass < passes; pass++) {
        u64 at = (u64)((blockIdx.x + pass) % gridDim.x) * blockDim.x + threadIdx.x;
        for (; at + (IN_FLIGHT - 1) * step < pieces; at += IN_FLIGHT * step) {
            Piece held[IN_FLIGHT];
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++) held[k] = from[at + k * step];
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++)
                total += held[k].x + held[k].y + held[k].z + held[k].w;
        }
        for (; at < pieces; at += step) {
            const Piece one = from[at];
            total += one.x + one.y + one.z + one.w;
        }
    }
    partial[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned all = 0;
        for (unsigned k = 0; k < blockDim.x; k++) all += partial[k];
        atomicAdd(sum, all);
    }
}

// Writes `word` everywhere, `passes` times.
extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
gputop_fill(Piece *to, u64 pieces, unsigned passes, unsigned word) {
    const u64 step = (u64)gridDim.x * blockDim.x;
    const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned pass = 0; pass < passes; pass++) {
        // Every pass writes something else, the last one `word`: none of them can be left out.
        const unsigned value = word + (passes - 1 - pass);
        const Piece piece = {value, value, value, value};
        for (u64 at = first; at < pieces; at += step) to[at] = piece;
    }
}

// to = left + scale * right, in float32, `passes` times.
extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
gputop_triad(Floats *to, const Floats *left, const Floats *right, u64 pieces, unsigned passes,
             float scale) {
    const u64 step = (u64)gridDim.x * blockDim.x;
    const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned pass = 0; pass < passes; pass++) {
        u64 at = first;
        for (; at + (IN_FLIGHT / 2 - 1) * step < pieces; at += IN_FLIGHT / 2 * step) {
            Floats a[IN_FLIGHT / 2], b[IN_FLIGHT / 2];
#pragma unroll
            for (int k = 0; k < IN_FLIGHT / 2; k++) {
                a[k] = left[at + k * step];
                b[k] = right[at + k * step];
            }
#pragma unroll
            for (int k = 0; k < IN_FLIGHT / 2; k++) {
                const Floats sum = {a[k].x + scale * b[k].x, a[k].y + scale * b[k].y,
                                    a[k].z + scale * b[k].z, a[k].w + scale * b[k].w};
                to[at + k * step] = sum;
            }
        }
        for (; at < pieces; at += step) {
            const Floats a = left[at], b = right[at];
            const Floats sum = {a.x + scale * b.x, a.y + scale * b.y, a.z + scale * b.z,
                                a.w + scale * b.w};
            to[at] = sum;
        }
    }
}

// Follows `hops` places through a ring of word numbers, from word 0, with one thread. Volatile: a
// cache of the reader would answer for the owner from the second lap on.
extern "C" __global__ void gputop_chase(const volatile u64 *ring, u64 hops, u64 *end) {
    u64 at = 0;
    for (u64 hop = 0; hop < hops; hop++) at = ring[at];
    *end = at;
}

// The word at a place of random data: splitmix64 of the place and a seed.
static __device__ u64 gputop_word(u64 at, u64 seed) {
    u64 word = seed + (at + 1) * 0x9E3779B97F4A7C15ull;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
    return word ^ (word >> 31);
}

// Fills `to` with random words, each of them exclusive-or `flipped`.
extern "C" __global__ void gputop_random(u64 *to, u64 words, u64 seed, u64 flipped) {
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < words; at += step)
        to[at] = gputop_word(at, seed) ^ flipped;
}

// Fills `to` with random numbers of [-1, 1).
extern "C" __global__ void gputop_numbers(float *to, u64 count, u64 seed) {
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step)
        to[at] = (float)(int)(gputop_word(at, seed) >> 32) * (1.0f / 2147483648.0f);
}

// The number at a place of a pattern: whole and below 65536, so that the float32 of 256 of them added
// up in any order is exact.
static __device__ unsigned gputop_pattern_at(u64 at, u64 seed) {
    return (unsigned)((at * 2654435761ull + seed * 40503ull) >> 7) & 0xFFFFu;
}

// Fills `to` with the pattern of a seed.
extern "C" __global__ void gputop_pattern(float *to, u64 count, u64 seed) {
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step)
        to[at] = (float)gputop_pattern_at(at, seed);
}

// What a comparison found: how many words were wrong, and the first of them.
struct Found {
    u64 wrong, first;
};

static __device__ void gputop_note(Found *found, u64 at) {
    atomicAdd(&found->wrong, 1ull);
    atomicMin(&found->first, at);
}

// Compares with what gputop_random writes.
extern "C" __global__ void gputop_unlike_random(const u64 *from, u64 words, u64 seed, Found *found) {
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < words; at += step)
        if (from[at] != gputop_word(at, seed)) gputop_note(found, at);
}

// Compares with the sum of the patterns of `seeds` seeds from `seed` on, at the places from `start`.
extern "C" __global__ void gputop_unlike_pattern(const float *from, u64 count, u64 start, u64 seed,
                                                 u64 seeds, Found *found) {
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) {
        unsigned sum = 0;
        for (u64 k = 0; k < seeds; k++) sum += gputop_pattern_at(start + at, seed + k);
        if (!(from[at] == (float)sum)) gputop_note(found, at);
    }
}

// Compares the words of two arrays.
extern "C" __global__ void gputop_unlike(const u64 *one, const u64 *other, u64 words, Found *found) {
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < words; at += step)
        if (one[at] != other[at]) gputop_note(found, at);
}

// Compares every word with one value.
extern "C" __global__ void gputop_unlike_fill(const unsigned *from, u64 words, unsigned word,
                                              Found *found) {
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < words; at += step)
        if (from[at] != word) gputop_note(found, at);
}

// Compares with left + scale * right. The scale is a power of two: the product is exact, so that a
// multiplication and an addition round as a fused one does, and the sums are equal or wrong.
extern "C" __global__ void gputop_unlike_triad(const float *sum, const float *left,
                                               const float *right, u64 count, float scale,
                                               Found *found) {
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step)
        if (!(sum[at] == left[at] + scale * right[at])) gputop_note(found, at);
}

// Adds every 32-bit word, modulo 2^32, in the plainest way: the check of gputop_read.
extern "C" __global__ void gputop_sum(const unsigned *from, u64 words, unsigned *sum) {
    const u64 step = (u64)gridDim.x * blockDim.x;
    unsigned mine = 0;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < words; at += step)
        mine += from[at];
    atomicAdd(sum, mine);
}

// Links `count` places, `step` words apart, into a ring for gputop_chase.
extern "C" __global__ void gputop_ring(u64 *ring, u64 count, u64 step) {
    const u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += threads)
        ring[at * step] = (at + 1) % count * step;
}

// Holds a stream until the host writes to *go, at most `cycles`; then *late says so.
extern "C" __global__ void gputop_hold(const volatile unsigned *go, u64 cycles,
                                       volatile unsigned *late) {
    const long long start = clock64();
    while (!*go)
        if ((u64)(clock64() - start) > cycles) {
            *late = 1;
            return;
        }
}
