"""The processes on the GPUs, grouped into jobs and into communicators."""

from collections.abc import Hashable, Iterable

import msgspec

from ..model.gathered import gathered
from ..model.readings import GpuReading, ProcessReading, Readings
from ..model.snapshot import NodeSnapshot

LAUNCHERS_OF_MANY = frozenset(
    {
        "bash", "containerd-shim", "containerd-shim-runc-v2", "crond", "dash", "docker-init",
        "dumb-init", "fish", "init", "ksh", "nohup", "runc", "s6-svscan", "screen", "sh", "sshd",
        "su", "sudo", "supervisord", "systemd", "tini", "tmux", "tmux: server", "zsh", "launchd",
        "jupyter-lab", "jupyter-noteboo", "jupyter-server", "code-server", "login",
    }
)  # fmt: skip
"""Parents that start unrelated processes."""
LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")


class GpuUser(msgspec.Struct, frozen=True, kw_only=True):
    """One process and the GPUs that it holds."""

    pid: int
    gpus: tuple[str, ...]
    """PCI addresses, in order."""
    kinds: tuple[str, ...] = ()
    """"compute", "graphics", "mps"."""
    memory_bytes: int | None = None
    """Memory on all its GPUs together; None where the driver does not say."""
    reading: ProcessReading
    """What the operating system says about it; empty where it shows no such process."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Processes that belong together."""

    key: str
    """Its identity, which stays the same as long as the job lasts."""
    name: str
    """"slurm 1234.0", "torchrun run-7", "python3 4711"."""
    processes: tuple[GpuUser, ...]
    """By rank, then by PID."""
    gpus: tuple[str, ...]
    memory_bytes: int | None = None
    """GPU memory of those of its processes whose memory the driver reports."""
    started_at: float | None = None
    """When the oldest process began, seconds since the epoch."""
    users: tuple[str, ...] = ()
    world_size: int | None = None
    """Ranks on all nodes; None where the processes do not agree or do not say."""

    @property
    def ranked(self) -> tuple[GpuUser, ...]:
        """Its processes without those that one of them started, which inherit its rank."""
        pids = {user.pid for user in self.processes}
        return tuple(user for user in self.processes if user.reading.parent not in pids)

    def own_gpu(self, pid: int | None, readings: Readings) -> GpuReading | None:
        """What was read of the GPU of one of its ranks; None where it has none, or several."""
        gpus = next((user.gpus for user in self.ranked if user.pid == pid), ())
        return readings.gpu(gpus[0]) if len(gpus) == 1 else None

    @property
    def library(self) -> str | None:
        """What its processes have loaded, "nccl-2.28.9"; None where not known or not one."""
        loaded = [user.reading.library for user in self.processes]
        names = {f"{one.name}-{one.version}" for one in loaded if one is not None and one.version}
        return names.pop() if len(names) == 1 else None


def gpu_users(readings: Readings) -> tuple[GpuUser, ...]:
    """All processes that the driver names, with their GPUs; by PID."""
    described = {process.pid: process for process in readings.processes}
    held = gathered(
        (process.pid, (gpu.address, process.kind, process.memory_bytes))
        for gpu in readings.gpus
        for process in gpu.processes or ()
    )
    return tuple(
        GpuUser(
            pid=pid,
            gpus=tuple(dict.fromkeys(address for address, _, _ in parts)),
            kinds=tuple(dict.fromkeys(kind for _, kind, _ in parts)),
            memory_bytes=_sum(_once(parts)),
            reading=described.get(pid) or ProcessReading(pid=pid),
        )
        for pid, parts in sorted(held.items())
    )


def _once(parts: Iterable[tuple[str, str, int | None]]) -> list[int | None]:
    """The memory of each GPU, counted once where a process both computes and draws."""
    by: dict[str, int | None] = {}
    for address, _, memory in parts:
        before = by.get(address)
        by[address] = memory if before is None else max(before, memory or 0)
    return list(by.values())


ALONE = "pid "
"""How the key of a process begins that nothing tells to be of a job."""


