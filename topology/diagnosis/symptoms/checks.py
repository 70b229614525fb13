"""Symptoms that several lines prove together. Each check gives the lines, or nothing."""

from collections.abc import Callable, Iterable, Iterator

from ...logs.report.communicator import Communicator, LoggedNode, LoggedSystem, Proof, Transport
from ...logs.report.report import LogReport, Variable

Check = Callable[[LogReport], Iterable[Proof]]
CHECKS: dict[str, Check] = {}
"""The checks by the names that rows of table.toml give."""

NEAR = {"LOC", "NVL", "XGMI", "NVB", "C2C", "PIX", "PXB"}
"""Path types between a GPU and a NIC that count as close (graph/paths.cc:ncclTopoCheckNet)."""


def check(function: Check) -> Check:
    """Offer a check under its own name."""
    CHECKS[function.__name__] = function
    return function


def once(proofs: Iterable[Proof]) -> list[Proof]:
    """Each line once, in the order given."""
    return list(dict.fromkeys(proofs))


def _shown(variable: Variable) -> Proof:
    return Proof(variable.line, variable.said)


def _said(transport: Transport) -> Proof:
    return Proof(transport.line, transport.text)


def _set(log: LogReport, name: str, *values: str) -> list[Proof]:
    """The lines that show a variable with one of these values."""
    found = [
        variable
        for variable in log.environment
        if variable.name == name and variable.value in values
    ]
    return [_shown(variable) for variable in found]


def p2p_flags(log: LogReport) -> list[Proof]:
    """Lines that show P2P over NVLink switched off."""
    return _set(log, "NCCL_P2P_DISABLE", "1") + _set(log, "NCCL_P2P_LEVEL", "LOC")


def _pairs(comm: Communicator, start: str) -> Iterator[tuple[Transport, bool | None]]:
    """Find transports by their label; True where one host has both ranks, None where unknown."""
    hosts = {rank.rank: rank.host for rank in comm.ranks}
    for transport in comm.transports:
        if transport.label.startswith(start):
            src, dst = hosts.get(transport.src), hosts.get(transport.dst)
            yield transport, None if src is None or dst is None else src == dst


def _gpu(comm: Communicator, rank: int) -> tuple[LoggedSystem, LoggedNode] | None:
    """The GPU of a rank in the System block that shows it."""
    for system in comm.systems:
        if comm.nranks > 1 and system.ranks and rank not in system.ranks and len(comm.hosts) > 1:
            continue
        for node in system.nodes:
            if node.name.startswith("GPU/") and node.detail.split("-")[0].strip() == str(rank):
                return system, node
    return None


@check
def duplicate_gpu(log: LogReport) -> Iterator[Proof]:
    """Two ranks with one host and one bus id."""
    for comm in log.communicators:
        seen: dict[tuple[str, str], Proof] = {}
        for rank in comm.ranks:
            if rank.host is None or rank.bus_id is None or rank.line is None:
                continue
            text = f"rank {rank.rank} cudaDev {rank.cuda_dev} busId {rank.bus_id} on {rank.host}"
            first = seen.setdefault((rank.host, rank.bus_id), Proof(rank.line, text))
            if first.text != text:
                yield from (first, Proof(rank.line, text))


@check
def mixed_versions(log: LogReport) -> Iterator[Proof]:
    """Two versions in one log."""
    if log.versions.others and log.versions.line is not None:
        yield Proof(log.versions.line, f"{log.versions.library} {log.versions.version}")
        yield from log.versions.others


@check
def gdr_off(log: LogReport) -> Iterator[Proof]:
    """Every NIC of an RDMA network says Disabled, and the network is used."""
    lines = [
        note for note in log.notes if "GPU Direct RDMA" in note.text and "for HCA" in note.text
    ]
    rdma = [note for note in lines if not note.text.startswith("NET/Socket")]
    used = [transport for comm in log.communicators for transport, _ in _pairs(comm, "NET/")]
    used = [transport for transport in used if not transport.label.startswith("NET/Socket")]
    if rdma and used and all("Disabled" in note.text for note in rdma):
        yield from (Proof(note.line, note.text) for note in rdma)
        yield _said(used[0])
    for note in log.notes:
        if "GDRDMA not enabled" in note.text:
            yield Proof(note.line, note.text)


