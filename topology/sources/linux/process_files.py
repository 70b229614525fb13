"""What the kernel reports about one process in /proc, as far as we may read it.

The raw answer of a process: {"status": its lines of STATUS, "parent_command", "memlock": the line
of /proc/PID/limits, "cgroup": text, "levels": limits of its cgroups as in `containers`,
"namespaces": {kind: "ipc:[4026531839]"}, "variables": {name: value}, "hostname", "shm": {"device",
"total": bytes}}. A value may be {"error": why}. Of the variables only those leave this module that
may be stored (model/variable_names.py) or that name a job or a rank (JOB_NAMES).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from ...model.part import Raw
from ...model.variable_names import listed
from ..files.tree import Tree, Unreadable, clean
from .containers import limits

PROC = Path("/proc")
SWITCHES = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
"""How often a process gave up its CPU, and how often it was taken away: equal twice, it never ran
in between."""
STATUS = ("State", "PPid", "Cpus_allowed_list", "Mems_allowed_list", "RssAnon", *SWITCHES)
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
KUBERNETES = "KUBERNETES_SERVICE_HOST"
JOB_NAMES = frozenset(
    {
        "HOSTNAME",
        "LOCAL_RANK",
        "LSB_JOBID",
        "MASTER_ADDR",
        "MASTER_PORT",
        "MPI_LOCALRANKID",
        "OMP_NUM_THREADS",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "PBS_JOBID",
        "PMI_RANK",
        "PMI_SIZE",
        "RANK",
        "RAY_JOB_ID",
        "SLURM_JOB_ID",
        "SLURM_LOCALID",
        "SLURM_NTASKS",
        "SLURM_PROCID",
        "SLURM_STEP_ID",
        "TORCHELASTIC_RUN_ID",
        "WORLD_SIZE",
        KUBERNETES,
    }
)
"""Names of variables that identify the job and the rank of a process, and one of its threads."""
DENIED = "no permission"
LIMIT_ENVIRONMENT = 4 * 2**20
LIMIT_VARIABLES = 65_536
"""Kubernetes sets seven for each port of each service in a namespace."""
LIMIT_KEPT = 256
LIMIT_CHARACTERS = 512
LIMIT_STATUS = 16 * 1024
LIMIT_STAT = 4096

_BEGUN = 22 - 3
"""Place of the start time in /proc/PID/stat behind the name; the first one there is field 3."""


def moving(tree: Tree, pid: int) -> dict[str, Raw]:
    """Read what changes while a process runs: its state, its binding, its parent."""
    status = _lines(tree.text(f"proc/{pid}/status", LIMIT_STATUS), STATUS)
    parent = str(status.get("PPid", ""))
    found: dict[str, Raw] = {"status": status}
    if parent.isascii() and parent.isdecimal() and parent != "0":
        found["parent_command"] = _said(tree.text(f"proc/{parent}/comm", 256))
    return found


def lasting(tree: Tree, pid: int, proc: Path = PROC) -> dict[str, Raw]:
    """Read what hardly ever changes; `proc` is where its root and its namespaces are."""
    folder = f"proc/{pid}"
    spaces = namespaces(pid, proc)
    return {
        "memlock": _memlock(tree.text(f"{folder}/limits", LIMIT_STATUS)),
        "cgroup": _said(tree.text(f"{folder}/cgroup", 8192)),
        "levels": limits(tree, f"{folder}/cgroup"),
        "namespaces": spaces,
        "variables": _variables(tree.octets(f"{folder}/environ", 0, LIMIT_ENVIRONMENT)),
        "hostname": _hostname(spaces, pid, proc),
        "shm": shm(pid, proc),
    }


def sleep_of(tree: Tree, pid: int, tid: int | None = None) -> tuple[str, ...] | None:
    """What stays equal as long as a thread is in one uninterruptible sleep; None when in none.

    When it began belongs to it: its number may be given to another one, with as few switches of
    context. Without `tid` of the first thread, which gives a process its state.
    """
    folder = _folder(pid, tid)
    lines = _lines(tree.text(f"{folder}/status", LIMIT_STATUS), ("State", *SWITCHES))
    counts = tuple(str(lines.get(name, "")) for name in SWITCHES)
    begun = _begun(tree.text(f"{folder}/stat", LIMIT_STAT)) if in_sleep(lines) else ""
    return (begun, *counts) if begun and all(counts) else None


def in_sleep(status: Mapping[str, Raw]) -> bool:
    """Whether these lines are of a thread in an uninterruptible sleep."""
    return str(status.get("State", ""))[:1] == "D"


def _begun(stat: str | Unreadable) -> str:
    """When a thread began, in clock ticks (proc_pid_stat(5), field 22); "" where not readable."""
    rest = [] if isinstance(stat, Unreadable) else stat.rpartition(")")[2].split()
    return rest[_BEGUN] if len(rest) > _BEGUN else ""


def _folder(pid: int, tid: int | None) -> str:
    return f"proc/{pid}" if tid in (None, pid) else f"proc/{pid}/task/{tid}"


def wait_channel(tree: Tree, pid: int, tid: int | None = None) -> Raw:
    """The function of the kernel in which a thread sleeps; "0" where the kernel keeps it back."""
    return _said(tree.text(f"{_folder(pid, tid)}/wchan", 256))


def state(tree: Tree, pid: int) -> str:
    """The letter of its state, "Z" for a zombie; "" when it is not readable."""
    lines = _lines(tree.text(f"proc/{pid}/status", LIMIT_STATUS), ("State",))
    return str(lines.get("State", ""))[:1]


def namespaces(pid: int | str, proc: Path = PROC) -> dict[str, Raw]:
    """Kind and name of the namespaces that a process is in."""
    found: dict[str, Raw] = {}
    for kind in NAMESPACES:
        try:
            found[kind] = clean(os.readlink(proc / str(pid) / "ns" / kind))
        except PermissionError:
            return {"error": DENIED}
        except OSError:
            continue  # an older kernel has fewer kinds
    return found or {"error": "not readable"}


def shm(pid: int, proc: Path = PROC) -> dict[str, Raw]:
    """Device number and size of the process's /dev/shm, seen through its own root."""
    place = proc / str(pid) / "root"
    try:
        for name in ("dev", "shm"):
            place /= name
            status = os.lstat(place)
            if not stat.S_ISDIR(status.st_mode):
                # An absolute link would lead out of a container to our own folder.
                return {"error": f"/{place.relative_to(proc / str(pid) / 'root')} is no folder"}
        size = os.statvfs(place)
    except PermissionError:
        return {"error": DENIED}
    except OSError as error:
        return {"error": error.strerror or type(error).__name__}
    return {"device": status.st_dev, "total": size.f_frsize * size.f_blocks}


