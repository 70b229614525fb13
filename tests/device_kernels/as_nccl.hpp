// The names of NCCL and RCCL. Ranks are processes that meet in a file of the run's private folder,
// and really move their bytes through it; what they would move a second time takes only its time.
#pragma once
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

struct UniqueId {
    char internal[128];
};
static const int most_ranks = 8;
static const size_t slot_bytes = 64 << 20;
struct Room {  // in the file, with a slot for each pair of ranks behind it
    std::atomic<long> arrived[most_ranks];
    std::atomic<long> sent[most_ranks][most_ranks], taken[most_ranks][most_ranks];
};
struct Comm {
    Room *room;
    char *slots;
    int rank, ranks, polls;
    long meetings = 0;
    char *slot(int src, int dst) const { return slots + (src * ranks + dst) * slot_bytes; }
};
struct Transfer {
    Comm *comm;
    Range range;
    int peer;
    bool sends;
    Stream *stream;
};
static std::vector<Comm *> comms;
static std::vector<Transfer> transfers;
static int group_depth;
static std::map<std::string, std::vector<unsigned long>> moved;

static std::string debug_file() {
    std::string path = getenv("NCCL_DEBUG_FILE") ? getenv("NCCL_DEBUG_FILE") : "";
    const auto at = path.find("%p");
    return at == std::string::npos ? path : path.replace(at, 2, std::to_string(getpid()));
}
// The folder of the run, or that of `room=PATH`, in which runs of several nodes meet.
static std::string run_folder() {
    const auto room = told_text("room");
    if (!room.empty()) return room;
    const std::string log = debug_file();
    return log.substr(0, log.find_last_of('/'));
}
// `hang.NAME=PATH`: the call makes a file and never comes back.
static void hang_in(const char *name) {
    const auto path = told_text(std::string("hang.") + name);
    if (path.empty()) return;
    std::ofstream(path).put('\n');
    for (;;) pause();
}
static void wait_until(const std::function<bool()> &holds) {
    while (!holds()) sched_yield();
}
static void meet(Comm *comm) {
    const long number = ++comm->meetings;
    comm->room->arrived[comm->rank] = number;
    for (int rank = 0; rank < comm->ranks; rank++)
        wait_until([=] { return comm->room->arrived[rank] >= number; });
}

static int unique_id(UniqueId *made) {
    static int count;
    std::memset(made, 0x80, sizeof *made);  // no text: every byte counts
    std::memcpy(made->internal, std::to_string(getpid() * 100 + ++count).c_str(), 16);
    return 0;
}
static int join(void **to, int ranks, const UniqueId &id, int rank) {
    if (ranks > most_ranks || rank < 0 || rank >= ranks || id.internal[127] != (char)0x80) return 4;
    if (current < 0) return 1;
    const auto path = run_folder() + "/made-up-" + id.internal;
    const size_t size = 4096 + ranks * ranks * slot_bytes;
    const int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, size)) return 2;
    char *at = (char *)mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (at == MAP_FAILED) return 2;
    auto *comm = new Comm{(Room *)at, at + 4096, rank, ranks, (int)told_number("polls", 0)};
    comms.push_back(comm), *to = comm;
    if (getenv("NCCL_DEBUG"))
        std::ofstream(debug_file(), std::ios::app)
            << "made-up:1:1 [" << current << "] NCCL " << getenv("NCCL_DEBUG") << " rank " << rank << "\n";
    if (rank == 0 && getenv("NCCL_RUN_DIAGNOSTICS") && atoi(getenv("NCCL_RUN_DIAGNOSTICS")))
        printf("made-up:1 NCCL DIAG === NCCL Diagnostics ===\n"
               "made-up:1 NCCL DIAG [OK]   p2p: verified P2P access in both directions between every GPU pair"
               " (%d peer accesses)\nmade-up:1 NCCL DIAG NCCL diagnostics completed in 7.5 ms across %d ranks\n",
               ranks * (ranks - 1), ranks);
    meet(comm);
    unlink(path.c_str());
    hang_in("ncclCommInitRank");  // once all are here
    return comm->polls ? 7 : 0;
}
static int async_error(void *comm, int *state) {
    if (std::find(comms.begin(), comms.end(), comm) == comms.end()) return 4;
    return *state = ((Comm *)comm)->polls-- > 0 ? 7 : 0, 0;
}

