"""Limits of the host: /dev/shm, locked memory, open files."""

from collections.abc import Iterable
from operator import itemgetter

from ....model.readings import ProcessReading
from ....model.severity import BROKEN, NOTICE
from ....model.surroundings import Host
from ....model.units import size
from ....model.versions import LibraryName, numbers
from ....nccl.decide.summary import ring_hops
from ...case import Case
from ...rule import Found, Proof, Rule, needed
from ...shared.near import called, jobs

SEGMENT_BYTES = 9_637_888
"""One receiving channel of NCCL's SHM transport with buffers of the default size (transport/shm.cc;
a log of NCCL 2.28.9 and NVIDIA/nccl#342 show it)."""
CUMEM_NCCL, CUMEM_CUDA = (2, 24), (12, 6)
"""From these versions on, SHM buffers come from cuMem where that works, not from /dev/shm."""
SOURCE = "statvfs /dev/shm"


def _needed_proof(case: Case, how: str) -> list[Proof]:
    return [(f"{case.words.library}'s SHM buffers", how, "prediction")] if how else []


def _small(case: Case) -> Found:
    seen = [("/dev/shm here", case.host.shm_bytes)]
    seen += [(f"/dev/shm of {called(process)}", process.shm_bytes) for process, _ in jobs(case)]
    known = needed([(who, total) for who, total in seen if total is not None])
    who, total = min(known, key=itemgetter(1))
    need, how = shm_need(case)
    if total >= max(case.threshold(SMALL, "minimum_bytes"), need):
        return []
    fatal = total < need and not cumem_host(case)
    return SMALL.finding(
        BROKEN if fatal else NOTICE,
        f"{who} holds {size(total)}"
        + (f", and {case.words.library} needs {size(need)}" if fatal else ""),
        evidence=[(f"size of {who}", size(total), SOURCE), *_needed_proof(case, how)],
        impact=_consequence(case, fatal, need),
        fix=[
            "For Docker, add to the command. $ --shm-size=16g",
            "In Kubernetes mount an emptyDir with medium: Memory at /dev/shm.",
        ],
    )


def _consequence(case: Case, fatal: bool, need: int) -> str:
    if fatal:
        return (
            "The job ends at its first collective: failed to extend /dev/shm/nccl-..., no space "
            "left on device."
        )
    text = (
        "Data loaders hand batches over in /dev/shm: one batch that does not fit ends the job with "
        "a bus error."
    )
    if need:
        text += (
            f" {case.words.library}'s SHM buffers come from cuMem where {case.words.library}, "
            "driver and container allow it, else "
            "from /dev/shm."
        )
    return text


def _memlock_known(record: ProcessReading | Host) -> bool:
    return record.memlock_bytes is not None or record.why("memlock_bytes") == UNLIMITED


def _full(case: Case) -> Found:
    reading, total = case.readings.host, case.host.shm_bytes
    free = reading.shm_free_bytes if reading is not None else None
    if free is None or total is None:
        return None
    need, how = shm_need(case)
    if free >= max(case.threshold(FULL, "minimum_free_bytes"), need):
        return []
    fatal = free < need and not cumem_host(case) and not jobs(case)
    return FULL.finding(
        BROKEN if fatal else NOTICE,
        f"only {size(free)} of /dev/shm are free",
        evidence=[
            ("free in /dev/shm", f"{size(free)} of {size(total)}", SOURCE),
            *_needed_proof(case, how),
        ],
        impact="The next job ends at its first collective: no space left on device."
        if fatal
        else f"{case.words.library} and data loaders put files there; one that does not fit "
        "ends the job.",
        fix=["Files of killed jobs stay: see whose they are, then delete them. $ ls -l /dev/shm"],
    )


