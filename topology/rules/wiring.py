"""How the GPUs are wired: islands, PCIe alone, a guest's flat tree, an uplink that is shared."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from ..machine import Gpu
from ..units import gbs
from . import vendors
from .case import Case
from .finding import BY_DESIGN, NOTICE, Evidence, Finding, Fix
from .pairs import THROUGH_HOST
from .rule import Rule

TOPOLOGY_VARIABLE = "NCCL_TOPO_FILE"
LOADED = ("/var/run/nvidia-topologyd/virtualTopology.xml",)
"""Read by NCCL without any variable (src/graph/topo.cc)."""
PLUGIN = "libnccl-net-ofi"
"""AWS's plugin sets the variable by itself."""
NO_LINKS = ("Not Supported", "Invalid Argument", "the driver lists no link")
"""What NVML says of the links of a GPU that has none."""
_MATRIX = "nvidia-smi topo -m"


def _check_islands(case: Case) -> Iterable[Finding] | None:
    counted = {gpu.address for gpu in case.gpus}
    groups = [found for one in case.report.islands if len(found := sorted(counted & set(one))) > 1]
    if not groups:
        return None
    joined = {address for group in groups for address in group}
    # No job spans two vendors: only sisters of those that are joined can be missed there.
    makers = {gpu.vendor for gpu in case.gpus if gpu.address in joined}
    alone = sorted(
        gpu.address
        for gpu in case.gpus
        if gpu.address not in joined and gpu.vendor in makers and _read(gpu)
    )
    if len(groups) + len(alone) < 2:
        return []
    shown = ["{" + ", ".join(map(case.name, group)) + "}" for group in groups]
    shown += ["{" + case.name(one) + "}" for one in alone]
    largest = max(map(len, groups))
    return [
        ISLANDS.finding(
            BY_DESIGN,
            f"{_kind(case)} joins GPUs in islands: {' '.join(shown)}",
            devices=sorted(counted),
            evidence=[
                Evidence(
                    what=f"GPUs that {_kind(case)} joins",
                    value=" ".join(shown),
                    source=vendors.source(case.gpus, _MATRIX),
                )
            ],
            consequence=f"A job on up to {largest} GPUs of one island keeps to the fast links; one "
            "on more crosses PCIe, at PCIe's pace. Put tensor parallel groups inside an island.",
        )
    ]


def _kind(case: Case) -> str:
    amd = all(gpu.vendor == "amd" for gpu in case.gpus if gpu.nvlinks or gpu.xgmi)
    return "xGMI" if amd and any(gpu.xgmi for gpu in case.gpus) else "NVLink"


def _read(gpu: Gpu) -> bool:
    """Whether the links of a GPU were read, none included."""
    return bool(gpu.nvlinks or gpu.xgmi or gpu.why("nvlinks") in NO_LINKS)


def _check_pcie_only(case: Case) -> Iterable[Finding] | None:
    pairs = case.pairs
    if not pairs or any(pair.letters == "?" for pair in pairs):
        return None
    wired = [gpu for gpu in case.gpus if (sku := case.sku(gpu)) is None or sku.fabric != "none"]
    if not all(map(_read, wired)):
        return None  # where links were not read, their absence is not known
    if any(pair.fast for pair in pairs):
        return []
    if case.in_vm is not False and any(gpu.xgmi for gpu in case.gpus):
        return None  # a guest may show its xGMI links as down although they work (peers D25)
    kinds = sorted({pair.letters for pair in pairs})
    far = set(kinds) <= set(THROUGH_HOST)
    through = sorted({one for pair in pairs for one in pair.transports})
    evidence = [
        Evidence(
            what="relations of the GPUs",
            value=", ".join(kinds),
            source=vendors.source(case.gpus, _MATRIX),
        ),
    ]
    if through:
        evidence.append(
            Evidence(
                what="transports of NCCL or RCCL",
                value=", ".join(through),
                source="gputop explain",
            )
        )
    where = (
        "No two of them share a PCIe switch, so all traffic crosses the host."
        if far
        else "GPUs below one switch copy directly, the others through the host."
    )
    return [
        PCIE_ONLY.finding(
            BY_DESIGN,
            f"{len(case.gpus)} GPUs are joined by PCIe alone",
            devices=[gpu.address for gpu in case.gpus],
            evidence=evidence,
            consequence=f"{where} Collectives run at PCIe's pace: prefer data or pipeline "
            "parallelism to tensor parallelism here.",
        )
    ]


