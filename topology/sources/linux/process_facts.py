"""Facts from what `process_files` read: job, rank, binding, limits and namespaces."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...model.cpulist import members, written
from ...model.part import Raw
from ...model.readings import ProcessState
from ...model.variable_names import listed
from ..files.answers import FileAnswers, whole
from ..files.tree import clean
from .containers import batch_job, groups, narrowest
from .process_files import KUBERNETES

STATES = {
    "R": ProcessState.RUNNING,
    "S": ProcessState.SLEEPING,
    "D": ProcessState.DISK_SLEEP,
    "T": ProcessState.STOPPED,
    "t": ProcessState.TRACED,
    "Z": ProcessState.ZOMBIE,
    "X": ProcessState.ZOMBIE,
    "I": ProcessState.SLEEPING,
}
"""The letters of /proc/PID/status."""
ZOMBIE_LETTERS = ("Z", "X")
RANKS = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
)
"""Rank, local rank and number of ranks, the nearest launcher first: torchrun may run under srun."""
MPI_LAUNCHERS = ("mpirun", "mpiexec", "orterun", "orted", "prterun", "prted", "hydra_pmi_proxy")
LARGEST_WORLD = 1 << 24
MOST_THREADS = 65_536
STEPS = 0xFFFF_FF00
"""Slurm numbers its special steps (batch, extern, interactive) from about here on."""

_POD = re.compile(r"pod([0-9a-f]{8})[-_][0-9a-f]{4}[-_]")
_DOCKER = re.compile(r"(?:docker|libpod)[-/]([0-9a-f]{12})[0-9a-f]{52}")
_WORD = re.compile(r"[\w.:@\[\]-]{1,120}")
_LINK = re.compile(r"[a-z_]{1,20}:\[(\d{1,20})\]")
_FUNCTION = re.compile(r"[\w.]{1,80}")
_LOCKED = re.compile(r"Max locked memory\s+(\S+)\s")


def facts(entry: Mapping[str, Raw], fields: FileAnswers) -> dict[str, object]:
    """FileAnswers of a ProcessReading by name; `fields` takes the gaps."""
    status = _inner(entry, "status", fields.absent)
    variables = _variables(entry, fields)
    parent = whole(_or_gap(status, "PPid", "parent", fields))
    memory_bytes, cpu_quota = narrowest(entry.get("levels"), fields)
    memory_group, cpu_group = groups(entry.get("levels"), fields)
    rank, local_rank, world_size = ranks(variables or {})
    device, size = _shm(entry, fields)
    command = fields.text("parent_command", "parent_command", quiet=True)
    return {
        "parent": parent if parent is not None and parent > 0 else None,
        "parent_command": command,
        "state": _state(status, fields),
        "memory_nodes": _list(_or_gap(status, "Mems_allowed_list", "memory_nodes", fields)),
        "job": job(variables or {}, fields.text("cgroup") or "", parent, command),
        "rank": rank,
        "local_rank": local_rank,
        "world_size": world_size,
        "rendezvous": _rendezvous(variables or {}),
        "variables": None
        if variables is None
        else tuple(sorted((n, v) for n, v in variables.items() if listed(n))),
        "hostname": fields.text("hostname", "hostname"),
        "namespaces": _namespaces(entry, fields),
        "shm_device": device,
        "shm_bytes": size,
        "memlock_bytes": _memlock(fields),
        "memory_limit_bytes": memory_bytes,
        "memory_group": memory_group,
        "cpu_quota": cpu_quota,
        "cpu_group": cpu_group,
        "anonymous_bytes": _kib(status.text("RssAnon")),
        "omp_threads": threads((variables or {}).get("OMP_NUM_THREADS")),
        "asleep_seconds": _seconds(entry.get("asleep")),
        "asleep_thread": fields.text("asleep_thread"),
        "wait_channel": _channel(fields.text("wchan")),
    }


def job(
    variables: Mapping[str, str], cgroup: str, parent: int | None, parent_command: str | None
) -> str | None:
    """Who started a process and under which number; None where nothing says so.

    A cgroup of a batch system is better evidence than a variable, which a shell may have kept.
    """
    batch = batch_job(cgroup)
    if batch is not None and batch.startswith("slurm"):
        return batch
    number = whole(variables.get("SLURM_JOB_ID"))
    if number is not None and number > 0:
        step = whole(variables.get("SLURM_STEP_ID"))
        return f"slurm {number}" + (f".{step}" if step is not None and 0 <= step < STEPS else "")
    pod, name = _POD.search(cgroup), variables.get("HOSTNAME", "")
    if KUBERNETES in variables and _WORD.fullmatch(name):
        return f"kubernetes {name}"
    if pod:
        return f"kubernetes pod {pod[1]}"
    for variable, system in (("PBS_JOBID", "pbs"), ("LSB_JOBID", "lsf"), ("RAY_JOB_ID", "ray")):
        value = variables.get(variable, "")
        if _WORD.fullmatch(value):
            return f"{system} {value}"
    return batch or _launched(variables, parent, parent_command) or _docker(cgroup)


def _launched(
    variables: Mapping[str, str], parent: int | None, parent_command: str | None
) -> str | None:
    run = variables.get("TORCHELASTIC_RUN_ID")
    if run is not None:
        named = run != "none" and _WORD.fullmatch(run)
        return f"torchrun {run}" if named else f"torchrun {parent}" if parent else None
    if parent and parent_command is not None and parent_command.startswith(MPI_LAUNCHERS):
        return f"mpirun {parent}"
    return None


def _docker(cgroup: str) -> str | None:
    found = _DOCKER.search(cgroup)
    return f"docker {found[1]}" if found else None


def ranks(variables: Mapping[str, str]) -> tuple[int | None, int | None, int | None]:
    """Rank, local rank and number of ranks, all from one launcher's variables."""
    for names in RANKS:
        rank, local, world = (_count(variables.get(name)) for name in names)
        if rank is not None and (world is None or rank < world):
            return rank, local, world
    return None, None, None


