// A node that is made up: devices whose memory is this process's, streams with a clock of their own.
//
// What is queued runs when somebody waits for it, each stream in its order, and takes the seconds
// that the told speeds say: a hold is released before its stream goes on, or gives up, and no test
// depends on how fast this machine is.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include <sys/mman.h>

#include "grid.hpp"

struct Stream;
struct Event {
    Stream *stream = nullptr;
    int device = -1;
    unsigned long number = 0;
    double at = -1;
};
struct Work {
    unsigned long number;
    double queued;
    std::function<double(double)> run;  // from its start to its end, in seconds
};
struct Stream {
    int device, place;
    double free_at = 0;
    std::deque<Work> todo = {};
};
struct Device {
    void *room = nullptr;
    char *arena = nullptr;  // in it, and aligned
    size_t used = 0, next = 0;
    bool is_open = false;
    int broken = 0;
    std::set<int> reached = {};
    std::map<char *, size_t> kept = {};
    Stream plain = {};  // the default stream
    std::vector<std::unique_ptr<Stream>> streams = {};
    unsigned long written = 0;  // how often its memory was written
};
struct Host {
    size_t size;
    bool is_ours;
    unsigned flags;
};

static std::recursive_mutex lock;
static std::map<std::string, std::string> told;
static std::vector<std::unique_ptr<Device>> devices;
static std::map<char *, Host> pinned;
static std::map<Event *, std::shared_ptr<Event>> events;
static std::map<std::string, long> counts;
static unsigned long queued;
static double now;  // the host's clock, which goes on with every call
static thread_local int current = -1;

static const size_t arena_bytes = 1ull << 36, huge_bytes = 2 << 20;

static std::string told_text(const std::string &name, const std::string &otherwise = "") {
    const auto found = told.find(name);
    return found == told.end() ? otherwise : found->second;
}
static double told_number(const std::string &name, double otherwise) {
    const auto text = told_text(name);
    return text.empty() ? otherwise : std::stod(text);
}
static bool told_pair(const char *name, int one, int other) {
    const auto pair = std::to_string(one) + ">" + std::to_string(other);
    return ("," + told_text(name) + ",").find("," + pair + ",") != std::string::npos;
}

// The code that a test wants for a call: NAME=CODE, or NAME=CODE@N from the Nth call on.
static int wanted_code(const std::string &name) {
    counts["calls." + name]++;
    const auto text = told_text(name);
    if (text.empty()) return 0;
    const auto place = text.find('@');
    const long from = place == std::string::npos ? 1 : std::stol(text.substr(place + 1));
    return counts["calls." + name] >= from ? std::stoi(text) : 0;
}