def _check_flat(case: Case) -> Iterable[Finding] | None:
    if case.in_vm is None or not case.machine.pci or len(case.gpus) < 2:
        return None
    if not case.in_vm:
        return []
    ways = {gpu.address: case.way_up(gpu.address) for gpu in case.gpus}
    if not all(ways.values()):
        return None
    switch = any(device.kind.startswith("switch") for way in ways.values() for device in way)
    board = [gpu for gpu in case.gpus if _on_a_board(case, gpu.address)]
    asked = [pair for pair in case.machine.pairs if pair.ancestor is not None]
    near = any(pair.ancestor in ("internal", "single", "multiple") for pair in asked)
    if switch or near or len(board) < len(case.gpus):
        return []
    if _has_file(case):
        return []
    files = case.host.topology_files or ()
    one = len(files) == 1
    fix = Fix(
        text="Have the operator write NCCL's topology on the host, with the PCI addresses of this "
        "guest, and name it.",
        command=f"export {TOPOLOGY_VARIABLE}=/etc/nccl-topology.xml",
    )
    if files:
        fix = Fix(
            text="Name the topology file of this machine type"
            + ("." if one else f": one of {', '.join(files[:6])}."),
            command=f"export {TOPOLOGY_VARIABLE}={shlex.quote(files[0])}" if one else "",
        )
    nodes = {gpu.numa_node for gpu in case.gpus}
    return [
        FLAT.finding(
            NOTICE,
            "this virtual machine shows a flat PCI tree, and no topology file is in use",
            evidence=[
                Evidence(
                    what="hypervisor", value=case.host.hypervisor or "", source="CPU flags, DMI"
                ),
                Evidence(
                    what="PCIe switches above the GPUs",
                    value="none",
                    source="sysfs bus/pci/devices",
                ),
                Evidence(
                    what="NUMA nodes of the GPUs",
                    value=", ".join(sorted("unknown" if n is None else str(n) for n in nodes)),
                    source="sysfs numa_node, NVML",
                ),
            ],
            consequence="NVLink between the GPUs is not touched. Every NIC looks equally far, so "
            "that NCCL may pick a far one, or none for GPUDirect RDMA.",
            fix=[fix],
        )
    ]


def _on_a_board(case: Case, address: str) -> bool:
    """Whether the model sits on a board that has PCIe switches in a real server."""
    gpu = case.machine.gpu(address)
    sku = case.sku(gpu) if gpu is not None else None
    return sku is not None and sku.fabric in ("switched", "point_to_point")


def _has_file(case: Case) -> bool:
    lost = any(one.text.startswith(f"{TOPOLOGY_VARIABLE}:") for one in case.snapshot.problems)
    if case.variables.get(TOPOLOGY_VARIABLE, ("", ""))[0] and not lost:
        return True
    software = case.machine.software
    plugins = (software.nccl_plugins if software is not None else None) or ()
    files = case.host.topology_files or ()
    loads = any(path in LOADED for path in files)
    return loads or (bool(files) and any(PLUGIN in path for path in plugins))


