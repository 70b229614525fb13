"""The environment of a rank: that of the job, with changes that the probe needs."""

import os
import re
from collections.abc import Mapping
from typing import Any

from ..protocol.spec import ProbeStopped
from ..protocol.status import Status

OWN = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,ENV,GRAPH,P2P,SHM,NET,TUNING",
}
"""Set for a probe that needs the log, whatever the job sets; NCCL_DEBUG_FILE and torch's dump point
into the probe's folder too. No decision of the library depends on them."""
OWN_QUIET = {"NCCL_DEBUG": "WARN"}
"""Set for the other probes, because a log of every call would slow the calls down."""

_SET_ASIDE = {
    "NCCL_COMM_ID": "it names the meeting point of the job, which may be running",
    "NCCL_TOPO_DUMP_FILE": "it would write over a file of the job",
    "NCCL_GRAPH_DUMP_FILE": "it would write over a file of the job",
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "it would take a pipe away from the job",
}
_ASIDE_QUIET = {
    "NCCL_DEBUG_SUBSYS": "it would slow the calls down",
    "TORCH_DISTRIBUTED_DEBUG": "it would slow the calls down",
}
"""Variable -> why a rank runs without it; no decision depends on any of them."""

_AT_START = ("LD_", "PYTHON")
"""Beginnings of variables that the loader and Python read once."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")
_VALUE_LIMIT = 4096
_MOST_CHANGES = 200
_LIBRARY = ("NCCL_", "RCCL_")
_SHOWN_LIMIT = 200


def changes_of(params: Mapping[str, Any]) -> "dict[str, str]":
    """The variables that the request sets (`set`, `loopback`); ProbeStopped if invalid."""
    wanted = params.get("set", {})
    if not isinstance(wanted, dict) or len(wanted) > _MOST_CHANGES:
        raise ProbeStopped(Status.REFUSED, "What is to be set is not a list of names and values.")
    for name, value in wanted.items():
        if _NAME.fullmatch(name) is None:
            raise ProbeStopped(Status.REFUSED, f"{name!r:.60} is no name of a variable.")
        if name.startswith(_AT_START):
            text = f"{name} counts when a process starts, and ranks are forked: set it for gputop."
            raise ProbeStopped(Status.REFUSED, text)
        if not isinstance(value, str) or "\0" in value or len(value) > _VALUE_LIMIT:
            raise ProbeStopped(Status.REFUSED, f"The value of {name} cannot be set.")
    changes = dict(wanted)
    if params.get("loopback") is True:
        changes["NCCL_SOCKET_IFNAME"] = "lo"
    return changes


def log_path(folder: str, rank: int) -> str:
    """Path of a rank's debug log."""
    return os.path.join(folder, f"rank{rank}.log")


def _own(debug_log: bool) -> "dict[str, str]":
    return OWN if debug_log else OWN_QUIET


def _aside(debug_log: bool) -> "dict[str, str]":
    return _SET_ASIDE if debug_log else {**_SET_ASIDE, **_ASIDE_QUIET}


def rank_environment(
    inherited: Mapping[str, str],
    changes: Mapping[str, str],
    folder: str,
    rank: int,
    *,
    cpu: bool,
    debug_log: bool = True,
) -> "dict[str, str]":
    """All variables of one rank."""
    environment = dict(inherited)
    if cpu:
        # gloo in the self-test listens on this interface; NCCL keeps that of the job.
        environment["GLOO_SOCKET_IFNAME"] = "lo"
    environment.update(changes)
    for name in _aside(debug_log):
        environment.pop(name, None)
    environment.update(_own(debug_log))
    environment["NCCL_DEBUG_FILE"] = log_path(folder, rank)
    environment["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] = os.path.join(folder, "torch_trace_rank_")
    # torch creates this folder when it builds a path in it; the default is in /tmp.
    environment.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(folder, "inductor"))
    return environment


def what_was_done(
    inherited: Mapping[str, str],
    changes: Mapping[str, str],
    *,
    loopback: bool,
    debug_log: bool = True,
) -> "tuple[str, dict[str, Any]]":
    """What was set, by whom, and instead of what: as a sentence and as data.

    `variables`: those of the library that the ranks got from the job and the request.
    """
    wanted = {**inherited, **changes}
    own = {**_own(debug_log), "NCCL_DEBUG_FILE": "a private file"}
    replaced = {name: wanted[name] for name in own if name in wanted}
    aside = {name: wanted[name] for name in _aside(debug_log) if name in wanted}
    said = []
    named = [f"{name}={value}" for name, value in changes.items() if name not in {*own, *aside}]
    if loopback:
        said.append("The library meets on the loopback interface, not on the job's.")
    if named:
        said.append(f"Set for this run: {', '.join(named)}.")
    if replaced:
        old = ", ".join(f"{name}={value}" for name, value in replaced.items())
        said.append(f"The probe keeps its own debug settings in place of {old}.")
    said += [f"Left out: {name}, as {_aside(debug_log)[name]}." for name in aside]
    details = {
        "own": own,
        "set": dict(changes),
        "replaced": replaced,
        "left_out": aside,
        "loopback": loopback,
        "variables": {
            name: value[:_SHOWN_LIMIT]
            for name, value in sorted(wanted.items())
            if name.startswith(_LIBRARY) and name not in {*own, *aside}
        },
    }
    return " ".join(said), details
