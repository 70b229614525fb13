"""Signs of a container around this process, and the limits that its cgroup sets."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from zlib import crc32

from ...model.part import Raw
from ...model.surroundings import Container, ContainerKind
from ..files.answers import FileAnswers, items_of, whole
from ..files.tree import Tree, answers

SIGNS = (".dockerenv", "run/.containerenv", ".singularity.d")
KUBERNETES = "KUBERNETES_SERVICE_HOST"
"""Set by the kubelet in every container that it starts."""
SYSTEMD = "run/systemd/container"
"""systemd writes the kind of container that it was started in here."""
MOUNTS = "proc/self/mounts"
_OWN_DEVICES = "tmpfs"
"""Type of a /dev that holds a choice of devices; the kernel's own one is a devtmpfs."""
FIRST_CGROUP = "proc/1/cgroup"
OWN_CGROUP = "proc/self/cgroup"

_KINDS = (
    (KUBERNETES, "kubernetes"),
    ("kubepods", "kubernetes"),
    ("run/.containerenv", "podman"),
    ("libpod", "podman"),
    (".dockerenv", "docker"),
    ("docker", "docker"),
    ("/lxc", "lxc"),
    ("systemd-nspawn", "systemd-nspawn"),
    (".singularity.d", "container"),
    ("containerd", "container"),
)
"""Signs of each kind of container, the most telling first."""
_JOBS = (
    ("slurm", re.compile(r"/job_(\d{1,18})(?:/step_(\d{1,9})(?![\w]))?")),
    ("pbs", re.compile(r"/(?:pbs\w*[./]\w+/jobid/|pbspro\.slice/pbspro-)(\d{1,18})")),
    ("lsf", re.compile(r"/lsf/[^/\n]{1,80}/job\.(\d{1,18})")),
)
"""Cgroups of batch systems: Slurm's task/cgroup, PBS Professional's hook, LSF."""
_UNIFIED = ("sys/fs/cgroup", "sys/fs/cgroup/unified")
_V1_FILES = {
    "memory": ("memory.limit_in_bytes",),
    "cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us"),
    "cpuset": ("cpuset.effective_cpus", "cpuset.cpus"),
}
T = TypeVar("T", int, float)
_MOUNTS_BYTES = 256 * 1024
_LIMIT_LEVELS = 16
_UNLIMITED = 1 << 60
"""cgroup v1 writes "no limit" as the largest multiple of the page size."""


def read(tree: Tree, environment: Mapping[str, str] | None = None) -> dict[str, Raw]:
    """Look for signs: {"signs": names, "systemd", "cgroup", "own": texts, "levels": [limits]}.

    "devices": the type of the file system on /dev.
    `environment`: the live process's own, which a recording does not have.
    """
    signs = [*filter(tree.exists, SIGNS)]
    if KUBERNETES in (environment or {}):
        signs.append(KUBERNETES)
    found: dict[str, Raw] = {"signs": signs, "levels": limits(tree)}
    for key, path in (("systemd", SYSTEMD), ("cgroup", FIRST_CGROUP), ("own", OWN_CGROUP)):
        answer = tree.text(path, 4096)
        if isinstance(answer, str):
            found[key] = answer
    mounts = tree.text(MOUNTS, _MOUNTS_BYTES)
    lines = [line.split() for line in mounts.splitlines()] if isinstance(mounts, str) else []
    # Of several file systems mounted at one place the last is on top.
    types = [words[2][:40] for words in lines if len(words) > 3 and words[1] == "/dev"]
    if types:
        found["devices"] = types[-1]
    return found


def live_environment() -> Mapping[str, str]:
    """The variables of this process."""
    return os.environ


def limits(tree: Tree, cgroup: str = OWN_CGROUP) -> list[Raw]:
    """The limits of the cgroup that this file names and of all cgroups above it, nearest first."""
    own = tree.text(cgroup, 8192)
    levels: list[Raw] = []
    for line in own.splitlines() if isinstance(own, str) else []:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if ".." in path.split("/"):
            continue
        if not controllers:
            for base in _UNIFIED:
                levels += [_unified(tree, folder) for folder in _upwards(base, path)]
        for name in controllers.split(","):
            if name in _V1_FILES:
                base = f"sys/fs/cgroup/{name}"
                levels += [_first_version(tree, folder, name) for folder in _upwards(base, path)]
    return [*filter(None, levels)]


def _upwards(base: str, path: str) -> list[str]:
    parts = [name for name in path.split("/") if name][:_LIMIT_LEVELS]
    return ["/".join([base, *parts[:depth]]) for depth in range(len(parts), -1, -1)]


def _unified(tree: Tree, folder: str) -> dict[str, Raw]:
    names = {"memory.max": "memory", "cpu.max": "cpu", "cpuset.cpus.effective": "cpuset"}
    found = {names[name]: text for name, text in answers(tree, folder, names).items()}
    return found | {"folder": folder} if found else found


def _first_version(tree: Tree, folder: str, name: str) -> dict[str, Raw]:
    found = [text for text in answers(tree, folder, _V1_FILES[name]).values() if text]
    if not found or not all(isinstance(text, str) for text in found):
        return {}
    return {name: " ".join(found) if name == "cpu" else found[0], "folder": folder}


