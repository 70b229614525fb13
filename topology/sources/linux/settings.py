"""Settings around a job: CPU governors, peer-memory clients, file limits, caches of kernels.

They are part of the raw answer of the source host, every key optional:

- "governors": {"policy0": ["performance", "0 112"]}: a cpufreq policy's governor and its CPUs; {}
  where the kernel scales no CPU (a guest)
- "frequency_driver": text of the first policy's scaling_driver
- "memory_peers": names in /sys/kernel/mm/memory_peers; [] where that is not there
- "caches": [{"name", "path", "variable", "filesystem"}], "variable" and "filesystem" may be null
"""

from __future__ import annotations

import getpass
import os
import re
from collections import Counter
from collections.abc import Mapping

from ...model.part import Raw
from ...model.surroundings import CacheFolder
from ..files.answers import FileAnswers, items_of, part, under, whole, words
from ..files.tree import Tree, clean

POLICIES = "sys/devices/system/cpu/cpufreq"
MEMORY_PEERS = "sys/kernel/mm/memory_peers"
MOUNTS = "proc/self/mountinfo"
MOUNTS_BYTES = 1024 * 1024
LIMIT_POLICIES = 4096
LIMIT_PEERS = 64
LIMIT_CACHES = 16
_POLICY = re.compile(r"policy\d{1,5}")
_OPEN_FILES = re.compile(r"^Max open files\s+(\w+)", re.MULTILINE)
_ESCAPED = re.compile(r"\\([0-7]{3})")


def read(tree: Tree) -> dict[str, Raw]:
    """Ask the machine, or a copy of one; caches belong to this user, so a copy has none."""
    found: dict[str, Raw] = {}
    if tree.exists("sys/devices/system/cpu"):
        found["governors"] = _governors(tree)
        first = next(iter(found["governors"]), "")
        driver = tree.text(f"{POLICIES}/{first}/scaling_driver", 64) if first else None
        if isinstance(driver, str):
            found["frequency_driver"] = driver
    if tree.exists("sys/kernel/mm") or tree.exists(MEMORY_PEERS):
        found["memory_peers"] = list(tree.names(MEMORY_PEERS)[:LIMIT_PEERS])
    if tree.live:
        found["caches"] = caches(os.environ, tree.text(MOUNTS, MOUNTS_BYTES))
    return found


def caches(environment: Mapping[str, str], mounts: Raw) -> list[Raw]:
    """Where CUDA, Triton and PyTorch's Inductor keep what they compiled for this user.

    No folder is opened: a home on a dead server must not block anything.
    """
    home = environment.get("HOME", "")
    triton_home = environment.get("TRITON_HOME") or home
    places = [
        ("Triton", "TRITON_CACHE_DIR", f"{triton_home}/.triton/cache" if triton_home else ""),
        ("Inductor", "TORCHINDUCTOR_CACHE_DIR", f"{_temporary()}/torchinductor_{_user()}"),
    ]
    if environment.get("CUDA_CACHE_DISABLE") != "1":
        places.insert(0, ("CUDA", "CUDA_CACHE_PATH", f"{home}/.nv/ComputeCache" if home else ""))
    table = mounted(mounts if isinstance(mounts, str) else "")
    found: list[Raw] = []
    for name, variable, default in places:
        named = environment.get(variable)
        path = named or default
        if path.startswith("/"):
            found.append(
                {
                    "name": name,
                    "path": clean(path[:400]),
                    "variable": variable if named else None,
                    "filesystem": filesystem(path, table),
                }
            )
    return found


def mounted(text: str) -> dict[str, str]:
    """Mount point -> type of file system, of a mountinfo (proc_pid_mountinfo(5))."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        head, sign, tail = line.partition(" - ")
        fields, after = head.split(" "), tail.split(" ")
        if sign and len(fields) > 4 and after[0]:
            place = _ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), fields[4])
            found[place] = after[0][:40]  # a later mount hides an earlier one
    return found


def filesystem(path: str, table: Mapping[str, str]) -> str | None:
    """The type of file system at a path, or of the nearest mount point above; None: not known."""
    place = os.path.normpath(path)
    while True:
        if place in table:
            return table[place]
        if place in ("/", "//", ""):
            return None
        place = os.path.dirname(place)


def cpu_governors(raw: Raw, files: FileAnswers) -> tuple[tuple[str, int], ...] | None:
    """Governors and how many CPUs each has, the most frequent first."""
    if not isinstance(raw, dict) or not isinstance(raw.get("governors"), dict):
        files.gap("cpu_governors", files.absent)
        return None
    found: Counter[str] = Counter()
    for answer in part(raw, "governors").values():
        pair = words(answer)
        if len(pair) == 2 and re.fullmatch(r"\w{1,40}", pair[0]):
            found[pair[0]] += len(pair[1].split())
    return tuple(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def cpu_frequency_driver(raw: Raw, files: FileAnswers) -> str | None:
    """The driver that scales the CPUs' clocks."""
    answer = FileAnswers(raw, files.absent)
    word = answer.text("frequency_driver")
    if word is not None and re.fullmatch(r"[\w-]{1,40}", word):
        return word
    files.gap("cpu_frequency_driver", files.absent if word is None else "no word")
    return None


def memory_peers(raw: Raw, files: FileAnswers) -> tuple[str, ...] | None:
    """Clients that registered with the kernel's peer memory."""
    found = under(raw, "memory_peers")
    if not isinstance(found, list):
        files.gap("memory_peers", files.absent)
        return None
    return tuple(name[:80] for name in words(found))


def open_files_limit(files: FileAnswers) -> int | None:
    """The soft limit of open files of this process."""
    text = files.text("proc/self/limits")
    match = _OPEN_FILES.search(text or "")
    if match is None:
        files.gap("open_files_limit", "/proc/self/limits does not say" if text else files.absent)
        return None
    value = whole(match.group(1))
    if value is None:
        said = "unlimited" if match.group(1) == "unlimited" else f"no number: {match.group(1)[:40]}"
        files.gap("open_files_limit", said)
    return value


def compile_caches(raw: Raw, absent: str) -> tuple[CacheFolder, ...]:
    """The caches of compiled kernels."""
    found: list[CacheFolder] = []
    for entry in items_of(under(raw, "caches"))[:LIMIT_CACHES]:
        fields = FileAnswers(entry, absent)
        name, path = fields.text("name"), fields.text("path")
        if name and path:
            kind = fields.text("filesystem", "filesystem")
            variable = fields.text("variable")
            found.append(
                CacheFolder(
                    name=name[:40],
                    path=path[:400],
                    variable=variable,
                    filesystem=kind,
                    gaps=fields.gaps,
                )
            )
    return tuple(found)


def _governors(tree: Tree) -> dict[str, Raw]:
    found: dict[str, Raw] = {}
    policies = [name for name in tree.names(POLICIES) if _POLICY.fullmatch(name)]
    for name in policies[:LIMIT_POLICIES]:
        governor = tree.text(f"{POLICIES}/{name}/scaling_governor", 64)
        cpus = tree.text(f"{POLICIES}/{name}/affected_cpus", 16384)
        if isinstance(governor, str) and isinstance(cpus, str):
            found[name] = [governor, cpus]
    return found


def _temporary() -> str:
    """The folder that tempfile.gettempdir would name, which writes a file there to find out."""
    named = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    for folder in (*named, "/tmp", "/var/tmp", "/usr/tmp"):
        if folder and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
            return os.path.abspath(folder).rstrip("/")
    return os.getcwd()


def _user() -> str:
    try:
        return re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    except (KeyError, OSError):
        return str(os.getuid())