def _hostname(spaces: dict[str, Raw], pid: int, proc: Path) -> Raw:
    """Our host name where it shares our UTS namespace, else the one in its own /etc/hostname."""
    own = namespaces("self", proc)
    if spaces.get("uts") is not None and spaces.get("uts") == own.get("uts"):
        return clean(os.uname().nodename)
    folder = proc / str(pid) / "root" / "etc"
    try:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            return {"error": "its /etc is no folder"}
        # Never follow a link out of its root, nor open a pipe that waits for a writer.
        handle = os.open(folder / "hostname", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except PermissionError:
        return {"error": DENIED}
    except OSError as error:
        return {"error": error.strerror or type(error).__name__}
    try:
        plain = stat.S_ISREG(os.fstat(handle).st_mode)
        return clean(os.read(handle, 256)).strip() if plain else {"error": "not a regular file"}
    except OSError as error:
        return {"error": error.strerror or type(error).__name__}
    finally:
        os.close(handle)


def _variables(data: bytes | Unreadable) -> dict[str, Raw]:
    if isinstance(data, Unreadable):
        return {"error": data.why}
    found: dict[str, Raw] = {}
    entries = data.split(b"\0")
    if len(data) >= LIMIT_ENVIRONMENT or len(entries) > LIMIT_VARIABLES:
        return {"error": "more variables than gputop reads"}
    for entry in entries:
        name, sign, value = entry.partition(b"=")
        word = clean(name)
        if not sign or word in found:
            continue
        if len(found) >= LIMIT_KEPT:
            return {"error": f"more than {LIMIT_KEPT} variables of NCCL and of its job"}
        if word in JOB_NAMES or (len(word) <= LIMIT_CHARACTERS and listed(word)):
            # That it is set is enough: the address of a cluster's server is not to be stored.
            found[word] = "set" if word == KUBERNETES else clean(value[:LIMIT_CHARACTERS])
    return found


def _lines(text: str | Unreadable, names: tuple[str, ...]) -> dict[str, Raw]:
    if isinstance(text, Unreadable):
        return {"error": text.why}
    found: dict[str, Raw] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and name in names:
            found.setdefault(name, value.strip())
    return found


def _memlock(text: str | Unreadable) -> Raw:
    if isinstance(text, Unreadable):
        return {"error": text.why}
    return next((line for line in text.splitlines() if line.startswith("Max locked memory")), "")


def _said(text: str | Unreadable) -> Raw:
    return {"error": text.why} if isinstance(text, Unreadable) else text