// Whether a call's memory is what it was when the same call moved it.
static bool is_moved(const std::string &name, const std::vector<Range> &ranges) {
    const auto what = name_of(name, ranges);
    const auto now_written = written_of(ranges);
    const bool is = moved.count(what) && moved[what] == now_written;
    moved[what] = now_written;
    return is;
}
static void write_moved(int device, const std::string &name, Range to,
                        const std::function<void()> &work) {
    const unsigned long before = devices[device]->written;
    write(device, name, to, work);
    devices[device]->written = before;
}
static double nccl_seconds(size_t bytes) { return seconds_for((double)bytes, "nccl_gbs", 300); }

static bool is_sound(Comm *comm, int type, void *stream, const std::vector<Range> &ranges) {
    if (std::find(comms.begin(), comms.end(), comm) == comms.end()) return false;
    if (type != 7 || !stream || ((Stream *)stream)->device != current) return false;
    return std::all_of(ranges.begin(), ranges.end(),
                       [](const Range &range) { return is_whole(here()->kept, range); });
}
static void add(float *to, const float *from, size_t count) {
    for (size_t at = 0; at < count; at++) to[at] += from[at];
}
// Every rank shows what it gives; then each takes what it wants.
static int collective(const char *name, void *comm_at, int type, void *stream, Range given, Range to,
                      const std::function<void(Comm *, char *)> &take) {
    Comm *comm = (Comm *)comm_at;
    if (!is_sound(comm, type, stream, {given, to}) || given.size > slot_bytes) return 4;
    const int device = current;
    const std::string called = name;
    queue((Stream *)stream, [=](double start) {
        hang_in(called.c_str());
        if (!is_moved(called, {given, to})) {
            std::memcpy(comm->slot(comm->rank, 0), given.at, given.size);
            meet(comm);
            write_moved(device, called, to, [&] { take(comm, to.at); });
            meet(comm);
        }
        return start + nccl_seconds(std::max(given.size, to.size));
    });
    return 0;
}
static int all_reduce(char *from, char *to, size_t count, int type, int op, void *comm, void *stream) {
    if (op) return 4;
    return collective("ncclAllReduce", comm, type, stream, {from, 4 * count}, {to, 4 * count},
                      [=](Comm *all, char *at) {
                          std::memset(at, 0, 4 * count);
                          for (int rank = 0; rank < all->ranks; rank++)
                              add((float *)at, (float *)all->slot(rank, 0), count);
                      });
}
static int all_gather(char *from, char *to, size_t count, int type, void *comm, void *stream) {
    const size_t ranks = ((Comm *)comm)->ranks;
    return collective("ncclAllGather", comm, type, stream, {from, 4 * count},
                      {to, 4 * count * ranks}, [=](Comm *all, char *at) {
                          for (int rank = 0; rank < all->ranks; rank++)
                              std::memcpy(at + 4 * count * rank, all->slot(rank, 0), 4 * count);
                      });
}
static int reduce_scatter(char *from, char *to, size_t count, int type, int op, void *comm,
                          void *stream) {
    const size_t ranks = ((Comm *)comm)->ranks;
    if (op) return 4;
    return collective("ncclReduceScatter", comm, type, stream, {from, 4 * count * ranks},
                      {to, 4 * count}, [=](Comm *all, char *at) {
                          std::memset(at, 0, 4 * count);
                          for (int rank = 0; rank < all->ranks; rank++)
                              add((float *)at, (float *)all->slot(rank, 0) + count * all->rank, count);
                      });
}
static int broadcast(char *from, char *to, size_t count, int type, int root, void *comm,
                     void *stream) {
    return collective("ncclBroadcast", comm, type, stream, {from, 4 * count}, {to, 4 * count},
                      [=](Comm *all, char *at) { std::memcpy(at, all->slot(root, 0), 4 * count); });
}

