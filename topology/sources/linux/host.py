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
import re
from collections.abc import Callable, Mapping

from ...model.part import PartialNode, Raw
from ...model.readings import HostReading
from ...model.source import Source
from ...model.surroundings import Container, Host, Module
from ..files.answers import FileAnswers, absent_text, part, under, whole
from ..files.tree import Tree, Unread, answers, clean, live_tree
from . import containers, daemons, device_nodes, processors, settings
from .software_versions import module_version

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

# The raw answer of the source host becomes Host and HostReading.
FLAGS = re.compile(
    r"(iommu|intel_iommu|amd_iommu|iommu\.[\w.]+|pci|pcie_\w+|numa_balancing|numa|hugepages|hugepagesz"
    r"|default_hugepagesz|transparent_hugepage|nvidia[\w-]*\.\w+|amdgpu\.\w+|isolcpus|nohz_full"
    r"|mitigations)(=[\w,.:=+/@;^-]{0,200})?"
)
"""Kernel arguments that affect DMA, PCI, NUMA and the GPU drivers; no others are kept."""

_PARAMETER = re.compile(r"^(\w{1,60}): (.{0,2000})$", re.MULTILINE)
_REGISTRY = re.compile(r"p2p|bar1|peer|nvlink", re.IGNORECASE)
_DEFAULTS = {
    "NvLinkDisable": "0",
    "RmNvlinkBandwidthLinkCount": "0",
    "EnablePCIERelaxedOrderingMode": "0",
    "EnableResizableBar": "0",
    "GrdmaPciTopoCheckOverride": "0",
    "DmaRemapPeerMmio": "1",
    "CoherentGPUMemoryMode": "",
    "RmNvlinkBandwidth": "",
}
"""Parameters of the NVIDIA module that affect P2P, and their defaults in release 580."""
_COHERENT = ("aarch64", "ppc64le")
"""Architectures whose CPUs NVIDIA's GPUs share an address space with: Grace and Power9."""
_LOCKED = re.compile(r"^Max locked memory\s+(\w+)", re.MULTILINE)
_NAME = re.compile(r'^PRETTY_NAME="?([^"\n]{1,200})', re.MULTILINE)
_MEMORY = re.compile(r"^(MemTotal|MemAvailable):\s+(\d{1,15}) kB", re.MULTILINE)

# Topology XML for NCCL that clouds install on their machines, found by path.
#
# The raw answer: a list of paths with a leading slash. Where they lie: NCCL's own default is
# /var/run/nvidia-topologyd/virtualTopology.xml (src/graph/topo.cc); Azure's images have
# /opt/microsoft/*-topo.xml, AWS's plugin .../aws-ofi-nccl/xml/*.xml, Crusoe /etc/crusoe/nccl_topo.
FOLDERS = (
    ("var/run/nvidia-topologyd", "virtualTopology.xml"),
    ("opt/microsoft", "topo.xml"),
    ("opt/amazon/ofi-nccl/share/aws-ofi-nccl/xml", ".xml"),
    ("opt/aws-ofi-nccl/share/aws-ofi-nccl/xml", ".xml"),
    ("etc/crusoe/nccl_topo", ".xml"),
)
"""Folder, and how the file's name ends."""
LIMIT_FILES = 32
LIMIT_PATH = 300


def read_topology_files(tree: Tree) -> Raw:
    """List the files that exist; None where a copy holds none, which proves nothing."""
    found = [
        f"/{folder}/{name}"
        for folder, ending in FOLDERS
        for name in tree.names(folder)
        if name.endswith(ending) and tree.size(f"{folder}/{name}") is not None
    ]
    return found[:LIMIT_FILES] if found or tree.live else None


def topology_files(raw: Raw, fields: FileAnswers) -> tuple[str, ...] | None:
    """The paths; None, with a gap, where nothing was looked up."""
    value = under(raw, "topology_files")
    if not isinstance(value, list):
        fields.gap("topology_files", fields.absent)
        return None
    paths = (clean(path[:LIMIT_PATH]) for path in value[:LIMIT_FILES] if isinstance(path, str))
    return tuple(path for path in paths if path.startswith("/") and path.isprintable())


def parse(raw: Raw) -> PartialNode:
    """Turn the answer of the source host into the host and its moving figures."""
    absent = absent_text(raw)
    files = FileAnswers(part(raw, "files"), absent)
    return PartialNode(host=_host(raw, files, absent), host_reading=_reading(raw, absent))


def flags(cmdline: str) -> list[str]:
    """The listed arguments of a kernel command line, in order."""
    return [word for word in cmdline.split() if FLAGS.fullmatch(word)]


