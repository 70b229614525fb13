"""Checks that hold ranks and hosts against each other."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from ...logs.report.communicator import ABORTED, DESTROYED, Proof, Transport
from ...logs.report.report import OTHER, WARN, LogNote, LogReport, RankProgress, Variable
from ...model.gathered import gathered
from .checks import check, p2p_flags

MAY_DIFFER = {
    "NCCL_DEBUG_FILE", "NCCL_HOSTID", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_COMM_ID",
    "NCCL_TOPO_FILE", "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_OOB_NET_IFNAME",
    "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_TIMESTAMP_FORMAT", "NCCL_PROXY_CPUSET",
    "NCCL_RAS_ADDR", "NCCL_RAS_ENABLE", "NCCL_PROFILE_DUMP_FILE", "NCCL_INSPECTOR_DUMP_DIR",
    "NCCL_TOPO_DUMP_FILE_RANK", "NCCL_GRAPH_DUMP_FILE_RANK", "NCCL_SET_THREAD_NAME",
}  # fmt: skip
"""Variables that may differ: they name devices of one host or rank, or only change the output."""
MUST_AGREE = {
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_BUFFSIZE",
    "NCCL_LL_BUFFSIZE", "NCCL_LL128_BUFFSIZE", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_NTHREADS", "NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE",
    "NCCL_COLLNET_ENABLE", "NCCL_CROSS_NIC", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_P2P_PCI_CHUNKSIZE",
    "NCCL_P2P_NVL_CHUNKSIZE", "NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS",
}  # fmt: skip
"""Variables by which each rank plans for itself what it then does together with the others."""
MAX_RANKS_NAMED = 8
MAX_RANKS = 4096
_FAILURE = re.compile(r"(?i)error|fail|timeout|timed out|abort|kill|exception|Xid")
"""What frameworks and the kernel say of a failure; other lines of theirs are remarks."""
_GDR = re.compile(r"GPU Direct RDMA (Enabled|Disabled) for HCA")


@check
def variables_split_ranks(log: LogReport) -> Iterator[Proof]:
    """Ranks that plan with different values, in a log that also tells of a failure."""
    if _failed(log):
        yield from _different(log, MUST_AGREE)


@check
def environment_differs(log: LogReport) -> Iterator[Proof]:
    """One variable with several values, or read by some ranks alone."""
    names = {variable.name for variable in log.environment} - MAY_DIFFER
    yield from _different(log, names)


def _different(log: LogReport, names: Iterable[str]) -> Iterator[Proof]:
    values: dict[str, list[Variable]] = defaultdict(list)
    for variable in log.environment:
        # A pasted script shows what somebody tried, not that two ranks differ.
        if not variable.pasted and variable.name in names:
            values[variable.name].append(variable)
    for name, seen in values.items():
        alone = seen[0].unread_by
        if len(seen) < 2 and not alone:
            continue
        for variable in seen:
            yield Proof(variable.line, f"{variable.said}{by_ranks(variable.ranks, variable.hosts)}")
        if alone:
            text = f"{name} is not set{by_ranks(seen[0].unread_by, ())}"
            yield Proof(seen[0].line, text)


def by_ranks(ranks: tuple[int, ...], hosts: tuple[str, ...]) -> str:
    """Whom a line is about: " on ranks 0, 4", else " on a, b"; "" where neither is known."""
    if ranks:
        more = "" if len(ranks) <= MAX_RANKS_NAMED else " and more"
        named = ", ".join(str(rank) for rank in ranks[:MAX_RANKS_NAMED])
        return f" on rank{'s' * (len(ranks) > 1)} {named}{more}"
    return f" on {', '.join(hosts)}" if hosts else ""


def _failed(log: LogReport) -> bool:
    """Whether the library warned, a framework gave up, or a communicator was aborted."""
    aborted = any(rank.state is ABORTED for comm in log.communicators for rank in comm.ranks)
    return aborted or any(
        note.level is WARN or (note.level is OTHER and _FAILURE.search(note.text))
        for note in log.notes
    )


@check
def work_before_timeout(log: LogReport) -> Iterator[Proof]:
    """Loading, saving or the like as the last thing before a collective's time is over."""
    for note in log.busy:
        yield Proof(note.line, note.text)
        yield from (
            Proof(late.line, late.text)
            for late in log.notes
            if "Watchdog caught collective" in late.text and late.line > note.line
        )


