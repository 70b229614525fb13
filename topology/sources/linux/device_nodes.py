"""Device nodes of the GPUs: which exist, which this process may open, and who owns them.

A batch system, systemd's DeviceAllow or a container hides GPUs from the driver's library by a
device cgroup; /dev, /sys and /proc still show them. access(2) distinguishes that from file
permissions: EPERM comes from the cgroup, EACCES from the permissions (Linux fs/namei.c,
inode_permission, checks the permissions first, then the cgroup). No node is opened, because that
would wake a driver.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Callable

from ...model.part import Raw
from ...model.surroundings import DriverGpu
from ..files.answers import FileAnswers, part, under, whole
from ..files.tree import Tree, clean

NO_PERMISSION = " (no permission)"
KEPT_BACK = " (kept back by a cgroup)"
GPUS = "proc/driver/nvidia/gpus"
"""A folder for each GPU that the NVIDIA module drives, by PCI address; no cgroup hides them."""
_LINES = ("Device Minor", "GPU Excluded")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_MOST = 256
_READ_AND_WRITE = os.R_OK | os.W_OK


def refusal(path: str) -> int:
    """Errno of access(2), 0 where access is granted; os.access does not return the number."""
    try:
        if os.access(path, _READ_AND_WRITE):
            return 0
        library = ctypes.CDLL(None, use_errno=True)
        refused = library.access(os.fsencode(path), _READ_AND_WRITE)
    except (OSError, AttributeError, ValueError):
        return errno.EACCES
    return ctypes.get_errno() if refused else 0


def read(tree: Tree, refusal: Callable[[str], int] = refusal) -> list[Raw]:
    """List [path, True | False | "cgroup"]: whether it may be opened, and if not, why."""
    names = [name for name in tree.names("dev") if name.startswith("nvidia") or name == "kfd"]
    names += [f"dri/{name}" for name in tree.names("dev/dri") if name.startswith("renderD")]
    return [
        [f"/dev/{name}", _verdict(refusal(f"/dev/{name}"))]
        for name in names
        if not os.path.isdir(f"/dev/{name}")
    ]


def _verdict(code: int) -> Raw:
    return code == 0 or ("cgroup" if code == errno.EPERM else False)


def parse(raw: Raw, files: FileAnswers) -> tuple[str, ...] | None:
    """The nodes by path; one that may not be opened ends in NO_PERMISSION or KEPT_BACK."""
    nodes = under(raw, "device_nodes")
    if not isinstance(nodes, list):
        files.gap("device_nodes", files.absent)
        return None
    return tuple(
        clean(node[0][:200])
        + (KEPT_BACK if node[1] == "cgroup" else "" if node[1] else NO_PERMISSION)
        for node in nodes
        if isinstance(node, list) and len(node) == 2 and isinstance(node[0], str)
    )


def read_gpus(tree: Tree) -> dict[str, Raw]:
    """Two lines of each GPU's `information`, {address: {"Device Minor": "3"}}; no UUID is kept."""
    found: dict[str, Raw] = {}
    for address in tree.names(GPUS)[:_MOST]:
        text = tree.text(f"{GPUS}/{address}/information", 4096)
        if isinstance(text, str):
            pairs = [line.partition(":")[::2] for line in text.splitlines()]
            lines = {name.strip(): value.strip()[:40] for name, value in pairs}
            found[address] = {name: lines[name] for name in _LINES if name in lines}
    return found


def parse_gpus(raw: Raw, files: FileAnswers) -> tuple[DriverGpu, ...] | None:
    """The GPUs that the NVIDIA module drives; None where the module's folder was not read."""
    table = part(raw, "nvidia_gpus")
    if not table:
        files.gap("nvidia_gpus", files.absent)
        return None
    found = []
    for name, lines in list(table.items())[:_MOST]:
        address = name.lower()
        if not _ADDRESS.fullmatch(address):
            continue
        own = FileAnswers(lines, files.absent)
        excluded = {"Yes": True, "No": False}.get(own.text("GPU Excluded", "excluded") or "")
        minor = whole(own.text("Device Minor", "minor"))
        known = minor if minor is not None and 0 <= minor < 4096 else None
        found.append(DriverGpu(address=address, minor=known, excluded=excluded, gaps=own.gaps))
    return tuple(found)
