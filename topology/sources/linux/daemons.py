"""Daemons that serve the GPUs, by the names of their processes, and the IMEX channels."""

from __future__ import annotations

import os

from ...model.part import Raw
from ..files.answers import FileAnswers, under
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


def _blind(tree: Tree, container: Raw, running: int) -> str | None:
    """Why not all processes can be seen; None where they can."""
    inside = containers.parse(container, tree.absent)
    if inside is not None and inside.kind is not None:
        return IN_CONTAINER
    if running > LIMIT_PROCESSES + 1:
        return TOO_MANY
    return None if isinstance(tree.text("proc/1/comm", 64), str) else HIDDEN


def read(tree: Tree, container: Raw) -> dict[str, Raw]:
    """Look for processes: {"fabric_manager": word, "mps_daemon": bool}, each or {"error": why}.

    Their absence is only reported where all processes can be seen.
    """
    running = tree.names("proc")
    seen = {
        tree.text(f"proc/{pid}/comm", 64)
        for pid in running[: LIMIT_PROCESSES + 1]
        if pid.isdecimal()
    }
    blind = _blind(tree, container, len(running))
    manager: Raw = "running"
    if FABRIC_MANAGER not in seen:
        installed = any(map(tree.exists, FABRIC_MANAGER_BINARIES))
        manager = {"error": blind} if blind else "installed" if installed else "absent"
    unseen = blind is not None and MPS not in seen
    return {
        "fabric_manager": manager,
        "mps_daemon": {"error": blind} if unseen else MPS in seen,
    }


def imex_channels(tree: Tree) -> bool:
    """Whether a channel of IMEX, which joins the NVLink domains of several hosts, can be opened."""
    return any(
        name.startswith("channel") and os.access(f"/{IMEX_CHANNELS}/{name}", os.R_OK | os.W_OK)
        for name in tree.names(IMEX_CHANNELS)[:LIMIT_CHANNELS]
    )


def flag(raw: Raw, fields: FileAnswers, name: str) -> bool | None:
    """A truth value from an answer; None, with a gap, for anything else."""
    value = under(raw, name)
    if isinstance(value, bool):
        return value
    why = under(value, "error")
    fields.gap(name, why if isinstance(why, str) else fields.absent)
    return None