@check
def gdr_unsaid(log: LogReport) -> Iterator[Proof]:
    """Connections over RDMA, none of which says GDRDMA, where no line says why."""
    used = [one for comm in log.communicators for one in comm.transports]
    rdma = [one for one in used if one.label.startswith("NET/IB")]
    said = any("GPU Direct RDMA" in note.text or "GDRDMA" in note.text for note in log.notes)
    if rdma and not said and not any("/GDRDMA" in one.label for one in used):
        yield from map(_said, rdma[:3])


@check
def gdr_not_used(log: LogReport) -> Iterator[Proof]:
    """A NIC says Enabled, and a connection over RDMA lacks /GDRDMA."""
    enabled = [
        note
        for note in log.notes
        if "GPU Direct RDMA Enabled for HCA" in note.text and not note.text.startswith("NET/Socket")
    ]
    if not enabled:
        return
    without = [
        transport
        for comm in log.communicators
        for transport, _ in _pairs(comm, "NET/")
        if "/GDRDMA" not in transport.label and not transport.label.startswith("NET/Socket")
    ]
    if not without:
        return
    yield Proof(enabled[0].line, enabled[0].text)
    yield from (_said(transport) for transport in without[:3])
    yield from (
        Proof(note.line, note.text)
        for note in log.notes
        if note.text.startswith("GPU Direct RDMA Disabled for GPU")
    )


@check
def socket_between_hosts(log: LogReport) -> Iterator[Proof]:
    """Sockets between ranks of different hosts."""
    for comm in log.communicators:
        for transport, together in _pairs(comm, "NET/Socket"):
            if together is False:
                yield _said(transport)
                for note in log.notes:
                    if note.text.startswith(("NET/IB : No device", "NET/Plugin: Could not find")):
                        yield Proof(note.line, note.text)
                return


def _inside(log: LogReport) -> list[Transport]:
    return [
        transport
        for comm in log.communicators
        for transport, together in _pairs(comm, "NET/")
        if together
    ]  # fmt: skip


@check
def net_by_flag(log: LogReport) -> Iterator[Proof]:
    """The network inside a host, with both other transports switched off."""
    off, shm = p2p_flags(log), _set(log, "NCCL_SHM_DISABLE", "1")
    inside = _inside(log)
    if off and shm and inside:
        yield from (*off, *shm, _said(inside[0]))


@check
def net_faster(log: LogReport) -> Iterator[Proof]:
    """The network inside a host where both GPUs have a close NIC that beats their own path."""
    for comm in log.communicators:
        for transport, together in _pairs(comm, "NET/"):
            proof = _beaten(comm, transport) if together else None
            if proof is not None:
                yield from (_said(transport), *proof)
                return


def _beaten(comm: Communicator, transport: Transport) -> list[Proof] | None:
    src, dst = _gpu(comm, transport.src), _gpu(comm, transport.dst)
    if src is None or dst is None:
        return None
    own = src[0].paths.get(src[1].name, {}).get(dst[1].name)
    if own is None or own[2] == "NET":
        return None
    proof = []
    for system, gpu in (src, dst):
        cells = system.paths.get(gpu.name, {})
        close = [
            (name, cell)
            for name, cell in cells.items()
            if name.startswith("NET/") and cell[2] in NEAR and cell[1] > own[1]
        ]
        if not close:
            return None
        name, cell = close[0]
        text = f"{gpu.name} to {name}: {cell[1]} GB/s {cell[2]}; between the GPUs {own[1]} {own[2]}"
        proof.append(Proof(gpu.line, text))
    return proof


@check
def net_inside_host(log: LogReport) -> Iterator[Proof]:
    """The network inside a host, which no flag and no faster NIC explains."""
    if next(iter(net_by_flag(log)), None) or next(iter(net_faster(log)), None):
        return
    yield from (_said(transport) for transport in _inside(log)[:3])


