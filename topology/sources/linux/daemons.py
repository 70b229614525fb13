"""Daemons that serve the GPUs, by the names of their processes, and the IMEX channels."""

from __future__ import annotations

import os

from ...model.part import Raw
from ..files.answers import FileAnswers
from ..files.tree import Tree
from . import containers

FABRIC_MANAGER = "nv-fabricmanage"
"""The kernel cuts a process's name to 15 characters."""
MPS = "nvidia-cuda-mps"
"""nvidia-cuda-mps-control and nvidia-cuda-mps-server, both cut."""
FABRIC_MANAGER_BINARIES = ("usr/bin/nv-fabricmanager", "usr/local/bin/nv-fabricmanager")
IMEX_CHANNELS = "dev/nvidia-caps-imex-channels"
LIMIT_PROCESSES = 50_000
LIMIT_CHANNELS = 4096
"""The driver makes 2048 by default."""
TOO_MANY = "too many processes to look through"
IN_CONTAINER = "the host's processes are hidden from this container"
HIDDEN = "other users' processes are hidden here (/proc is mounted with hidepid)"


def read(tree: Tree, container: Raw) -> dict[str, Raw]:
    """Look for processes: {"fabric_manager": word, "mps_daemon": bool}, each or {"error": why}.

    Their absence is only reported where all processes can be seen.
    """
    names = {FABRIC_MANAGER: False, MPS: False}
    blind: str | None = None
    for number, pid in enumerate(tree.names("proc")):
        if number > LIMIT_PROCESSES:
            blind = TOO_MANY
            break
        if pid.isdecimal():
            name = tree.text(f"proc/{pid}/comm", 64)
            if isinstance(name, str) and name in names:
                names[name] = True
    inside = containers.parse(container, tree.absent)
    if inside is not None and inside.kind is not None:
        blind = IN_CONTAINER
    elif not isinstance(tree.text("proc/1/comm", 64), str):
        blind = blind or HIDDEN
    manager: Raw = "running"
    if not names[FABRIC_MANAGER]:
        installed = any(tree.exists(path) for path in FABRIC_MANAGER_BINARIES)
        manager = {"error": blind} if blind else "installed" if installed else "absent"
    unseen = blind is not None and not names[MPS]
    return {
        "fabric_manager": manager,
        "mps_daemon": {"error": blind} if unseen else names[MPS],
    }


def imex_channels(tree: Tree) -> bool:
    """Whether a channel of IMEX, which joins the NVLink domains of several hosts, can be opened."""
    return any(
        name.startswith("channel") and os.access(f"/{IMEX_CHANNELS}/{name}", os.R_OK | os.W_OK)
        for name in tree.names(IMEX_CHANNELS)[:LIMIT_CHANNELS]
    )


def flag(raw: Raw, fields: FileAnswers, name: str) -> bool | None:
    """A truth value from an answer; None, with a gap, for anything else."""
    value = raw.get(name) if isinstance(raw, dict) else None
    if isinstance(value, bool):
        return value
    why = value.get("error") if isinstance(value, dict) else None
    fields.gap(name, why if isinstance(why, str) else fields.absent)
    return None
