"""The PCIe switch above a GPU, and who shares it."""

from __future__ import annotations

from ..model.machine import Machine
from ..wiring.devices import devices_of

UPSTREAM = ("switch upstream", "switch")


def switch_above(machine: Machine, address: str) -> str:
    """The nearest switch and its other devices: "0000:15:00.0, shared with GPU1, mlx5_0".

    "none: its root port is the CPU's" where there is no switch; "" where no tree was read.
    """
    devices = devices_of(machine)
    if not devices.above(address):
        return ""
    up = devices.way_up(address)[1:] if devices.pci(address) else devices.way_up(address)
    found = next((bridge.address for bridge in up if bridge.kind in UPSTREAM), None)
    if found is None:
        guest = machine.host is not None and machine.host.hypervisor is not None
        return "none is seen in this guest" if guest else "none: it sits directly on a CPU port"
    others = dict.fromkeys(gpu.address for gpu in machine.gpus)
    others |= dict.fromkeys(nic.address for nic in machine.rdma if nic.address)
    beside = [
        devices.name(other)
        for other in others
        if other != address and found in devices.above(other)
    ]
    return f"{found}, shared with {', '.join(beside)}" if beside else f"{found}, its own"
