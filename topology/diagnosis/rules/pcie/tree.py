"""PCIe trees that are flat, shared or drawn for another machine."""

from collections.abc import Sequence

from ....hardware.specs import WIRED
from ....hardware.vendors import AMD, NVIDIA
from ....model.element import NOT_IN_XML
from ....model.finding import Finding
from ....model.machine import PciKind
from ....model.page import Fix
from ....model.severity import BY_DESIGN, NOTICE, SLOW
from ....sources.collect import ONLY_PCI
from ...case import Case
from ...pairs import BELOW_SWITCH, in_braces, joined
from ...rule import Found, Rule, Step, faulty, needed

TOPOLOGY_VARIABLE = "NCCL_TOPO_FILE"
LOADED = ("/var/run/nvidia-topologyd/virtualTopology.xml",)
"""Read by NCCL without any variable (src/graph/topo.cc)."""
PLUGIN = "libnccl-net-ofi"
"""AWS's plugin sets the variable by itself."""


_NEAR = ("internal", "single", "multiple")
"""NVML's common ancestors of two GPUs below one host bridge."""


def _check_flat(case: Case) -> Found:
    if case.in_vm is None or not case.machine.pci or len(case.gpus) < 2:
        return None
    if not case.in_vm:
        return []
    ways = [case.way_up(gpu.address) for gpu in case.gpus]
    if not all(ways):
        return None
    switch = any(device.kind.startswith("switch") for way in ways for device in way)
    near = any(pair.ancestor in _NEAR for pair in case.machine.pairs)
    board = all(on_a_board(case, gpu.address) for gpu in case.gpus)
    if switch or near or not board or _has_file(case):
        return []
    nodes = {"unknown" if gpu.numa_node is None else str(gpu.numa_node) for gpu in case.gpus}
    return FLAT.finding(
        NOTICE,
        "this virtual machine shows a flat PCI tree, and no topology file is in use",
        evidence=[
            ("hypervisor", case.host.hypervisor or "", "CPU flags, DMI"),
            ("PCIe switches above the GPUs", "none", "sysfs bus/pci/devices"),
            ("NUMA nodes of the GPUs", ", ".join(sorted(nodes)), "sysfs numa_node, NVML"),
        ],
        impact=f"{case.words.link} between the GPUs is not touched. Every NIC looks equally far, "
        f"so that {case.words.library} may pick a far one, or none for GPUDirect RDMA.",
        fix=[_name_file(case)],
    )


def on_a_board(case: Case, address: str) -> bool:
    """Whether the model sits on a board that has PCIe switches in a real server.

    A GPU that NVLink-C2C joins to its CPU is at a root port there too.
    """
    gpu = case.machine.gpu(address)
    sku = case.sku(gpu) if gpu is not None else None
    return sku is not None and sku.fabric in WIRED and sku.c2c_gbs is None


def _name_file(case: Case) -> Step:
    files = case.host.topology_files or ()
    if not files:
        return (
            f"Have the operator write {case.words.library}'s topology on the host, with the PCI "
            "addresses of this guest, and name it. "
            f"$ export {TOPOLOGY_VARIABLE}=/etc/nccl-topology.xml"
        )
    text = "Name the topology file of this machine type"
    if len(files) > 1:
        return Fix(text=f"{text}: one of {', '.join(files[:6])}.")
    return Fix.of(f"{text}.", f"export {TOPOLOGY_VARIABLE}={{:path}}", files[0])


def _has_file(case: Case) -> bool:
    named = case.variables.get(TOPOLOGY_VARIABLE, ("", ""))[0]
    lost = f"{TOPOLOGY_VARIABLE}:"
    if named and not any(problem.text.startswith(lost) for problem in case.snapshot.problems):
        return True
    software, files = case.machine.software, case.host.topology_files or ()
    plugins = (software.nccl_plugins if software is not None else None) or ()
    loads = not set(files).isdisjoint(LOADED)
    return loads or (bool(files) and any(PLUGIN in path for path in plugins))


_SHOWN = 4


def _check(case: Case) -> Found:
    if case.machine.nccl_topology is None:
        return None
    in_file = {
        device.address
        for device in case.machine.pci
        if device.kind == PciKind.GPU and device.why("driver") == NOT_IN_XML
    }
    drawn = {gpu.address for gpu in case.machine.gpus if gpu.why("uuid") in (NOT_IN_XML, ONLY_PCI)}
    here = needed(
        [
            gpu.address
            for gpu in case.machine.gpus
            if gpu.uuid is not None and not gpu.address.startswith("topo:")
        ]
    )
    needed(in_file | drawn)
    if not in_file.isdisjoint(here):
        return []
    return OTHER.finding(
        SLOW,
        f"the topology file is of another machine: it has none of the {len(here)} GPUs here",
        devices=here,
        evidence=[
            ("GPUs of the file", _first(sorted(in_file | drawn)), case.source),
            ("GPUs of the driver", _first(here), case.source),
        ],
        impact=f"With it in NCCL_TOPO_FILE {case.words.library} puts every GPU directly "
        "at a CPU: switches and NICs near a GPU are not seen, and rings and trees are laid "
        "without them.",
        fix=[
            "Let the library find the machine itself. $ unset NCCL_TOPO_FILE",
            "In a guest, take the file that its operator wrote for this kind of it.",
        ],
    )


_BOARD = 4
"""GPUs that are more than one host bridge of any CPU has beside NICs."""
_FLAT = "PHB"


