"""RDMA to the memory of GPUs: peer memory or DMA-BUF, and the plugin of EFA."""

from __future__ import annotations

import re

from ....hardware.vendors import NVIDIA, VENDORS
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.severity import NOTICE, SLOW
from ....model.surroundings import RdmaDevice
from ...case import Case
from ...rule import Found, Rule
from ...shared.near import some
from .nics import near_nics

DMABUF_KERNEL = (5, 12)
CLIENTS = {vendor.id: vendor.memory_clients for vendor in VENDORS if vendor.memory_clients}
"""Names of GPU drivers in /sys/kernel/mm/memory_peers (NCCL transport/net_ib, gdr support)."""


def _peermem(case: Case) -> Found:
    pairs = [
        (gpu, nic)
        for gpu in case.gpus
        if gpu.vendor in CLIENTS
        for nic in near_nics(case, gpu)
        if _verbs(nic)
    ]
    if not pairs:
        # Beyond the host bridge NCCL leaves GDR off by choice (graph/paths.cc:ncclTopoCheckGdr).
        return [] if case.machine.pci else None
    vendor = pairs[0][0].vendor
    host = case.host
    registered = host.memory_peers
    if registered is not None and any(name in CLIENTS[vendor] for name in registered):
        return []
    kernel = _kernel(host.kernel)
    module = host.nvidia_module if vendor == NVIDIA.id else "open"
    if registered is None or kernel is None or module is None:
        return None
    if module == "open" and kernel >= DMABUF_KERNEL:
        return []
    return _refused(case, pairs, registered, module)


def _refused(
    case: Case, pairs: list[tuple[Gpu, RdmaDevice]], registered: tuple[str, ...], module: str
) -> Finding:
    host = case.host
    addresses = sorted({gpu.address for gpu, _ in pairs})
    names = sorted({nic.name for _, nic in pairs})
    why = "the closed kernel module" if module != "open" else f"Linux {host.kernel}"
    modules = [module.name for module in host.modules]
    return PEERMEM.finding(
        SLOW,
        f"{names[0]}{' and others' if len(names) > 1 else ''} cannot reach the memory of "
        f"{some(case, addresses)}",
        devices=addresses,
        evidence=[
            (
                "clients of the kernel's peer memory",
                ", ".join(registered) or "none",
                "/sys/kernel/mm/memory_peers",
            ),
            (
                "DMA-BUF",
                f"not with {why}",
                "/proc/driver/nvidia/version, /proc/sys/kernel/osrelease",
            ),
            (
                "module nvidia_peermem",
                "loaded" if "nvidia_peermem" in modules else "not loaded",
                "/proc/modules",
            ),
        ],
        impact="GPUDirect RDMA is off: between nodes every byte goes through the host's "
        "memory. Jobs inside this node do not need it.",
        fix=[
            "Load the module. # modprobe nvidia-peermem",
            (
                "If it loads and does not register, install the driver again after the RDMA "
                "drivers, or use the open kernel module, which has DMA-BUF. # "
            ),
        ]
        if pairs[0][0].vendor == NVIDIA.id
        else ["Use a newer kernel or amdgpu driver. # "],
    )


def _verbs(nic: RdmaDevice) -> bool:
    states = [port.state for port in nic.ports]
    return nic.kind in ("infiniband", "roce") and ("ACTIVE" in states or None in states)


def _kernel(text: str | None) -> tuple[int, int] | None:
    match = re.match(r"(\d{1,4})\.(\d{1,4})", text or "", re.ASCII)
    return (int(match[1]), int(match[2])) if match else None


def _efa(case: Case) -> Found:
    efa = [nic for nic in case.machine.rdma if nic.kind == "efa"]
    if not efa:
        return [] if case.machine.interfaces or case.machine.rdma else None
    software = case.machine.software
    plugins = software.nccl_plugins if software is not None else None
    if plugins is None:
        return None
    if plugins or "NCCL_NET_PLUGIN" in case.variables:
        return []
    # Jobs bring the plugin with them in their containers: what the host has is not what they have.
    return EFA.finding(
        SLOW if case.may_hide_devices else NOTICE,
        f"{len(efa)} EFA device{'s' * (len(efa) != 1)}, and no plugin for {case.words.library}",
        devices=[nic.address for nic in efa if nic.address],
        evidence=[
            ("EFA devices", ", ".join(nic.name for nic in efa), "/sys/class/infiniband"),
            (
                "libnccl-net*.so where the loader looks",
                "none",
                "LD_LIBRARY_PATH, /etc/ld.so.conf.d, usual folders",
            ),
        ],
        impact=f"{case.words.library} speaks to EFA through a plugin alone: jobs over "
        "several nodes that "
        "do not bring one go by TCP (NET/Socket).",
        fix=[
            (
                "Put the folder of aws-ofi-nccl on the loader's path. "
                "$ export LD_LIBRARY_PATH=/opt/amazon/ofi-nccl/lib:$LD_LIBRARY_PATH"
            ),
            "Let a job without the plugin fail at once. $ export NCCL_NET=Libfabric",
        ],
    )


PEERMEM = Rule(
    id="rdma-without-peermem",
    family="D05",
    title="NICs beside a GPU that cannot reach its memory",
    evidence="NIC and GPU below one PCIe switch, memory_peers, kernel, kind of kernel module",
    disproof="/GDRDMA in the lines of NCCL_DEBUG=INFO of a job over two nodes",
    sources=("NVIDIA/nccl#1343", "NVIDIA/nccl#1537", "NVIDIA/nccl#1939", "NCCL user guide"),
    check=_peermem,
)
EFA = Rule(
    id="efa-without-plugin",
    title="EFA without its plugin for {library}",
    evidence="EFA devices and the network plugins that the loader would find",
    disproof='"Using network AWS Libfabric" in the lines of NCCL_DEBUG=INFO',
    sources=("NVIDIA-NeMo/RL#2359", "aws/aws-ofi-nccl documents"),
    check=_efa,
)

RULES = (PEERMEM, EFA)
