// What devices do: copies, kernels, and the faults that a test wants of them.
#pragma once
#include "node.hpp"

// Large work whose memory nobody wrote since it last ran need not run again.
struct Again {
    std::string what;
    std::vector<unsigned long> written;
    unsigned added = 0;  // what it added to a sum
};
static std::map<int, Again> last;

static std::vector<unsigned long> written_of(const std::vector<Range> &ranges) {
    std::vector<unsigned long> found;
    for (const Range &range : ranges)
        found.push_back(owner(range.at) < 0 ? 0 : devices[owner(range.at)]->written);
    return found;
}
static std::string name_of(const std::string &name, const std::vector<Range> &ranges) {
    std::string found = name;
    for (const Range &range : ranges)
        found += " " + std::to_string((size_t)range.at) + "+" + std::to_string(range.size);
    return found;
}

// `lost=0>1`: the last word that device 0 writes into memory of device 1 does not arrive.
// `spoil=NAME@1`: a byte is wrong when NAME (a kernel, memcpy, memset, nccl for all that NCCL writes,
// or any for all that is a page or more) wrote memory of device 1.
static void write(int device, const std::string &name, Range to, const std::function<void()> &work) {
    const int whose = owner(to.at);
    if (whose < 0) return work();
    const size_t tail = std::min<size_t>(8, to.size);
    const std::string before(to.at + to.size - tail, tail);
    work();
    if (told_pair("lost", device, whose)) before.copy(to.at + to.size - tail, tail);
    const auto spoilt = told_text("spoil"), at = "@" + std::to_string(whose);
    if (spoilt == name + at || (spoilt == "nccl" + at && name.rfind("nccl", 0) == 0) ||
        (spoilt == "any" + at && to.size >= 4096))
        to.at[to.size / 16 * 8 + 2] += 0x31;
    const auto &kept = devices[whose]->kept;
    if (std::prev(kept.upper_bound(to.at))->second >= 4096) devices[whose]->written++;
}

static double seconds_for(double bytes, const char *name, double gbs) {
    return (told_number("op_ns", 1000) + bytes / told_number(name, gbs)) / 1e9;
}
static double copy_seconds(int device, const Range &to, const Range &from) {
    const int into = owner(to.at), out = owner(from.at);
    if (into < 0 || out < 0)
        return is_pinned(into < 0 ? to : from) ? seconds_for(to.size, "pinned_gbs", 50)
                                               : seconds_for(to.size, "pageable_gbs", 10);
    if (into == out) return seconds_for(to.size, "local_gbs", 2000);
    const bool is_direct = devices[device]->reached.count(into == device ? out : into);
    return is_direct ? seconds_for(to.size, "link_gbs", 400)
                     : seconds_for(to.size, "staged_gbs", 20);
}

static int copy(void *to_at, const void *from_at, size_t size, void *into) {
    if (current < 0) return 201;
    Stream *stream = stream_of(into);
    const Range to{(char *)to_at, size}, from{(char *)from_at, size};
    bool is_pageable = false, is_between = true;
    for (const Range &range : {to, from}) {
        const int whose = owner(range.at);
        if (whose >= 0 && !is_whole(devices[whose]->kept, range)) return 1;
        is_between &= whose >= 0;
        is_pageable |= whose < 0 && !is_pinned(range);
    }
    const int device = stream->device;
    queue(stream, [=](double start) {
        const auto what = name_of("copy", {to, from});
        Again &before = last[device];
        if (size < many_bytes || !is_between || before.what != what ||
            before.written != written_of({to, from})) {
            write(device, "memcpy", to, [&] { std::memmove(to.at, from.at, size); });
            before = {what, written_of({to, from})};
        }
        return start + copy_seconds(device, to, from);
    });
    if (is_pageable || told_number("blocking", 0)) wait_for(stream);
    return 0;
}

static int clear(void *at, int value, size_t size) {
    if (current < 0) return 201;
    const Range to{(char *)at, size};
    if (owner(at) != current || !is_whole(here()->kept, to)) return 1;
    const int device = current;
    queue(&here()->plain, [=](double start) {
        write(device, "memset", to, [&] { std::memset(to.at, value, size); });
        return start + seconds_for(0, "local_gbs", 2000);
    });
    return 0;
}

static double kernel_seconds(int device, const std::string &name, const Touched &all, void **p) {
    if (name == "gputop_chase") return AS(u64, 1) * told_number("load_ns", 700) / 1e9;
    const double bytes = (all.read.empty() ? all.written : all.read[0]).size * (double)all.passes;
    bool is_far = owner(all.written.at) != device;
    for (const Range &range : all.read) is_far |= owner(range.at) != device;
    return is_far ? seconds_for(bytes, "kernel_gbs", 370) : seconds_for(bytes, "local_gbs", 2000);
}

static double run_kernel(int device, const std::string &name, unsigned blocks, unsigned threads,
                         void **p, double start) {
    int &broken = devices[device]->broken;
    const Touched all = touched(name, p);
    std::vector<Range> ranges = all.read;
    ranges.push_back(all.written);
    for (const Range &range : ranges)
        if (!may_touch(device, range)) broken = 700;
    if (const int code = (int)told_number("kernel." + name, 0)) broken = code;
    if (broken) return start;
    if (name == "gputop_hold") {
        const bool is_late = !*AS(const volatile unsigned *, 0);
        run_grid(name, blocks, threads, p, 0);
        counts[is_late ? "held_late" : "held"]++;
        return is_late ? start + AS(u64, 1) / 1.98e9 : std::max(start, now);
    }
    size_t bytes = 0;
    for (const Range &range : ranges) bytes += range.size;
    const bool adds = name == "gputop_read";
    auto what = name_of(name, ranges);
    if (name == "gputop_fill") what += " " + std::to_string(AS(unsigned, 3));
    if (name == "gputop_triad") what += " " + std::to_string(AS(float, 5));
    const bool is_alike = adds || name == "gputop_copy" || name == "gputop_fill" ||
                          name == "gputop_triad";
    Again &before = last[device];
    if (bytes >= many_bytes && is_alike && before.what == what &&
        before.written == written_of(ranges)) {
        if (adds) *AS(unsigned *, 3) += before.added;
    } else {
        const unsigned sum = adds ? *AS(unsigned *, 3) : 0;
        write(device, name, all.written, [&] { run_grid(name, blocks, threads, p, bytes); });
        before = {what, written_of(ranges), adds ? *AS(unsigned *, 3) - sum : 0};
    }
    return start + kernel_seconds(device, name, all, p);
}

static int launch(const char *name, unsigned blocks, unsigned threads, void *into,
                  void **arguments) {
    if (current < 0) return 201;
    if (!blocks || !threads || threads > 1024) return 1;
    Stream *stream = stream_of(into);
    if (stream->device != current) return 400;
    // The driver reads the arguments now; they are gone when the kernel runs.
    std::vector<std::string> values;
    for (const char bytes : kernels.at(name))
        values.emplace_back((const char *)arguments[values.size()], bytes - '0');
    counts[std::string("blocks.") + name] = blocks, counts[std::string("threads.") + name] = threads;
    const int device = current;
    queue(stream, [=, kernel = std::string(name)](double start) mutable {
        std::vector<void *> places;
        for (auto &value : values) places.push_back(value.data());
        return run_kernel(device, kernel, blocks, threads, places.data(), start);
    });
    // `late_holds=2`: the host is slow, and the first two holds give up before it is done.
    if (!std::strcmp(name, "gputop_hold") && counts["held_late"] < told_number("late_holds", 0))
        wait_for(stream);
    return 0;
}