def _first(addresses: Sequence[str]) -> str:
    return ", ".join([*addresses[:_SHOWN], *(["..."] if len(addresses) > _SHOWN else [])])


def _check_guest(case: Case) -> Found:
    if case.in_vm is not None:
        return None
    if case.machine.nccl_topology is not None:
        return _flat(case, "PCIe switches above the GPUs", "none") if _bare(case) else ()
    if case.machine.pci or not case.machine.relations:
        return None
    gpus = {gpu.address for gpu in case.gpus}
    far = {item.code for item in case.machine.relations if not {item.a, item.b} <= gpus}
    near = {item.code for item in case.machine.relations if {item.a, item.b} <= gpus}
    # NVLink between them makes it a board: then PCIe switches belong above the GPUs.
    links = {letters for letters in near | far if letters.startswith("NV")}
    if len(gpus) < _BOARD or not far or links.isdisjoint(near):
        return []
    if (near | far) - links - {"X"} != {_FLAT}:
        return []
    return _flat(case, "relations over PCIe", f"{_FLAT} everywhere, PIX or PXB nowhere")


def _bare(case: Case) -> bool:
    """Whether a topology XML shows a large board and no bridge above any of its GPUs.

    Boards of four hang on the CPUs themselves in many servers.
    """
    ways = [case.way_up(gpu.address) for gpu in case.gpus]
    whole = len(ways) > _BOARD and all(len(way) == 1 for way in ways)
    return whole and all(on_a_board(case, gpu.address) for gpu in case.gpus)


def _flat(case: Case, what: str, value: str) -> Finding:
    return GUEST.finding(
        NOTICE,
        f"none of the {len(case.gpus)} GPUs has a PCIe switch above it: the flat tree of a virtual "
        "machine",
        devices=case.gpus,
        evidence=[(what, value, case.source)],
        impact="A board of this kind has PCIe switches between its GPUs and NICs; a "
        f"hypervisor hides them. {case.words.library} then takes every NIC for equally far: it "
        "may pick a far one, or none for GPUDirect RDMA, unless a topology file tells it.",
        fix=[
            (
                "Name the topology file of this machine type, which its operator writes. "
                f"$ export {TOPOLOGY_VARIABLE}=/etc/nccl-topology.xml"
            ),
            "Ask whether this is a guest. $ systemd-detect-virt",
        ],
    )


def _check_shared(case: Case) -> Found:
    pairs = case.pairs
    if case.machine.host is not None or not pairs or any(pair.code == "?" for pair in pairs):
        return None
    near = [pair.ends for pair in pairs if pair.code in BELOW_SWITCH]
    groups = faulty(joined((), near))
    shown = in_braces(case, groups)
    return SHARED.finding(
        BY_DESIGN,
        f"GPUs share the uplink of a PCIe switch: {shown}",
        devices=sorted(gpu for group in groups for gpu in group),
        evidence=[("GPUs with PIX or PXB between them", shown, case.source)],
        impact=f"Up to {max(map(len, groups))} GPUs divide one link to the host's memory and to "
        "the GPUs of other switches: copies of all of them at once run at a part of their rate.",
    )


FLAT = Rule(
    id="vm-flat-tree",
    family="D06",
    title="a virtual machine that hides the PCIe switches, without a topology file",
    evidence="hypervisor, PCI tree above the GPUs, topology files and NCCL_TOPO_FILE",
    disproof="a topology file that {library} loads, or PCIe switches in `lspci -t`",
    sources=("NVIDIA/nccl#1843", "NVIDIA/nccl-tests#256", "NVIDIA/nccl-tests#86"),
    check=_check_flat,
    implied_by=("flag-file-missing",),
)
OTHER = Rule(
    id="topology-of-another-machine",
    family="D06",
    title="a topology file that was made for another machine",
    evidence="a topology XML, and the addresses of the GPUs by their driver",
    disproof="an address of {asked} in the file",
    asked=(
        (NVIDIA.id, "`nvidia-smi --query-gpu=pci.bus_id --format=csv`"),
        (AMD.id, "`amd-smi list`"),
    ),
    sources=("NCCL graph/topo.cc: ncclTopoGetSystem", "NVIDIA/nccl#1843"),
    check=_check,
)
GUEST = Rule(
    id="flat-tree-of-a-guest",
    family="D06",
    title="a flat PCIe tree, as hypervisors show it, in a matrix or a topology XML",
    evidence="relations of GPUs and NICs or a topology XML, where nobody looked for a hypervisor",
    disproof="PCIe switches in `lspci -t` of this machine",
    sources=("NVIDIA/nccl#1843", "NVIDIA/nccl-tests#256"),
    check=_check_guest,
    implied_by=("vm-flat-tree",),
)
SHARED = Rule(
    id="shared-switch",
    family="D39",
    title="PCIe switches that several GPUs share, by a matrix or a topology XML",
    evidence="relations of all pairs of GPUs, in a text that says nothing of the host",
    disproof="a way over the host bridge between them in {asked}",
    asked=((NVIDIA.id, "`nvidia-smi topo -m`"), (AMD.id, "`lspci -t`")),
    sources=("NVIDIA/nccl#44", "nvidia-smi topo -m: legend"),
    check=_check_shared,
    implied_by=("shared-uplink",),
)
RULES = (FLAT, OTHER, GUEST, SHARED)