def _check_uplink(case: Case) -> Iterable[Finding] | None:
    """Copies that are fast one by one and slow together, through one uplink (peers D39)."""
    alone = _host_figures(case, "pinned")
    together = _host_figures(case, "pinned, all GPUs at once")
    both = [address for address in alone if address in together]
    if not both:
        return None
    least = case.threshold(UPLINK, "minimum_share")
    slow = [one for one in both if together[one] < least * alone[one]]
    found = []
    for port, below in _shared(case, slow).items():
        if len(below) < 2:
            continue
        what = case.pci(port)
        kind = what.kind if what is not None else "port"
        found.append(
            UPLINK.finding(
                BY_DESIGN,
                f"{case.names(below)} share one PCIe uplink",
                devices=below,
                evidence=[
                    *(
                        Evidence(
                            what=f"host to {case.name(one)}",
                            value=f"{gbs(alone[one])} alone, {gbs(together[one])} with all at once",
                            source="probe host",
                        )
                        for one in below[:6]
                    ),
                    Evidence(
                        what="the port above all of them",
                        value=f"{kind} {port}",
                        source="sysfs bus/pci/devices",
                    ),
                ],
                consequence="GPUs that load data at the same time divide the uplink: "
                f"{gbs(sum(together[one] for one in below))} for {len(below)} together.",
            )
        )
    return found


def _host_figures(case: Case, variant: str) -> dict[str, float]:
    return {
        one.src: one.value
        for one in case.figures("h2d_bandwidth", variant)
        if one.src and one.value and one.verdict != "wrong-data"
    }


def _shared(case: Case, addresses: list[str]) -> dict[str, list[str]]:
    """Upper end of the nearest uplink that several of these GPUs share -> those GPUs."""
    above: dict[str, list[str]] = {}
    for address in addresses:
        for device in case.way_up(address):
            if device.kind == "switch upstream":
                above.setdefault(device.address, []).append(address)
    kept: dict[str, list[str]] = {}
    for port, below in sorted(above.items(), key=lambda item: len(item[1])):
        if len(below) > 1 and not any(set(below) >= set(other) for other in kept.values()):
            kept[port] = below
    return kept


ISLANDS = Rule(
    id="gpu-islands",
    peers="D12",
    title="GPUs that NVLink or xGMI joins in groups only",
    evidence="relations of all pairs of GPUs",
    disproof="NV# between every pair in `nvidia-smi topo -m`, XGMI in `rocm-smi --showtopotype`",
    sources=("NVIDIA/nccl-tests#178", "deepspeedai/DeepSpeed#1444"),
    check=_check_islands,
    implied_by=("nvlink-down", "nvlink-missing", "nvlink-p2p-refused"),
)
PCIE_ONLY = Rule(
    id="pcie-only",
    peers="D12",
    title="GPUs that are joined by PCIe alone",
    evidence="relations of all pairs of GPUs, NVLinks and xGMI links of each",
    disproof="NV# or XGMI between any two in `nvidia-smi topo -m`",
    sources=("NVIDIA/DCGM#49", "NVIDIA/nccl-tests#178"),
    check=_check_pcie_only,
    implied_by=("nvlink-down", "nvlink-missing", "xgmi-link-down"),
)
FLAT = Rule(
    id="vm-flat-tree",
    peers="D06",
    title="A virtual machine that hides the PCIe switches, without a topology file",
    evidence="hypervisor, PCI tree above the GPUs, topology files and NCCL_TOPO_FILE",
    disproof="a topology file that NCCL loads, or PCIe switches in `lspci -t`",
    sources=("NVIDIA/nccl#1843", "NVIDIA/nccl-tests#256", "NVIDIA/nccl-tests#86"),
    check=_check_flat,
    implied_by=("flag-file-missing",),
)
UPLINK = Rule(
    id="shared-uplink",
    peers="D39",
    title="PCIe uplinks that several GPUs share",
    evidence="probe host: each GPU alone and all at once; the PCI tree",
    disproof="the same GB/s with all GPUs at once as alone",
    sources=("NVIDIA/nccl#44",),
    check=_check_uplink,
    thresholds=(("minimum_share", 0.75),),
)

RULES = (FLAT, ISLANDS, PCIE_ONLY, UPLINK)
