"""A virtual machine with a flat PCI tree and no topology file that corrects it."""

from __future__ import annotations

import shlex

from ....model.page import Fix
from ....model.severity import NOTICE
from ...case import Case
from ...rule import Found, Rule, Step

TOPOLOGY_VARIABLE = "NCCL_TOPO_FILE"
LOADED = ("/var/run/nvidia-topologyd/virtualTopology.xml",)
"""Read by NCCL without any variable (src/graph/topo.cc)."""
PLUGIN = "libnccl-net-ofi"
"""AWS's plugin sets the variable by itself."""


def _check_flat(case: Case) -> Found:
    if case.in_vm is None or not case.machine.pci or len(case.gpus) < 2:
        return None
    if not case.in_vm:
        return []
    ways = {gpu.address: case.way_up(gpu.address) for gpu in case.gpus}
    if not all(ways.values()):
        return None
    switch = any(device.kind.startswith("switch") for way in ways.values() for device in way)
    board = [gpu for gpu in case.gpus if on_a_board(case, gpu.address)]
    asked = [pair for pair in case.machine.pairs if pair.ancestor is not None]
    near = any(pair.ancestor in ("internal", "single", "multiple") for pair in asked)
    if switch or near or len(board) < len(case.gpus):
        return []
    if _has_file(case):
        return []
    files = case.host.topology_files or ()
    single = len(files) == 1
    fix: Step = (
        f"Have the operator write {case.words.library}'s topology on the host, with the PCI "
        "addresses of this guest, and name it. "
        f"$ export {TOPOLOGY_VARIABLE}=/etc/nccl-topology.xml"
    )
    if files:
        fix = Fix(
            text="Name the topology file of this machine type"
            + ("." if single else f": one of {', '.join(files[:6])}."),
            command=f"export {TOPOLOGY_VARIABLE}={shlex.quote(files[0])}" if single else "",
        )
    nodes = {gpu.numa_node for gpu in case.gpus}
    return FLAT.finding(
        NOTICE,
        "this virtual machine shows a flat PCI tree, and no topology file is in use",
        evidence=[
            ("hypervisor", case.host.hypervisor or "", "CPU flags, DMI"),
            ("PCIe switches above the GPUs", "none", "sysfs bus/pci/devices"),
            (
                "NUMA nodes of the GPUs",
                ", ".join(sorted("unknown" if n is None else str(n) for n in nodes)),
                "sysfs numa_node, NVML",
            ),
        ],
        impact=f"{case.words.link} between the GPUs is not touched. Every NIC looks "
        "equally far, so "
        f"that {case.words.library} may pick a far one, or none for GPUDirect RDMA.",
        fix=[fix],
    )


def on_a_board(case: Case, address: str) -> bool:
    """Whether the model sits on a board that has PCIe switches in a real server.

    A GPU that NVLink-C2C joins to its CPU is at a root port there too.
    """
    gpu = case.machine.gpu(address)
    sku = case.sku(gpu) if gpu is not None else None
    return sku is not None and sku.fabric in ("switched", "point_to_point") and sku.c2c_gbs is None


def _has_file(case: Case) -> bool:
    lost = any(
        problem.text.startswith(f"{TOPOLOGY_VARIABLE}:") for problem in case.snapshot.problems
    )
    if case.variables.get(TOPOLOGY_VARIABLE, ("", ""))[0] and not lost:
        return True
    software = case.machine.software
    plugins = (software.nccl_plugins if software is not None else None) or ()
    files = case.host.topology_files or ()
    loads = any(path in LOADED for path in files)
    return loads or (bool(files) and any(PLUGIN in path for path in plugins))


FLAT = Rule(
    id="vm-flat-tree",
    family="D06",
    title="A virtual machine that hides the PCIe switches, without a topology file",
    evidence="hypervisor, PCI tree above the GPUs, topology files and NCCL_TOPO_FILE",
    disproof="a topology file that {library} loads, or PCIe switches in `lspci -t`",
    sources=("NVIDIA/nccl#1843", "NVIDIA/nccl-tests#256", "NVIDIA/nccl-tests#86"),
    check=_check_flat,
    implied_by=("flag-file-missing",),
)


RULES = (FLAT,)