def _processor(files: FileAnswers, absent: str) -> processors.Processor:
    cpu = processors.processor(files.text("proc/cpuinfo"))
    for field, value in (
        ("cpu_vendor", cpu.vendor),
        ("cpu_model_name", cpu.name),
        ("cpu_family", cpu.family),
        ("cpu_model", cpu.model),
    ):
        if value is None:
            known = "proc/cpuinfo" in files.raw
            files.gap(field, "/proc/cpuinfo does not say" if known else absent)
    return cpu


def _hypervisor(
    files: FileAnswers, cpu: processors.Processor, dmi_vendor: str | None, dmi_product: str | None
) -> str | None:
    hypervisor_type = files.text("sys/hypervisor/type")
    hypervisor = processors.hypervisor(cpu, dmi_vendor, dmi_product, hypervisor_type)
    if hypervisor is None and cpu.virtual is None:
        files.gap("hypervisor", "these CPUs do not say whether there is one")
    return hypervisor


def _container(raw: Raw, files: FileAnswers, absent: str) -> Container | None:
    container = containers.parse(under(raw, "container"), absent)
    if container is None:
        files.gap("container", absent)
    return container


def _host(raw: Raw, files: FileAnswers, absent: str) -> Host:
    cpu = _processor(files, absent)
    dmi_vendor = files.text("sys/class/dmi/id/sys_vendor", "dmi_vendor")
    dmi_product = files.text("sys/class/dmi/id/product_name", "dmi_product")
    hypervisor = _hypervisor(files, cpu, dmi_vendor, dmi_product)
    architecture = files.text("proc/sys/kernel/arch") or cpu.architecture
    if architecture is None:
        files.gap("architecture", absent)
    driver = files.text("proc/driver/nvidia/version", "nvidia_module")
    container = _container(raw, files, absent)
    coherent = architecture in _COHERENT and driver is not None
    return Host(
        hostname=files.text("proc/sys/kernel/hostname") or files.text("etc/hostname", "hostname"),
        kernel=_kernel(files),
        os_name=_found(_NAME, files.text("etc/os-release", "os_name")),
        cpu_vendor=cpu.vendor,
        cpu_model_name=cpu.name,
        cpu_family=cpu.family,
        cpu_model=cpu.model,
        architecture=architecture,
        hypervisor=hypervisor,
        dmi_vendor=dmi_vendor,
        dmi_product=dmi_product,
        container=container,
        sockets=processors.sockets(under(raw, "sockets"), absent),
        numa=processors.nodes(raw, absent, coherent=coherent),
        memory_bytes=_memory(files, "memory_bytes", "MemTotal"),
        shm_bytes=_shared_memory(raw, files, "shm_bytes", "total"),
        memlock_bytes=_memlock(files),
        cmdline_flags=_cmdline(raw, files),
        numa_balancing=_balancing(files),
        modules=_modules(raw, files),
        nvidia_module=_module_kind(driver, files),
        nvidia_registry=_registry(files.text("proc/driver/nvidia/params", "nvidia_registry")),
        device_nodes=device_nodes.parse(raw, files),
        nvidia_gpus=device_nodes.parse_gpus(raw, files),
        asked_as_root=daemons.flag(raw, files, "asked_as_root"),
        nvidia_module_version=_module_version(files),
        imex_channels=daemons.flag(raw, files, "imex_channels"),
        mps_daemon=daemons.flag(raw, files, "mps_daemon"),
        topology_files=topology_files(raw, files),
        open_files_limit=settings.open_files_limit(files),
        cpu_governors=settings.cpu_governors(raw, files),
        cpu_frequency_driver=settings.cpu_frequency_driver(raw, files),
        memory_peers=settings.memory_peers(raw, files),
        compile_caches=settings.compile_caches(raw, absent),
        fabric_manager=_fabric_manager(raw, files),
        boot_id=files.text("proc/sys/kernel/random/boot_id", "boot_id"),
        gaps=files.gaps,
    )


def _found(pattern: re.Pattern[str], text: str | None) -> str | None:
    match = pattern.search(text or "")
    return match.group(1) if match else None


def _kernel(files: FileAnswers) -> str | None:
    release = files.text("proc/sys/kernel/osrelease")
    if release is not None:
        return release
    return _found(re.compile(r"^Linux version (\S{1,100})"), files.text("proc/version", "kernel"))


def _memory(files: FileAnswers, field: str, name: str) -> int | None:
    text = files.text("proc/meminfo", field)
    for found, kib in _MEMORY.findall(text or ""):
        if found == name:
            return int(kib) * 1024
    if text is not None:
        files.gap(field, f"/proc/meminfo has no {name}")
    return None


def _shared_memory(raw: Raw, fields: FileAnswers, field: str, key: str) -> int | None:
    value = part(raw, "shm").get(key)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return value
    fields.gap(field, fields.absent)
    return None


