"""The probe host, simulated: pinned copies of each GPU, over its PCIe link as it came up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gputop.probes.catalog.host.probe import SPEC
from gputop.probes.catalog.host.report import QUANTITIES, way
from gputop.probes.protocol.messages import DeviceRecord, MeasuredValue
from gputop.probes.protocol.sizing import MIB
from gputop.simulating.node import SimulatedNode, blank
from gputop.simulating.step import SimulatedStep
from gputop.topology.wiring.graph import gpu_numa

_BYTES = 512 * MIB


def steps(
    node: SimulatedNode, devices: Sequence[DeviceRecord], params: Mapping[str, Any]
) -> Iterator[SimulatedStep]:
    """One step for each GPU; pageable memory and all GPUs at once have no reference."""
    for device in devices:
        figures: list[MeasuredValue] = []
        for to_device, quantity in QUANTITIES.items():
            figures += node.simulated(
                blank(
                    SPEC,
                    quantity,
                    device.key,
                    engine="copy engine",
                    direction=way(device.key, to_device),
                    variant="pinned",
                    bytes_per_copy=_BYTES,
                    details=_link(node, device.key),
                )
            )
        if figures:
            yield SimulatedStep(f"{device.key}, pinned memory", tuple(figures))


def _link(node: SimulatedNode, address: str) -> dict[str, Any]:
    """The PCIe link while the copies run, and the NUMA node of the memory."""
    gpu, bus = node.gpu(address), node.snapshot.machine.pci_device(address)
    width = gpu.pcie_width_max if bus is None else bus.link_width_now
    seen = {
        "memory": "pinned by the driver",
        "numa_node": gpu_numa(gpu),
        "pcie_generation": gpu.pcie_gen_max,
        "pcie_width": width,
    }
    return {name: value for name, value in seen.items() if value is not None}