static int transfer(bool sends, char *at, size_t count, int type, int peer, void *comm,
                    void *stream) {
    const Range range{at, 4 * count};
    if (!group_depth || !is_sound((Comm *)comm, type, stream, {range})) return 4;
    if (peer < 0 || peer >= ((Comm *)comm)->ranks || range.size > slot_bytes) return 4;
    return transfers.push_back({(Comm *)comm, range, peer, sends, (Stream *)stream}), 0;
}
static void send(const Transfer &one) {
    const int rank = one.comm->rank;
    auto &sent = one.comm->room->sent[rank][one.peer];
    wait_until([&] { return one.comm->room->taken[rank][one.peer] == sent; });
    std::memcpy(one.comm->slot(rank, one.peer), one.range.at, one.range.size);
    sent++;
}
static void receive(const Transfer &one, int device) {
    const int rank = one.comm->rank;
    auto &taken = one.comm->room->taken[one.peer][rank];
    wait_until([&] { return one.comm->room->sent[one.peer][rank] > taken; });
    write_moved(device, "ncclRecv", one.range, [&] {
        std::memcpy(one.range.at, one.comm->slot(one.peer, rank), one.range.size);
    });
    taken++;
}
static int group_end() {
    if (--group_depth || transfers.empty()) return group_depth < 0 ? 5 : 0;
    const int device = current;
    std::vector<Transfer> all;
    std::swap(all, transfers);
    std::stable_partition(all.begin(), all.end(), [](const auto &one) { return one.sends; });
    queue(all[0].stream, [=](double start) {
        std::vector<Range> ranges;
        size_t bytes = 0;
        for (const auto &one : all) ranges.push_back(one.range), bytes += one.range.size;
        if (!is_moved("group", ranges))
            for (const auto &one : all) one.sends ? send(one) : receive(one, device);
        return start + nccl_seconds(bytes);
    });
    return 0;
}

extern "C" {
CALL(ncclGetVersion, (int *to), (*to = (int)told_number("nccl_version", 22809), 0))
CALL(ncclGetUniqueId, (UniqueId *made), unique_id(made))
CALL(ncclCommInitRank, (void **to, int ranks, UniqueId id, int rank), join(to, ranks, id, rank))
CALL(ncclCommGetAsyncError, (void *comm, int *state), async_error(comm, state))
CALL(ncclAllReduce,
     (char *from, char *to, size_t count, int type, int op, void *comm, void *stream),
     all_reduce(from, to, count, type, op, comm, stream))
CALL(ncclAllGather, (char *from, char *to, size_t count, int type, void *comm, void *stream),
     all_gather(from, to, count, type, comm, stream))
CALL(ncclReduceScatter,
     (char *from, char *to, size_t count, int type, int op, void *comm, void *stream),
     reduce_scatter(from, to, count, type, op, comm, stream))
CALL(ncclBroadcast,
     (char *from, char *to, size_t count, int type, int root, void *comm, void *stream),
     broadcast(from, to, count, type, root, comm, stream))
CALL(ncclSend, (char *at, size_t count, int type, int peer, void *comm, void *stream),
     transfer(true, at, count, type, peer, comm, stream))
CALL(ncclRecv, (char *at, size_t count, int type, int peer, void *comm, void *stream),
     transfer(false, at, count, type, peer, comm, stream))
CALL(ncclGroupStart, (), (group_depth++, 0))
CALL(ncclGroupEnd, (), group_end())

const char *ncclGetErrorString(int code) {
    return code == 1   ? "unhandled cuda error (run with NCCL_DEBUG=INFO for details)"
           : code == 2 ? "unhandled system error (run with NCCL_DEBUG=INFO for details)"
           : code == 4 ? "invalid argument (run with NCCL_DEBUG=WARN for details)"
                       : "unknown result code";
}
const char *ncclGetLastError(void *) {
    static std::string said;
    return (said = told_text("last_error")).c_str();
}
}
