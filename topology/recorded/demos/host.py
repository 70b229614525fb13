"""A demo's answer for the source `host`."""

from __future__ import annotations

from typing import Any

from ...hardware.vendors import AMD, NVIDIA
from .nvml import cpu_numbers
from .pci import ABSENT, NO_NVIDIA
from .shape import DemoHost, DemoShape, RootPort

SHM_SHARE = 2
"""/dev/shm is half of the memory, as Linux makes it."""
NEAR, SAME_SOCKET, OTHER_SOCKET = 10, 12, 32
"""NUMA distances as the firmware of such hosts gives them."""
FREQUENCY_DRIVERS = {"GenuineIntel": "intel_pstate", "ARM": "cppc_cpufreq"}
ARM_IMPLEMENTERS = {"ARM": 0x41}
"""Arm's own number (Linux arch/arm64/include/asm/cputype.h)."""


def answer(shape: DemoShape) -> dict[str, Any]:
    """What the reader of `host` would find."""
    node = shape.node
    nvidia = shape.gpu.vendor == NVIDIA.id
    total = node.numa_memory_gib * len(node.numa_cpus) * 2**30
    switched = shape.nvlink is not None and bool(shape.nvlink.per_switch)
    gpus = sum(name.startswith("gpu") for slot in shape.slot for name in _devices(slot))
    return {
        "demo": True,
        "absent": ABSENT,
        "files": _files(shape, total),
        "sockets": _sockets(node),
        "numa": {
            str(number): {
                "cpulist": cpus,
                "distance": " ".join(map(str, _distances(node, number))),
                "meminfo": f"Node {number} MemTotal: {node.numa_memory_gib * 2**20} kB",
            }
            for number, cpus in enumerate(node.numa_cpus)
        },
        "modules": {
            name: shape.driver if name.startswith(("nvidia", "amdgpu")) else ""
            for name in node.modules
        },
        "cmdline": ["iommu=pt"],
        "governors": {
            f"policy{number}": ["performance", str(number)]
            for cpus in node.numa_cpus
            for number in cpu_numbers(cpus)
        },
        "frequency_driver": FREQUENCY_DRIVERS.get(node.cpu_vendor, "amd-pstate-epp"),
        "memory_peers": ["nv_mem"] if "nvidia_peermem" in node.modules else [],
        "device_nodes": [[path, True] for path in _nodes(nvidia, gpus)],
        "fabric_manager": "running" if switched and shape.domain is None else "absent",
        "container": {
            "signs": [],
            "levels": [{"memory": "max", "cpu": "max 100000", "cpuset": ",".join(node.numa_cpus)}],
        },
        "asked_as_root": False,
        "mps_daemon": False,
        "imex_channels": shape.domain is not None,
        "shm": {"total": total // SHM_SHARE, "free": total // SHM_SHARE - 2**20},
        "stat": {
            "before": "cpu 1000 0 500 90000 100 0 0 0 0 0",
            "now": "cpu 1180 0 560 90760 100 0 0 0 0 0",
        },
    }


def _devices(slot: RootPort) -> list[str]:
    nested = [name for group in slot.switches for name in group]
    return [*([slot.device] if slot.device else []), *slot.switch, *nested]


def _files(shape: DemoShape, total: int) -> dict[str, Any]:
    node = shape.node
    files: dict[str, Any] = {
        "etc/os-release": 'PRETTY_NAME="Ubuntu 24.04.2 LTS"',
        "proc/self/limits": "Max locked memory  unlimited  unlimited  bytes\n"
        "Max open files  1048576  1048576  files",
        "proc/sys/kernel/arch": node.architecture,
        "proc/sys/kernel/hostname": "demo",
        "proc/sys/kernel/numa_balancing": "0",
        "proc/sys/kernel/osrelease": node.kernel,
        "proc/sys/kernel/random/boot_id": "de300000-0000-4000-8000-000000000000",
        "sys/class/dmi/id/product_name": node.product,
        "sys/class/dmi/id/sys_vendor": "gputop demo",
        "proc/cpuinfo": "\n".join(_cpuinfo(node)),
        "proc/loadavg": "18.2 17.9 17.4 20/4096 52000",
        "proc/meminfo": f"MemTotal: {total // 1024} kB\nMemAvailable: {total // 1024 * 4 // 5} kB",
    }
    if shape.gpu.vendor == AMD.id:
        files["proc/driver/nvidia/version"] = files["proc/driver/nvidia/params"] = NO_NVIDIA
    elif shape.driver:
        # Volta has no open module.
        kind = "Open Kernel Module" if shape.gpu.architecture > 5 else "Kernel Module"
        name = f"NVRM version: NVIDIA UNIX {kind} for {node.architecture}  {shape.driver}"
        files["proc/driver/nvidia/version"] = name
    return files


def _cpuinfo(node: DemoHost) -> tuple[str, ...]:
    """What Linux says of the first CPU, in the words of its architecture."""
    if node.cpu_vendor in ARM_IMPLEMENTERS:
        return (
            "processor\t: 0",
            f"CPU implementer\t: 0x{ARM_IMPLEMENTERS[node.cpu_vendor]:02x}",
            f"CPU architecture: {node.cpu_family}",
            f"CPU part\t: 0x{node.cpu_model:03x}",
        )
    return (
        "processor\t: 0",
        f"vendor_id\t: {node.cpu_vendor}",
        f"cpu family\t: {node.cpu_family}",
        f"model\t\t: {node.cpu_model}",
        f"model name\t: {node.cpu_name}",
        "flags\t\t: fpu lm",
    )


def _sockets(node: DemoHost) -> list[dict[str, str]]:
    threads = node.cores_per_socket * (max(node.numa_socket) + 1)
    found: list[dict[str, str]] = []
    for socket in sorted(set(node.numa_socket)):
        own = [
            cpus for cpus, at in zip(node.numa_cpus, node.numa_socket, strict=True) if at == socket
        ]
        first = own[0].partition("-")[0]
        siblings = first if node.threads_per_core == 1 else f"{first},{int(first) + threads}"
        found.append({"socket": str(socket), "cpus": ",".join(own), "siblings": siblings})
    return found


def _distances(node: DemoHost, number: int) -> list[int]:
    if len(node.numa_cpus) == 2:
        return [NEAR if other == number else node.numa_far for other in range(2)]
    mine = node.numa_socket[number]
    return [
        NEAR if other == number else SAME_SOCKET if socket == mine else OTHER_SOCKET
        for other, socket in enumerate(node.numa_socket)
    ]


def _nodes(nvidia: bool, gpus: int) -> list[str]:
    if nvidia:
        return [
            *(f"/dev/nvidia{number}" for number in range(gpus)),
            "/dev/nvidiactl",
            "/dev/nvidia-uvm",
        ]
    return ["/dev/kfd", *(f"/dev/dri/renderD{128 + 8 * number}" for number in range(gpus))]