def _memlock(files: FileAnswers) -> int | None:
    text = files.text("proc/self/limits", "memlock_bytes")
    word = _found(_LOCKED, text)
    if word == "unlimited":
        files.gap("memlock_bytes", "unlimited")
        return None
    value = whole(word)
    if value is None and text is not None:
        files.gap("memlock_bytes", "/proc/self/limits does not say")
    return value


def _cmdline(raw: Raw, files: FileAnswers) -> tuple[str, ...] | None:
    words = under(raw, "cmdline")
    if isinstance(words, list):
        return tuple(word for word in words if isinstance(word, str) and FLAGS.fullmatch(word))
    reason = under(words, "error")
    files.gap("cmdline_flags", reason if isinstance(reason, str) else files.absent)
    return None


def _balancing(files: FileAnswers) -> bool | None:
    value = files.number("proc/sys/kernel/numa_balancing", "numa_balancing")
    return None if value is None else value != 0


def _modules(raw: Raw, files: FileAnswers) -> tuple[Module, ...]:
    if not isinstance(raw, dict) or not isinstance(raw.get("modules"), dict):
        files.gap("modules", files.absent)
        return ()
    found: list[Module] = []
    for name, version in sorted(part(raw, "modules").items()):
        fields = FileAnswers({"version": version or None}, "the module tells no version")
        text = fields.text("version", "version")
        found.append(Module(name=name[:80], version=text, gaps=fields.gaps))
    return tuple(found)


def _module_kind(version: str | None, files: FileAnswers) -> str | None:
    """NVIDIA's open module names itself "Open Kernel Module"."""
    if version is None:
        return None
    if "Open Kernel Module" in version:
        return "open"
    if "Kernel Module" in version:
        return "closed"
    files.gap("nvidia_module", f"unknown wording: {version[:80]!r}")
    return None


def _module_version(files: FileAnswers) -> str | None:
    text = files.text("proc/driver/nvidia/version", "nvidia_module_version")
    found = module_version(text)
    if text is not None and found is None:
        files.gap("nvidia_module_version", f"no version in {text[:60]!r}")
    return found


def _registry(params: str | None) -> tuple[str, ...]:
    found: list[str] = []
    for name, value in _PARAMETER.findall(params or ""):
        value = value.strip().strip('"')
        if name in ("RegistryDwords", "RegistryDwordsPerDevice"):
            found += [key.strip()[:200] for key in value.split(";") if _REGISTRY.search(key)]
        elif name in _DEFAULTS and value != _DEFAULTS[name]:
            found.append(f"NVreg_{name}={value[:200]}")
    return tuple(found)


def _fabric_manager(raw: Raw, files: FileAnswers) -> str | None:
    answers = FileAnswers(raw, files.absent)
    word = answers.text("fabric_manager", "fabric_manager")
    if word in ("running", "installed", "absent"):
        return word
    files.gap("fabric_manager", answers.gaps[0].why if answers.gaps else "unknown answer")
    return None


def _reading(raw: Raw, absent: str) -> HostReading:
    files = FileAnswers(part(raw, "files"), absent)
    words = (files.text("proc/loadavg", "load_1min") or "").split()
    load = float(words[0]) if words and re.fullmatch(r"\d{1,9}(\.\d{1,6})?", words[0]) else None
    return HostReading(
        load_1min=load,
        cpu_percent=_busy(part(raw, "stat"), files),
        memory_available_bytes=_memory(files, "memory_available_bytes", "MemAvailable"),
        shm_free_bytes=_shared_memory(raw, files, "shm_free_bytes", "free"),
        gaps=files.gaps,
    )


def _busy(stat: Mapping[str, Raw], fields: FileAnswers) -> float | None:
    """Share of CPU time that was not idle between two first lines of /proc/stat (proc(5))."""
    before, after = (_ticks(stat.get(key)) for key in ("before", "now"))
    if before is None or after is None:
        fields.gap("cpu_percent", "needs two readings" if after else fields.absent)
        return None
    total = sum(after) - sum(before)
    idle = after[3] + after[4] - before[3] - before[4]
    if total <= 0 or not 0 <= idle <= total:
        fields.gap("cpu_percent", "the kernel's counters did not move")
        return None
    return round(100 * (total - idle) / total, 1)


def _ticks(line: Raw) -> tuple[int, ...] | None:
    words = line.split() if isinstance(line, str) else []
    # user nice system idle iowait irq softirq steal; guest time is part of user.
    ticks = [whole(word) for word in words[1:9]]
    known = tuple(tick for tick in ticks if tick is not None and tick >= 0)
    return known if words[:1] == ["cpu"] and len(known) == len(ticks) >= 5 else None


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
        "topology_files": read_topology_files(tree),
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
    elif cmdline.kind is not Unread.ABSENT:
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