@check
def pods_of_one_host(log: LogReport) -> Iterator[Proof]:
    """One rank a host name, GPUs that one machine numbers apart, and the network between them.

    NVML counts the GPUs of a machine: hosts of one GPU each would all say 0.
    """
    for comm in log.communicators:
        ranks = [rank for rank in comm.ranks if rank.host is not None and rank.line is not None]
        numbers = {rank.nvml_dev for rank in ranks}
        places = {rank.bus_id for rank in ranks}
        apart = len({rank.host for rank in ranks}) == len(ranks) == comm.nranks > 1
        if not apart or None in numbers | places or len(numbers) + len(places) < 2 * len(ranks):
            continue
        net = [one for one in comm.transports if one.label.startswith("NET/")]
        if not net or len(net) < len(comm.transports):
            continue
        for rank in ranks[:3]:
            what = f"rank {rank.rank} nvmlDev {rank.nvml_dev} busId {rank.bus_id} on {rank.host}"
            yield Proof(rank.line or 0, what)
        yield Proof(net[0].line, net[0].text)


@check
def rank_behind(log: LogReport) -> Iterator[Proof]:
    """Ranks that never called the collective of a group in which another one waits.

    Ranks call ahead of what their GPUs do: of two that wait in one collective the one that called
    less after it holds up nobody.
    """
    groups = gathered(
        (progress.group, progress) for progress in log.progress if progress.enqueued is not None
    )
    for seen in groups.values():
        waiting = [one for one in seen if (one.enqueued or 0) > (one.completed or 0)]
        first = max(waiting, key=lambda one: one.completed or 0, default=None)
        if first is None:
            continue
        late = [one for one in seen if (one.enqueued or 0) <= (first.completed or 0)]
        for progress in late:
            text = f"rank {progress.rank} called {progress.enqueued} collectives: {progress.text}"
            yield Proof(progress.line, text)
        if late:
            text = f"rank {first.rank} called {first.enqueued} collectives: {first.text}"
            yield Proof(first.line, text)


@check
def watchdog_silent(log: LogReport) -> Iterator[Proof]:
    """Ranks of the largest communicator of which no watchdog speaks while that of others does.

    Without a communicator, those below the highest rank that speaks: see `_silent_ranks`.
    """
    of = "" if log.main is None else f" of {log.main.nranks}"
    if text := of_silent(log, f"no such line from {{}}{of}: in another call, or gone"):
        yield Proof(log.progress[0].line, text)


def of_silent(log: LogReport, words: str) -> str:
    """The ranks of which no watchdog speaks, in these words: "rank 0"; "" where there are none."""
    silent = _silent_ranks(log)
    return words.format(by_ranks(silent, ()).replace(" on ", "", 1)) if silent else ""


def _silent_ranks(log: LogReport) -> tuple[int, ...]:
    """The ranks of which no watchdog speaks while that of others does.

    Where no line says how many ranks there are, only few among many that speak: a text may be the
    output of one host of several, which has no line of the others.
    """
    comm, spoken = log.main, {progress.rank for progress in log.progress}
    if not spoken or (comm is not None and max(spoken) >= comm.nranks):
        return ()
    count = comm.nranks if comm is not None else max(spoken) + 1
    silent = tuple(rank for rank in range(min(count, MAX_RANKS)) if rank not in spoken)
    told = comm is not None or 2 * len(silent) < len(spoken)
    return silent if told else ()


@check
def rank_left(log: LogReport) -> Iterator[Proof]:
    """A rank destroyed its communicator in order while another one waits in a collective of it."""
    waiting = {
        progress.rank: progress
        for progress in log.progress
        if (progress.enqueued or 0) > (progress.completed or 0)
    }
    for comm in log.communicators:
        states = {rank.rank: rank for rank in comm.ranks}
        left = [rank for rank in comm.ranks if rank.state is DESTROYED]
        late = [waiting[number] for number in sorted(waiting) if number in states]
        late = [progress for progress in late if states[progress.rank].state is ABORTED]
        if not (left and late):
            continue
        for rank in left[:MAX_RANKS_NAMED]:
            text = f"rank {rank.rank} of {comm.nranks}: destroyed its communicator in order"
            yield Proof(rank.line or comm.line, text)
        yield Proof(late[0].line, late[0].text)
        return


@check
def operations_differ(log: LogReport) -> Iterator[Proof]:
    """Two ranks whose collective with the same number is of another kind or size."""
    works: dict[tuple[str, int], list[RankProgress]] = defaultdict(list)
    for progress in log.progress:
        if progress.work is not None:
            works[progress.group, progress.work].append(progress)
    for seen in works.values():
        kinds = {(progress.operation, progress.elements) for progress in seen}
        if len(kinds) > 1 and all(elements is not None for _, elements in kinds):
            yield from (Proof(progress.line, progress.text) for progress in seen[:MAX_RANKS_NAMED])