def threads(text: str | None) -> int | None:
    """OMP_NUM_THREADS as OpenMP reads it: a number above 0, or one for each level of nesting."""
    number = _count((text or "").split(",")[0].strip())
    return number if number and number <= MOST_THREADS else None


def _kib(text: str | None) -> int | None:
    words = (text or "").split()
    number = whole(words[0]) if len(words) == 2 and words[1] == "kB" else None
    return None if number is None or number < 0 else number * 1024


def _seconds(value: Raw) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9
    return float(value) if good and isinstance(value, int | float) else None


def _channel(text: str | None) -> str | None:
    return text if text is not None and _FUNCTION.fullmatch(text) and text != "0" else None


def _count(text: str | None) -> int | None:
    number = whole(text) if text is not None and text.isascii() and text.isdecimal() else None
    return number if number is not None and number <= LARGEST_WORLD else None


def _rendezvous(variables: Mapping[str, str]) -> str | None:
    address, port = variables.get("MASTER_ADDR", ""), variables.get("MASTER_PORT", "")
    complete = _WORD.fullmatch(address) and port.isascii() and port.isdecimal() and len(port) <= 5
    return f"{address}:{port}" if complete else None


def _variables(entry: Mapping[str, Raw], fields: FileAnswers) -> dict[str, str] | None:
    raw = entry.get("variables")
    if not isinstance(raw, dict) or isinstance(raw.get("error"), str):
        why = fields.absent
        if isinstance(raw, dict) and isinstance(raw.get("error"), str):
            why = str(raw["error"])
        for field in ("variables", "rank", "world_size"):
            fields.gap(field, why)
        return None
    return {
        clean(name): clean(value)
        for name, value in raw.items()
        if isinstance(name, str) and isinstance(value, str)
    }


def _state(status: FileAnswers, fields: FileAnswers) -> str | None:
    text = _or_gap(status, "State", "state", fields)
    if text is None:
        return None
    word = STATES.get(text[:1])
    if word is None:
        fields.gap("state", f"a state of its own: {text[:20]!r}")
    return word


def _list(text: str | None) -> str | None:
    """A list of NUMA nodes in one form; None for anything else."""
    found = members(text)
    return written(found) if found else None


def _namespaces(
    entry: Mapping[str, Raw], fields: FileAnswers
) -> tuple[tuple[str, str], ...] | None:
    raw = _inner(entry, "namespaces", fields.absent)
    found = [
        (clean(kind)[:20], match[1])
        for kind, text in raw.raw.items()
        if isinstance(kind, str) and isinstance(text, str) and (match := _LINK.fullmatch(text))
    ]
    if not found:
        _or_gap(raw, "ipc", "namespaces", fields)
        return None
    return tuple(sorted(found))


def _shm(entry: Mapping[str, Raw], fields: FileAnswers) -> tuple[int | None, int | None]:
    raw = _inner(entry, "shm", fields.absent).raw
    device, size = _whole(raw.get("device")), _whole(raw.get("total"))
    why = raw.get("error")
    for field, value in (("shm_device", device), ("shm_bytes", size)):
        if value is None:
            fields.gap(field, why if isinstance(why, str) else fields.absent)
    return device, size


def _whole(value: Raw) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
    return value if good else None


def _memlock(fields: FileAnswers) -> int | None:
    text = fields.text("memlock", "memlock_bytes")
    found = _LOCKED.search(f"{text} ") if text is not None else None
    if found and found[1] == "unlimited":
        fields.gap("memlock_bytes", "unlimited")
        return None
    value = whole(found[1]) if found else None
    if text is not None and value is None:
        fields.gap("memlock_bytes", "its limits do not say")
    return value


def _inner(entry: Mapping[str, Raw], key: str, absent: str) -> FileAnswers:
    """The answers below a key; where they could not be read, a field that is asked says why."""
    return FileAnswers(entry.get(key), absent)


def _or_gap(inner: FileAnswers, key: str, field: str, fields: FileAnswers) -> str | None:
    text = inner.text(key)
    if text is None:
        why = inner.raw.get("error")
        fields.gap(field, why if isinstance(why, str) else inner.absent)
    return text
