"""The host from /proc and /sys: CPUs, NUMA, memory, kernel, modules, container, device nodes.

The raw answer, every key but "absent" optional:

- "absent": why a missing text is missing
- "files": {path without leading slash: text or {"error": why}} for the files in STATIC and MOVING;
  of /proc/cpuinfo only the first CPU
- "sockets": [{"socket": "0", "cpus": "0-31", "siblings": "0,32"}], siblings = threads of one core
- "numa": {"0": {"cpulist", "distance", "meminfo"}}, texts as in sysfs
- "modules": {name: version or ""}, only those in MODULES
- "cmdline": the listed arguments of the kernel, a list
- "device_nodes", "nvidia_gpus": as device_nodes.read and read_gpus give them
- "asked_as_root": whether root asks
- "fabric_manager": "running", "installed", "absent" or {"error": why}
- "mps_daemon": whether a daemon of CUDA MPS runs, or {"error": why}
- "topology_files": paths of topology XML, as topology_files.read gives them
- "imex_channels": whether a channel of IMEX may be opened
- "container": as containers.read gives it
- "shm": {"total", "free"} of /dev/shm in bytes
- "stat": {"before", "now"}: first lines of /proc/stat
- "governors", "memory_peers", "caches": as linux/settings.py has them
"""

from __future__ import annotations

import os
from collections.abc import Callable

from ...model.part import Raw
from ...model.source import Source
from ..files.tree import Tree, answers, live_tree
from . import containers, daemons, device_nodes, processors, settings, topology_files
from .host_facts import flags, parse

STATIC = (
    "etc/hostname",
    "etc/os-release",
    "proc/driver/nvidia/params",
    "proc/driver/nvidia/version",
    "proc/self/limits",
    "proc/sys/kernel/arch",
    "proc/sys/kernel/hostname",
    "proc/sys/kernel/numa_balancing",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/random/boot_id",
    "proc/version",
    "sys/class/dmi/id/product_name",
    "sys/class/dmi/id/sys_vendor",
    "sys/hypervisor/type",
)
MOVING = ("proc/loadavg", "proc/meminfo")
CPUINFO = "proc/cpuinfo"
CPUINFO_BYTES = 8192
"""Enough for the first CPU; the whole file of 256 CPUs has 400 KB and takes the kernel long."""
MODULES = (
    "amdgpu",
    "bnxt_re",
    "efa",
    "ena",
    "gdrdrv",
    "i915",
    "ib_core",
    "ib_peer_mem",
    "ib_uverbs",
    "irdma",
    "knem",
    "mlx5_core",
    "mlx5_ib",
    "nouveau",
    "nv_peer_mem",
    "nvidia",
    "nvidia_drm",
    "nvidia_fs",
    "nvidia_modeset",
    "nvidia_peermem",
    "nvidia_uvm",
    "vfio_pci",
    "xe",
    "xpmem",
)
FULL_READS = 12
"""Files that hardly change are read once in so many reads, which is once a minute."""


class HostReader:
    """Reads the moving files each time and the rest once a minute."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._static: dict[str, Raw] = {}
        self._files: dict[str, Raw] = {}
        self._stat: str | None = None
        self._reads = 0

    def __call__(self) -> Raw:
        """Ask once."""
        tree = self._tree
        if self._reads % FULL_READS == 0:
            self._files = answers(tree, "", STATIC)
            cpuinfo = tree.text(CPUINFO, CPUINFO_BYTES)
            if isinstance(cpuinfo, str):
                self._files[CPUINFO] = cpuinfo.split("\n\n", 1)[0]
            self._static = _static(tree)
        self._reads += 1
        stat = tree.text("proc/stat", 512)
        now = stat.partition("\n")[0] if isinstance(stat, str) else None
        before, self._stat = self._stat, now
        return self._static | {
            "absent": tree.absent,
            "files": self._files | answers(tree, "", MOVING),
            "stat": {"before": before, "now": now},
            "shm": _shm() if tree.live else None,
        }


def read(tree: Tree) -> Raw:
    """Read a whole tree once."""
    return HostReader(tree)()


def _static(tree: Tree) -> dict[str, Raw]:
    found: dict[str, Raw] = {
        "sockets": processors.read_sockets(tree),
        "numa": processors.read_nodes(tree),
        **settings.read(tree),
        "topology_files": topology_files.read(tree),
    }
    modules = tree.text("proc/modules", 1024 * 1024)
    if isinstance(modules, str):
        loaded = {line.partition(" ")[0] for line in modules.splitlines()}
        found["modules"] = {
            name: answers(tree, f"sys/module/{name}", ("version",)).get("version", "")
            for name in MODULES
            if name in loaded
        }
    cmdline = tree.text("proc/cmdline")
    if isinstance(cmdline, str):
        found["cmdline"] = flags(cmdline)
    elif cmdline.kind != "absent":
        found["cmdline"] = {"error": cmdline.why}
    if tree.live:
        found["container"] = containers.read(tree, containers.live_environment())
        found["device_nodes"] = device_nodes.read(tree)
        found["nvidia_gpus"] = device_nodes.read_gpus(tree)
        found["asked_as_root"] = os.geteuid() == 0
        found["imex_channels"] = daemons.imex_channels(tree)
        found |= daemons.read(tree, found["container"])
    elif tree.exists(containers.FIRST_CGROUP):
        found["container"] = containers.read(tree)
    return found


def _shm() -> Raw:
    try:
        status = os.statvfs("/dev/shm")
    except OSError:
        return None
    return {
        "total": status.f_blocks * status.f_frsize,
        "free": status.f_bavail * status.f_frsize,
    }


def _reader() -> Callable[[], Raw]:
    return HostReader(live_tree())


SOURCE = Source(
    id="host", interval_seconds=5.0, deadline_seconds=3.0, reader=_reader, opening=True, parse=parse
)