def jobs(snapshot: NodeSnapshot) -> tuple[Job, ...]:
    """Group the processes on the GPUs; the job on the first GPU comes first."""
    users = gpu_users(snapshot.readings)
    known = {user.pid: user for user in users}
    siblings: dict[int, int] = {}
    for user in users:
        if user.reading.parent is not None:
            siblings[user.reading.parent] = siblings.get(user.reading.parent, 0) + 1
    together = {user.pid: members[0] for members in communicators(users) for user in members}
    groups: dict[tuple[str, str], list[GpuUser]] = {}
    for user in users:
        group = _group(user, known, siblings)
        # A shell that starts each rank by itself says of none to which job it belongs.
        if group[0].startswith(ALONE) and user.pid in together:
            group = _group(together[user.pid], known, siblings)
        groups.setdefault(group, []).append(user)
    found = [_job(key, name, members) for (key, name), members in groups.items()]
    return tuple(sorted(found, key=lambda job: (job.gpus[0], job.processes[0].pid)))


def _group(user: GpuUser, known: dict[int, GpuUser], siblings: dict[int, int]) -> tuple[str, str]:
    """Key and name of a process's job: as it says, else by its parent, else the process itself."""
    seen = {user.pid}
    while user.reading.job is None:
        above = known.get(user.reading.parent or 0)
        if above is None or above.pid in seen:
            break
        seen.add(above.pid)
        user = above
    process = user.reading
    if process.job is not None:
        return f"job {process.job}", process.job
    parent, command = process.parent, process.parent_command
    started = parent is not None and command is not None and command not in LAUNCHERS_OF_MANY
    if started and siblings.get(parent or 0, 0) > 1:
        return f"parent {parent}", f"{command} {parent}"
    return f"{ALONE}{process.pid}", f"{process.command or 'pid'} {process.pid}"


def _job(key: str, name: str, members: list[GpuUser]) -> Job:
    ordered = sorted(members, key=lambda user: (_rank(user), user.pid))
    worlds = {user.reading.world_size for user in ordered}
    starts = [user.reading.started_at for user in ordered]
    return Job(
        key=key,
        name=name,
        processes=tuple(ordered),
        gpus=tuple(sorted({address for user in ordered for address in user.gpus})),
        memory_bytes=_sum(user.memory_bytes for user in ordered),
        started_at=min((start for start in starts if start is not None), default=None),
        users=tuple(sorted({user.reading.user for user in ordered if user.reading.user})),
        world_size=worlds.pop() if len(worlds) == 1 else None,
    )


def _rank(user: GpuUser) -> int:
    return -1 if user.reading.rank is None else user.reading.rank


def _sum(parts: Iterable[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def communicators(users: Iterable[GpuUser]) -> tuple[tuple[GpuUser, ...], ...]:
    """Processes that are proven to be ranks of one communicator, by rank; at least two each.

    The proof is that they meet at one address, or that one step or one launcher started them, with
    one number of ranks and a different rank for each. Where two processes have the same rank,
    nothing is said.
    """
    groups: dict[Hashable, list[GpuUser]] = {}
    for user in users:
        key = _meeting(user.reading)
        if key is not None and user.reading.rank is not None:
            groups.setdefault(key, []).append(user)
    found = []
    for members in groups.values():
        pids = {user.pid for user in members}
        # A helper that a rank started inherits its variables.
        own = [user for user in members if user.reading.parent not in pids]
        ranks = {user.reading.rank for user in own}
        if len(own) == len(ranks) > 1:
            found.append(tuple(sorted(own, key=_rank)))
    return tuple(sorted(found, key=lambda members: members[0].pid))


def _meeting(process: ProcessReading) -> Hashable | None:
    """The key that ranks of one communicator share; None where nothing proves one."""
    world = process.world_size
    if world is None or world < 2:
        return None
    if process.rendezvous is not None:
        if process.rendezvous.rpartition(":")[0] not in LOOPBACK:
            return "meet", process.rendezvous, world
        net = dict(process.namespaces or ()).get("net")
        if net is not None:
            return "meet", process.rendezvous, net, world
    if process.job is not None and process.job.startswith("slurm ") and "." in process.job:
        return "step", process.job, world
    if process.job is not None and process.parent is not None:
        return "launched", process.job, process.parent, world
    return None