@check
def gdr_on_some_hosts(log: LogReport) -> Iterator[Proof]:
    """GPUDirect RDMA is there on one host and not on another, as lines of adapters or of use say.

    Each end of a connection says for itself whether the NIC reaches its GPU.
    """
    on: dict[str, Proof] = {}
    off: dict[str, Proof] = {}
    for note in log.notes:
        found = _GDR.search(note.text)
        for host in note.hosts if found is not None else ():
            side = on if found is not None and found[1] == "Enabled" else off
            side.setdefault(host, Proof(note.line, f"{note.text} on {host}"))
    for comm in log.communicators:
        for transport in comm.transports:
            label = transport.label
            if transport.host and label.startswith("NET/") and not label.startswith("NET/Socket"):
                side = on if "/GDRDMA" in label else off
                proof = Proof(transport.line, f"{transport.text} on {transport.host}")
                side.setdefault(transport.host, proof)
    without = [proof for host, proof in off.items() if host not in on]
    if on and without:
        yield from (*list(on.values())[:MAX_RANKS_NAMED], *without[:MAX_RANKS_NAMED])
    elif not on and not off:
        yield from _gdr_one_way(log)


def _gdr_one_way(log: LogReport) -> Iterator[Proof]:
    """Connections whose sender uses GPUDirect RDMA and whose receiver does not, without hosts.

    The other way round is no difference: without NVLink, GPUs before Ampere do not send by it
    (NCCL src/graph/paths.cc:ncclTopoCheckGdr, NCCL_NET_GDR_READ).
    """
    for comm in log.communicators:
        ends: dict[tuple[int, int, int], dict[str | None, Transport]] = {}
        for transport in comm.transports:
            if transport.label.startswith("NET/"):
                key = (transport.src, transport.dst, transport.connection)
                ends.setdefault(key, {}).setdefault(transport.direction, transport)
        for both in ends.values():
            send, receive = both.get("send"), both.get("receive")
            if send is None or receive is None or "/GDRDMA" not in send.label:
                continue
            if "/GDRDMA" not in receive.label and not receive.label.startswith("NET/Socket"):
                yield Proof(send.line, f"{send.text} at rank {send.src}")
                yield Proof(receive.line, f"{receive.text} at rank {receive.dst}")


@check
def gdr_disabled(log: LogReport) -> Iterator[Proof]:
    """Every adapter says that GPUDirect RDMA is off, in a text that shows no connection."""
    said = [note for note in log.notes if _GDR.search(note.text)]
    shown = any(comm.transports for comm in log.communicators)
    if not shown and all("Disabled" in note.text for note in said):
        yield from (Proof(note.line, note.text) for note in said)


@check
def networks_differ(log: LogReport) -> Iterator[Proof]:
    """One host uses another network than the rest."""
    by_network: dict[str, LogNote] = {}
    for note in log.notes:
        if note.text.startswith("Using network ") and note.hosts:
            by_network.setdefault(note.text, note)
    hosts = [host for note in by_network.values() for host in note.hosts]
    # A host with two networks has communicators of two kinds.
    if len(by_network) > 1 and len(hosts) == len(set(hosts)):
        for note in by_network.values():
            yield Proof(note.line, f"{note.text} on {', '.join(note.hosts[:MAX_RANKS_NAMED])}")


@check
def host_ids_split(log: LogReport) -> Iterator[Proof]:
    """Ranks of one host are given different host ids, so they take each other for far away."""
    ids = log.set("NCCL_HOSTID")
    hosts = [set(variable.hosts) for variable in ids]
    if any(a & b for at, a in enumerate(hosts) for b in hosts[at + 1 :]):
        yield from (
            Proof(variable.line, f"{variable.said}{by_ranks(variable.ranks, variable.hosts)}")
            for variable in ids
            if not variable.pasted
        )


@check
def host_id_shared(log: LogReport) -> Iterator[Proof]:
    """Several hosts are given one host id, so their ranks look for each other's memory."""
    for variable in log.set("NCCL_HOSTID"):
        if len(variable.hosts) > 1:
            yield Proof(variable.line, f"{variable.said}{by_ranks((), variable.hosts)}")


@check
def p2p_off_by_flag(log: LogReport) -> Iterator[Proof]:
    """P2P is switched off by a variable, and ranks of one host use shared memory."""
    flags = p2p_flags(log)
    for comm in log.communicators if flags else ():
        for transport in comm.transports:
            if transport.label.startswith("SHM"):
                yield from (*flags, Proof(transport.line, transport.text))
                return


@check
def plugin_not_loaded(log: LogReport) -> Iterator[Proof]:
    """A plugin that a variable names by its path, and the line that says it is not there."""
    for variable in log.environment:
        path = variable.value
        if not variable.name.endswith("_PLUGIN") or "/" not in path:
            continue
        for note in log.notes:
            if "/Plugin: " in note.text and path in note.text and "oaded" not in note.text:
                yield Proof(variable.line, variable.said)
                yield Proof(note.line, note.text)
