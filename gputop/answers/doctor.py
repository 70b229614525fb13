"""What gputop found on this machine and what not, for a bug report."""

from __future__ import annotations

import getpass
import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import metadata
from typing import Any

import msgspec

from gputop import DISTRIBUTION, __version__
from gputop.answers.plugins import FoundPlugin, line, plugins
from gputop.answers.question import Answer, Question, Request
from gputop.installation import machine, namesake
from gputop.installation.machine import (
    DeviceFile,
    FoundLibrary,
    FoundNccl,
    FoundPython,
    JobNccl,
    ProbedNccl,
)
from gputop.reading import settle
from gputop.terminal.settings import of_user
from gputop.topology.hardware.strangers import counted
from gputop.topology.model.page import Column, Page, Table
from gputop.topology.model.redact import Redactor
from gputop.topology.model.snapshot import NodeSnapshot, ProblemKind
from gputop.topology.model.surroundings import Host, Software
from gputop.topology.nccl.followed import followed
from gputop.topology.sources.live import LiveFeed

PLUGINS = ("NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "LD_PRELOAD")
"""Variables that bring a job another library."""
BEHIND = {"driver": "gpus", "name": "program", "plugins": "program", "settings": "terminal"}
"""Answers that stand at the end of another's line."""


class DoctorRequest(Request, frozen=True):
    """Say what gputop found on this machine: drivers, libraries, Pythons, permissions.

    Ten lines for a bug report, without host names, user names or your paths.
    """


class DoctorAnswer(Answer, frozen=True, kw_only=True, tag="gputop.doctor/1"):
    """The lines for a bug report, and what they are made of."""

    answers: dict[str, str]
    """One line for each subject, by its name."""
    libraries: tuple[FoundLibrary, ...]
    nccl: tuple[FoundNccl, ...]
    probed_nccl: ProbedNccl | None
    job_nccl: tuple[JobNccl, ...]
    pythons: tuple[FoundPython, ...]
    followed: str
    """Which library predictions here follow, and why."""
    devices: tuple[DeviceFile, ...]
    plugins: tuple[FoundPlugin, ...]


def answer(request: DoctorRequest) -> DoctorAnswer:
    """Look at this machine; what identifies it or its user is replaced."""
    snapshot = settle(LiveFeed(version=__version__, thorough=True))
    looked_at, libraries, devices = machine.interpreters(), machine.libraries(), machine.devices()
    pythons = tuple(machine.python_of(python) for python in looked_at)
    nccl, probed = machine.nccl_libraries(pythons), machine.probed_nccl(looked_at)
    job, added = machine.job_nccl(looked_at), plugins()
    follows = followed(snapshot.machine)
    lines = {
        "program": _program(),
        "system": _system(snapshot),
        "gpus": _gpus(snapshot),
        "driver": _driver(snapshot),
        "libraries": _libraries(libraries),
        "nccl": f"{_nccl(nccl, probed)}; {follows}",
        "jobs": _jobs(job, nccl),
        "torch": _torch(pythons),
        "devices": _devices(devices),
        "terminal": _terminal(),
        "settings": of_user().line,
        "name": namesake.other_gputop() or "no other distribution is called gputop here",
        "plugins": line(added),
        "unread": _unread(snapshot),
    }
    found = DoctorAnswer(
        answers=lines,
        libraries=libraries,
        nccl=nccl,
        probed_nccl=probed,
        job_nccl=job,
        pythons=pythons,
        followed=follows,
        devices=devices,
        plugins=added,
    )
    return msgspec.convert(_hidden(msgspec.to_builtins(found), _hiding()), DoctorAnswer)


def page(answer: DoctorAnswer) -> Page:
    """One line for each subject."""
    rows = []
    for subject, text in answer.answers.items():
        if subject not in BEHIND:
            behind = [answer.answers[name] for name, line in BEHIND.items() if line == subject]
            rows.append((subject, "; ".join([text, *behind])))
    return Page(title="doctor", blocks=(Table((Column(""), Column("")), tuple(rows), indent=0),))


def _program() -> str:
    how = "a pex" if os.environ.get("PEX") else "installed"
    if os.path.isfile(os.path.join(os.path.dirname(namesake.HERE), "..", "pyproject.toml")):
        how = "a checkout"
    return (
        f"gputop {__version__} ({DISTRIBUTION}, {how}), Python {platform.python_version()}, "
        f"textual {_version('textual')}"
    )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"


def _system(snapshot: NodeSnapshot) -> str:
    host = snapshot.machine.host or Host()
    where = "in a container" if host.container is not None else host.hypervisor or ""
    parts = (host.os_name, host.kernel and f"kernel {host.kernel}", platform.machine(), where)
    return ", ".join(part for part in parts if part)


def _gpus(snapshot: NodeSnapshot) -> str:
    return counted(snapshot.machine.gpus) if snapshot.machine.gpus else "none seen"


def _driver(snapshot: NodeSnapshot) -> str:
    known = snapshot.machine.software or Software()
    named = {
        "NVIDIA": known.nvidia_driver,
        "CUDA": known.cuda_driver,
        "amdgpu": known.amd_driver,
        "ROCm": known.rocm,
    }
    return ", ".join(f"{name} {text}" for name, text in named.items() if text) or "no driver known"


def _libraries(found: Iterable[FoundLibrary]) -> str:
    return ", ".join(f"{each.name} {each.why_not or each.version or 'found'}" for each in found)


def _nccl(found: tuple[FoundNccl, ...], probed: ProbedNccl | None) -> str:
    """What lies on disk, and which of it probes load without torch."""
    named = [f"{each.version or 'unknown version'} ({each.path})" for each in found]
    if probed is not None:
        named.append(f"probes load {probed.path}, {probed.how_found}")
    return ", ".join(named) or "no libnccl.so.2 where it usually is"


def _jobs(job: tuple[JobNccl, ...], nccl: tuple[FoundNccl, ...]) -> str:
    """What a job loads, why, and what might be meant instead."""
    told = [
        f"under {each.python} NCCL {each.version or 'of unknown version'} is loaded from "
        f"{each.path} ({each.because})"
        for each in job
    ]
    told += [
        f"{' and '.join(each.packages)} lie over each other at {each.path}"
        for each in nccl
        if len(each.packages) > 1
    ]
    plugins = [f"{name}={os.environ[name]}" for name in PLUGINS if os.environ.get(name)]
    return "; ".join([*told, *plugins]) or "no torch here asks for a libnccl.so.2"


def _torch(pythons: tuple[FoundPython, ...]) -> str:
    with_torch = [
        f"{each.torch}, {each.build}, Python {each.version} ({each.found}: {each.path})"
        for each in pythons
        if each.torch is not None
    ]
    if with_torch:
        return "; ".join(with_torch)
    if len(pythons) == 1:
        return "not in this Python; neither the active environment nor PATH has another one"
    return f"in none of {len(pythons)} Pythons: this one, the active environment, PATH"


def _devices(found: tuple[DeviceFile, ...]) -> str:
    if not found:
        return "no /dev/nvidia* and no /dev/kfd"
    denied = [each.path for each in found if each.usable is False]
    silent = [each.path for each in found if each.usable is None]
    if not denied and not silent:
        return f"{len(found)} files, all may be opened: {found[0].path} to {found[-1].path}"
    told = {"no permission": denied, "no answer to being opened": silent}
    return "; ".join(f"{what}: {', '.join(paths)}" for what, paths in told.items() if paths)


def _unread(snapshot: NodeSnapshot) -> str:
    """What could not be read, each reason once; with GPUs not what other vendors lack."""
    reasons = dict.fromkeys(
        each.text
        for each in snapshot.problems
        if each.kind is not ProblemKind.ABSENT or not snapshot.machine.gpus
    )
    return "; ".join(reasons) or "nothing"


def _terminal() -> str:
    shown = [
        f"{name}={os.environ[name]}" for name in ("TERM", "COLORTERM", "LANG") if name in os.environ
    ]
    size = shutil.get_terminal_size()
    where = f"{size.columns}x{size.lines}" if sys.stdout.isatty() else "stdout is no terminal"
    return ", ".join([where, *shown])


def _hidden(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {name: _hidden(member, hide) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(member, hide) for member in value]
    return hide(value) if isinstance(value, str) else value


def _hiding() -> Callable[[str], str]:
    """A function that replaces this host, this user and paths that not every machine has."""
    redactor = Redactor()
    redactor.stand_in("host", socket.gethostname())
    with suppress(KeyError, OSError):  # a user without a name
        redactor.stand_in("user", getpass.getuser())
    return redactor.text


QUESTION = Question(name="doctor", request=DoctorRequest, answer=answer, page=page)