// At the start of every call: the lock, the clock, and what is wrong already.
struct Call {
    std::lock_guard<std::recursive_mutex> held{lock};
    int code;
    explicit Call(const char *name) {
        now += told_number("call_ns", 2000) / 1e9;
        code = wanted_code(name);
        const bool chooses = !std::strcmp(name, "cuCtxSetCurrent") || !std::strcmp(name, "hipSetDevice");
        if (!code && !chooses && current >= 0 && current < (int)devices.size())
            code = devices[current]->broken;
    }
};
#define CALL(name, parameters, work) \
    int name parameters {            \
        Call call(#name);            \
        return call.code ? call.code : (work); \
    }

static Device *here() { return current < 0 ? nullptr : devices[current].get(); }

// Memory

static int owner(const void *at) {
    for (size_t index = 0; index < devices.size(); index++) {
        char *arena = devices[index]->arena;
        if (at >= arena && at < arena + arena_bytes) return (int)index;
    }
    return -1;
}
static bool is_whole(const std::map<char *, size_t> &kept, const Range &range) {
    auto after = kept.upper_bound(range.at);
    if (after == kept.begin()) return false;
    const auto &[start, size] = *--after;
    return range.at + range.size <= start + size;
}
static bool is_pinned(const Range &range) {
    auto after = pinned.upper_bound(range.at);
    if (after == pinned.begin()) return false;
    const auto &[start, host] = *--after;
    return range.at + range.size <= start + host.size;
}
// Whether a kernel of a device may touch a range.
static bool may_touch(int device, const Range &range) {
    const int whose = owner(range.at);
    if (whose < 0) return is_pinned(range);
    if (!is_whole(devices[whose]->kept, range)) return false;
    return whose == device || devices[device]->reached.count(whose);
}
static size_t memory_bytes() { return (size_t)told_number("memory_mib", 1280) << 20; }

static int allocate(void **at, size_t size) {
    Device *device = here();
    if (!device) return 201;
    if (!size) return 1;
    if (device->used + size > memory_bytes()) return 2;
    const size_t page = size < huge_bytes ? 4096 : huge_bytes;
    const size_t place = (device->next + page - 1) / page * page;
    char *start = device->arena + place;
    device->next = (place + size + 8191) / 4096 * 4096;  // never given out again; a gap behind it
    mprotect(start, size, PROT_READ | PROT_WRITE);
    if (page == huge_bytes) madvise(start, size, MADV_HUGEPAGE);
    device->kept[start] = size;
    device->used += size;
    counts["memory"]++;
    return *at = start, 0;
}
static int give_back(void *at) {
    const int whose = owner(at);
    if (whose < 0 || !devices[whose]->kept.count((char *)at)) return 1;
    auto &kept = devices[whose]->kept;
    const size_t size = kept[(char *)at];
    mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    kept.erase((char *)at);
    devices[whose]->used -= size;
    counts["memory"]--;
    return 0;
}
static int allocate_pinned(void **at, size_t size, unsigned flags) {
    if (current < 0) return 201;
    void *start = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return 2;
    pinned[(char *)start] = {size, true, flags};
    counts["pinned"]++, counts["pinned_flags"] = flags;
    return *at = start, 0;
}
static int pin(void *at, size_t size, unsigned flags) {
    if (current < 0) return 201;
    if (pinned.count((char *)at)) return 712;
    pinned[(char *)at] = {size, false, flags};
    counts["pinned"]++;
    return 0;
}
static int unpin(void *at, bool is_ours) {
    const auto found = pinned.find((char *)at);
    if (found == pinned.end() || found->second.is_ours != is_ours) return is_ours ? 1 : 713;
    if (is_ours) munmap(at, found->second.size);
    pinned.erase(found);
    counts["pinned"]--;
    return 0;
}

// Streams and events

static Stream *stream_of(void *stream) { return stream ? (Stream *)stream : &here()->plain; }

static void queue(Stream *stream, std::function<double(double)> run) {
    stream->todo.push_back({++queued, now, std::move(run)});
}
static void run_until(Stream *stream, unsigned long number) {
    while (!stream->todo.empty() && stream->todo.front().number <= number) {
        const Work work = std::move(stream->todo.front());
        stream->todo.pop_front();
        stream->free_at = work.run(std::max(stream->free_at, work.queued));
    }
}
static void wait_for(Stream *stream) {
    run_until(stream, queued);
    now = std::max(now, stream->free_at);
}
static int synchronize() {
    Device *device = here();
    if (!device) return 201;
    wait_for(&device->plain);
    for (auto &stream : device->streams) wait_for(stream.get());
    return device->broken;
}
static int make_stream(void **stream, unsigned flags) {
    if (current < 0) return 201;
    if (flags != 1) return 1;
    auto &all = here()->streams;
    all.push_back(std::make_unique<Stream>(Stream{current, (int)all.size()}));
    counts["streams"]++;
    return *stream = all.back().get(), 0;
}
static int drop_stream(void *stream) {
    auto &all = devices[((Stream *)stream)->device]->streams;
    const auto found = std::find_if(all.begin(), all.end(),
                                    [=](const auto &each) { return each.get() == stream; });
    if (found == all.end()) return 400;
    run_until(found->get(), queued);
    all.erase(found);
    counts["streams"]--;
    return 0;
}
static int make_event(void **event) {
    if (current < 0) return 201;
    auto made = std::make_shared<Event>();
    made->device = current;
    events[made.get()] = made;
    counts["events"]++;
    return *event = made.get(), 0;
}
static int drop_event(void *event) {
    if (!events.erase((Event *)event)) return 400;
    counts["events"]--;
    return 0;
}
static int record(void *event, void *into) {
    Stream *stream = stream_of(into);
    const auto found = events.find((Event *)event);
    if (found == events.end() || found->second->device != stream->device) return 400;
    const auto kept = found->second;
    queue(stream, [kept](double start) { return kept->at = start; });
    kept->stream = stream, kept->number = queued;
    return 0;
}
// LATE=DEVICE:STREAM:NANOSECONDS says that a stream goes on so long after what it waited for.
static int wait_event(void *into, void *event) {
    Stream *stream = stream_of(into);
    const auto found = events.find((Event *)event);
    if (found == events.end() || !found->second->stream) return 400;
    const auto kept = found->second;
    const auto name = "late." + std::to_string(stream->device) + "." + std::to_string(stream->place);
    const double late = told_number(name, 0) / 1e9;
    queue(stream, [kept, late](double start) {
        run_until(kept->stream, kept->number);
        return std::max(start, kept->at + late);
    });
    return 0;
}
static int await_event(void *event) {
    const auto found = events.find((Event *)event);
    if (found == events.end()) return 400;
    if (!found->second->stream) return 0;
    run_until(found->second->stream, found->second->number);
    now = std::max(now, found->second->at);
    return devices[found->second->device]->broken;
}
static int elapsed(float *milliseconds, void *start, void *end) {
    const Event *one = (Event *)start, *other = (Event *)end;
    if (!events.count((Event *)start) || !events.count((Event *)end)) return 400;
    if (one->device != other->device) return 400;  // two devices have two clocks
    if (one->at < 0 || other->at < 0) return 600;
    return *milliseconds = (float)(1000 * (other->at - one->at)), 0;
}

// Peers

static bool may_reach(int one, int other) { return one != other && !told_pair("denied", one, other); }

static int reach(int peer) {
    Device *device = here();
    if (!device) return 201;
    if (!may_reach(current, peer)) return 217;
    if (!device->reached.insert(peer).second) return 704;
    counts["mapped"]++;
    return 0;
}
