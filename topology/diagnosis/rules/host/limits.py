"""Limits of a process: memory that may be locked, files that may be open."""

from __future__ import annotations

from collections.abc import Iterable

from ....model.severity import BROKEN, NOTICE
from ....model.units import size
from ...case import Case
from ...rule import Found, Rule
from ...shared.near import called, jobs

UNLIMITED = "unlimited"


def _memlock(case: Case) -> Found:
    host = case.host
    own: tuple[str, int, str] | None = None
    if host.memlock_bytes is not None:
        own = ("gputop's shell", host.memlock_bytes, "/proc/self/limits")
    theirs = [
        (called(process), process.memlock_bytes, f"/proc/{process.pid}/limits")
        for process, _ in jobs(case)
        if process.memlock_bytes is not None
    ]
    jobs_known = any(
        process.memlock_bytes is not None or process.why("memlock_bytes") == UNLIMITED
        for process, _ in jobs(case)
    )
    if own is None and not jobs_known and host.why("memlock_bytes") != UNLIMITED:
        return None
    adapters = [device.name for device in case.machine.rdma if _may_work(device.ports)]
    # The limit of a job counts more than that of the user's shell.
    seen = theirs if jobs_known else [own] if own is not None else []
    least = case.threshold(MEMLOCK, "minimum_bytes")
    low = [(who, limit, source) for who, limit, source in seen if limit < least]
    if not adapters or not low:
        return []
    # A container shows the host's RDMA devices whether or not it may open them, and the launcher
    # of a job sets other limits than the login of whoever asks.
    container = case.host.container
    ours = container is not None and container.job is not None and not case.in_container
    return MEMLOCK.finding(
        BROKEN if jobs_known or ours else NOTICE,
        f"only {size(min(limit for _, limit, _ in low))} may be locked, and RDMA locks its buffers",
        evidence=[
            *((f"memory that {who} may lock", size(limit), source) for who, limit, source in low),
            ("RDMA devices", ", ".join(adapters), "/sys/class/infiniband"),
        ],
        impact="A job over several nodes that starts with this limit ends with "
        '"ibv_reg_mr failed: Cannot allocate memory". Inside one node nothing is locked.',
        fix=[
            "For Docker, add to the command. $ --ulimit memlock=-1",
            (
                "For Slurm, in the unit of slurmd; for logins in /etc/security/limits.d. "
                "# LimitMEMLOCK=infinity"
            ),
        ],
    )


def _may_work(ports: Iterable[object]) -> bool:
    return any(getattr(port, "state", None) in (None, "ACTIVE") for port in ports)


def _open_files(case: Case) -> Found:
    limit = case.host.open_files_limit
    if limit is None:
        return [] if case.host.why("open_files_limit") == UNLIMITED else None
    if limit >= case.threshold(OPEN_FILES, "minimum_files"):
        return []
    return OPEN_FILES.finding(
        NOTICE,
        f"a process started here may open {limit} files",
        evidence=[("soft limit of open files", str(limit), "/proc/self/limits")],
        impact=f"{case.words.library} opens sockets and file descriptors for every peer "
        "and channel, data "
        'loaders one for every tensor in flight; "Too many open files" ends the job.',
        fix=["Raise the limit before the job starts. $ ulimit -n 65536"],
    )


MEMLOCK = Rule(
    id="memlock-low",
    family="D18",
    title="limit of locked memory too low for RDMA",
    evidence="RLIMIT_MEMLOCK of this process or of GPU processes, and RDMA devices",
    disproof="`ulimit -l` says unlimited under the launcher that starts the job",
    sources=("NVIDIA/nccl-tests#206", "NCCL user guide, networking", "openucx/ucx#7930"),
    check=_memlock,
    thresholds=(("minimum_bytes", 512e6),),
)
OPEN_FILES = Rule(
    id="open-files-low",
    title="limit of open files below the usual one",
    evidence="RLIMIT_NOFILE of this process",
    disproof="`ulimit -n` says 1024 or more under the launcher that starts the job",
    sources=("NCCL user guide, runtime troubleshooting",),
    check=_open_files,
    thresholds=(("minimum_files", 1024.0),),
)

RULES = (MEMLOCK, OPEN_FILES)