def parse(raw: Raw, absent: str) -> Container | None:
    """The container this process is in; `kind` None when there is no sign of one."""
    if not isinstance(raw, dict):
        return None
    fields = FileAnswers(raw, absent)
    kind, evidence = _kind(raw, fields)
    memory_bytes, cpu_quota = narrowest(raw.get("levels"), fields)
    sets = [level.text("cpuset") for level in _levels(raw.get("levels"), absent)]
    return Container(
        kind=None if kind is None else ContainerKind(kind),
        evidence=evidence,
        memory_limit_bytes=memory_bytes,
        cpu_quota=cpu_quota,
        cpuset=next((value for value in sets if value), None),
        job=batch_job(fields.text("own") or ""),
        gaps=fields.gaps,
    )


def batch_job(cgroup: str) -> str | None:
    """The batch job that a cgroup's path names: "slurm 1234.0", "pbs 77", "lsf 5"."""
    for system, pattern in _JOBS:
        found = pattern.search(cgroup)
        if found:
            return f"{system} {'.'.join(number for number in found.groups() if number)}"
    return None


def narrowest(raw: Raw, fields: FileAnswers) -> tuple[int | None, float | None]:
    """The smallest memory limit and CPU quota in a list of levels; gaps are noted in `fields`."""
    levels = _levels(raw, fields.absent)
    memory = _least("memory_limit_bytes", fields, levels, "memory", _memory)
    return memory, _least("cpu_quota", fields, levels, "cpu", _quota)


def _least(
    field: str,
    fields: FileAnswers,
    levels: Sequence[FileAnswers],
    key: str,
    read: Callable[[str | None], T | None],
) -> T | None:
    known = [value for level in levels if (value := read(level.text(key))) is not None]
    if not known:
        there = any(key in level.raw for level in levels)
        fields.gap(field, "unlimited" if there else fields.absent)
    return min(known, default=None)


def groups(raw: Raw, fields: FileAnswers) -> tuple[str | None, str | None]:
    """Which levels set the smallest memory limit and CPU quota, each a few letters of its own.

    The path of a cgroup may name a user or a pod: only a checksum of it is kept.
    """
    levels = _levels(raw, fields.absent)
    memory = [(_memory(level.text("memory")), level) for level in levels]
    quotas = [(_quota(level.text("cpu")), level) for level in levels]
    return _group(memory), _group(quotas)


def throttled(tree: Tree, cgroup: str) -> dict[str, tuple[int, int]]:
    """Periods that each limited level ran so far, and in how many it was stopped (cpu.stat)."""
    found: dict[str, tuple[int, int]] = {}
    for level in limits(tree, cgroup):
        fields = FileAnswers(level, "")
        folder = fields.text("folder")
        if folder is None or _quota(fields.text("cpu")) is None:
            continue
        text = tree.text(f"{folder}/cpu.stat", 4096)
        lines = [line.split() for line in text.splitlines()] if isinstance(text, str) else []
        counts = {words[0]: whole(words[1]) for words in lines if len(words) == 2}
        periods, stopped = counts.get("nr_periods"), counts.get("nr_throttled")
        if periods is not None and stopped is not None:
            found[_letters(folder)] = periods, stopped
    return found


def _letters(folder: str) -> str:
    return f"{crc32(folder.encode()):08x}"


def _group(limits: Sequence[tuple[float | None, FileAnswers]]) -> str | None:
    known = [(value, level) for value, level in limits if value is not None]
    # Of equal limits the outermost one holds for most processes.
    level = min(reversed(known), key=lambda each: each[0], default=(0, None))[1]
    folder = None if level is None else level.text("folder")
    return None if folder is None else _letters(folder)


def _levels(raw: Raw, absent: str) -> list[FileAnswers]:
    return [FileAnswers(level, absent) for level in items_of(raw)]


def _kind(raw: Mapping[str, Raw], fields: FileAnswers) -> tuple[str | None, str | None]:
    said = fields.text("systemd")
    if said is not None and said.split():
        return said.split()[0][:40], f"/{SYSTEMD} says {said.split()[0][:40]}"
    signs = raw.get("signs")
    seen = [sign for sign in items_of(signs) if isinstance(sign, str)]
    first = fields.text("cgroup") or ""
    for sign, kind in _KINDS:
        if sign in seen:
            where = f"variable {sign}" if sign == KUBERNETES else f"/{sign} exists"
            return kind, where
        if sign not in SIGNS and sign in first:
            return kind, f"/{FIRST_CGROUP} names {sign.strip('/')}"
    if fields.text("devices") == _OWN_DEVICES:
        return "container", f"/{MOUNTS} shows a /dev of its own"
    return None, None


def _memory(text: str | None) -> int | None:
    value = whole(text)
    return value if value is not None and 0 <= value < _UNLIMITED else None


def _quota(text: str | None) -> float | None:
    """CPUs' worth of time from "quota period", both in microseconds."""
    words = (text or "").split()
    if len(words) != 2:
        return None
    quota, period = whole(words[0]), whole(words[1])
    if quota is None or period is None or quota <= 0 or period <= 0:
        return None
    return quota / period