@check
def nodes_exceed_hosts(log: LogReport) -> Iterator[Proof]:
    """More nodes than hosts, where every rank's host is known."""
    for comm in log.communicators:
        known = len(comm.ranks) == comm.nranks and all(rank.host for rank in comm.ranks)
        if known and comm.nodes is not None and comm.shape and comm.nodes > len(comm.hosts):
            yield comm.shape
            yield from (*p2p_flags(log), *_set(log, "NCCL_SHM_DISABLE", "1"))


@check
def nvlink_unused(log: LogReport) -> Iterator[Proof]:
    """Shared memory or network between GPUs that NVLink joins, because of a flag."""
    flags = p2p_flags(log)
    if not flags:
        return
    for comm in log.communicators:
        for transport in comm.transports:
            if transport.label.startswith("P2P"):
                continue
            link = _nvlink(comm, transport.src, transport.dst)
            if link is not None:
                yield from (*flags, _said(transport), link)
                return


@check
def nvlink_unused_unsaid(log: LogReport) -> Iterator[Proof]:
    """The same without a reason in the log: no flag is set, and CUDA allows P2P."""
    if p2p_flags(log) or log.variable("NCCL_P2P_LEVEL") is not None:
        return
    for comm in log.communicators:
        kind = comm.p2p_type
        if kind is None or kind.all_direct or not kind.all_cuda:
            continue
        for transport in comm.transports:
            link = (
                None
                if transport.label.startswith("P2P")
                else _nvlink(comm, transport.src, transport.dst)
            )
            if link is not None:
                yield Proof(kind.line, "Check P2P Type isAllDirectP2p 0 isAllCudaP2p 1")
                yield from (_said(transport), link)
                return


def _nvlink(comm: Communicator, src: int, dst: int) -> Proof | None:
    """Find the NVLink of a System block that joins two ranks, directly or by a switch."""
    near, far = _gpu(comm, src), _gpu(comm, dst)
    seen, other = comm.rank(src), comm.rank(dst)
    if near is None or far is None:
        return None
    if near[0] is not far[0] and (seen is None or other is None or seen.host != other.host):
        return None
    beyond = {link.to for link in far[1].links if link.nvlink}
    for link in near[1].links:
        switch = link.to.startswith("NVS/") and link.to in beyond
        if link.nvlink and (link.to == far[1].name or switch):
            return Proof(near[1].line, f"{near[1].name} + {link.kind}[{link.gbs}] - {link.to}")
    return None


@check
def shm_by_policy(log: LogReport) -> Iterator[Proof]:
    """Shared memory where CUDA could do P2P and no flag forbids it."""
    if p2p_flags(log) or log.variable("NCCL_P2P_LEVEL") is not None:
        return
    for comm in log.communicators:
        kind = comm.p2p_type
        shm = [
            transport
            for transport in comm.transports
            if transport.label.startswith("SHM")
            and _nvlink(comm, transport.src, transport.dst) is None
        ]
        if kind is not None and not kind.all_direct and kind.all_cuda and shm:
            yield Proof(kind.line, "Check P2P Type isAllDirectP2p 0 isAllCudaP2p 1")
            yield _said(shm[0])


@check
def p2p_impossible(log: LogReport) -> Iterator[Proof]:
    """The summary line says that CUDA cannot do P2P between all local pairs.

    Where flags split a host into nodes, the line says 0 as well (graph/paths.cc:ncclTopoCheckP2p
    no longer finds the other GPUs), which proves nothing.
    """
    split = p2p_flags(log) and _set(log, "NCCL_SHM_DISABLE", "1")
    for comm in log.communicators:
        if split or (comm.nodes is not None and comm.nodes > len(comm.hosts) > 0):
            continue
        if comm.p2p_type is not None and comm.p2p_type.all_cuda is False:
            yield Proof(comm.p2p_type.line, "Check P2P Type isAllCudaP2p 0")
