"""The PCIe switch above a GPU, and who shares it."""

from __future__ import annotations

from ..model.machine import Machine
from ..wiring.above import climb
from ..wiring.gpu_names import gpu_label

UPSTREAM = ("switch upstream", "switch")


def switch_above(machine: Machine, address: str) -> str:
    """The nearest switch and its other devices: "0000:15:00.0, shared with GPU1, mlx5_0".

    "none: its root port is the CPU's" where there is no switch; "" where no tree was read.
    """
    devices = {device.address: device for device in machine.pci}
    parents = {device.address: device.parent for device in machine.pci}
    above = climb(parents, address)
    if not above:
        return ""
    found = next((up for up in above if up in devices and devices[up].kind in UPSTREAM), None)
    if found is None:
        guest = machine.host is not None and machine.host.hypervisor is not None
        return "none is seen in this guest" if guest else "none: it sits directly on a CPU port"
    names = {gpu.address: gpu_label(gpu) for gpu in machine.gpus}
    names |= {nic.address: nic.name for nic in machine.rdma if nic.address}
    beside = [
        name for other, name in names.items() if other != address and found in climb(parents, other)
    ]
    return f"{found}, shared with {', '.join(beside)}" if beside else f"{found}, its own"
