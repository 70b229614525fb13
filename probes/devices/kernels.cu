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

// Adds every 32-bit word, modulo 2^32, `passes` times over, to *sum: what is read is needed.
extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
gputop_read(const Piece *from, u64 pieces, unsigned passes, unsigned *sum) {
    __shared__ unsigned partial[MOST_THREADS];
    const u64 step = (u64)gridDim.x * blockDim.x;
    const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned total = 0;
    for (unsigned pass = 0; pass < passes; pass++) {
        u64 at = first;
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