def shm_need(case: Case) -> tuple[int, str]:
    """Bytes that the ring's hops by SHM take at least, and how that is counted; 0 without any."""
    prediction = case.prediction
    if prediction is None:
        return 0, ""
    hops = sum(count for (_, way), count in ring_hops(prediction).items() if way == "SHM")
    channels = prediction.coll_channels or 0
    if not hops or not channels:
        return 0, ""
    need = hops * channels * SEGMENT_BYTES
    return need, f"{size(need)}: {hops} hops x {channels} channels x {size(SEGMENT_BYTES)}"


def cumem_host(case: Case) -> bool:
    """Whether NCCL tries, or may try, cuMem for SHM buffers (misc/cudawrap.cc)."""
    off = ("0",)
    if any(
        case.variables.get(name, ("",))[0] in off
        for name in ("NCCL_CUMEM_ENABLE", "NCCL_CUMEM_HOST_ENABLE")
    ):
        return False
    prediction, software = case.prediction, case.machine.software
    if prediction is None or prediction.library.name is not LibraryName.NCCL:
        return False
    if software is None:
        return True
    if not software.cuda_driver:
        return True  # not known: it proves nothing
    cuda = numbers(software.cuda_driver)
    return numbers(prediction.library.version) >= CUMEM_NCCL and cuda >= CUMEM_CUDA


UNLIMITED = "unlimited"


def _memlock(case: Case) -> Found:
    theirs = [process for process, _ in jobs(case) if _memlock_known(process)]
    if not theirs and not _memlock_known(case.host):
        return None
    # The limit of a job counts more than that of the user's shell.
    seen = [
        (called(process), process.memlock_bytes, f"/proc/{process.pid}/limits")
        for process in theirs
    ] or [("gputop's shell", case.host.memlock_bytes, "/proc/self/limits")]
    least = case.threshold(MEMLOCK, "minimum_bytes")
    low = [(who, limit, source) for who, limit, source in seen if limit is not None]
    low = [(who, limit, source) for who, limit, source in low if limit < least]
    adapters = [device.name for device in case.machine.rdma if _may_work(device.ports)]
    if not adapters or not low:
        return []
    # A container shows the host's RDMA devices whether or not it may open them, and the launcher
    # of a job sets other limits than the login of whoever asks.
    container = case.host.container
    ours = container is not None and container.job is not None and not case.in_container
    return MEMLOCK.finding(
        BROKEN if theirs or ours else NOTICE,
        f"only {size(min(limit for _, limit, _ in low))} may be locked, and RDMA locks its buffers",
        evidence=[
            *((f"memory that {who} may lock", size(limit), source) for who, limit, source in low),
            ("RDMA devices", ", ".join(adapters), "/sys/class/infiniband"),
        ],
        impact="A job over several nodes that starts with this limit ends with "
        '"ibv_reg_mr failed: Cannot allocate memory". Inside one node nothing is locked.',
        fix=[
            "For Docker, add to the command. $ --ulimit memlock=-1",
            "For Slurm, in the unit of slurmd; for logins in /etc/security/limits.d. "
            "# LimitMEMLOCK=infinity",
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


SMALL = Rule(
    id="shm-small",
    family="D08",
    title="/dev/shm too small",
    evidence="size of /dev/shm here or of a GPU process, and how many hops {library} takes by SHM",
    disproof="`df /dev/shm` in the job's container shows more",
    sources=("NVIDIA/nccl#342", "NVIDIA/nccl#290", "NVIDIA/nccl-tests#166", "vllm#1710"),
    check=_small,
    thresholds=(("minimum_bytes", 256 * 2.0**20),),
)
FULL = Rule(
    id="shm-full",
    family="D08",
    title="/dev/shm full",
    evidence="free bytes of /dev/shm",
    disproof="`df /dev/shm` shows room",
    sources=("NVIDIA/nccl#525", "NCCL user guide, runtime troubleshooting"),
    check=_full,
    implied_by=("shm-small",),
    thresholds=(("minimum_free_bytes", 64 * 2.0**20),),
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
RULES = (SMALL, FULL, MEMLOCK, OPEN_FILES)
