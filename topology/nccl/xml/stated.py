"""A PCI tree made from what NVML states of pairs of GPUs, where /sys shows none.

Without it every GPU would hang on its CPU, and GPUs that share a switch would seem to meet at the
host bridge, against the driver's own word.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...model.machine import Gpu, Machine, PciDevice
from ...wiring.wires import PCIE_GTS

NOTE = (
    "The PCI tree is not known: GPUs share the switches that NVML states (their common ancestors), "
    "at the rate of the GPUs' own links."
)
_NEAR = ("internal", "single")
"""Ancestors of GPUs on one switch; "multiple" says that several switches lie between two."""
_FAR = (*_NEAR, "multiple")
_ROOT = "pciffff:00"
_MOST = 32
"""Groups of GPUs, the device numbers of one PCI bus."""


def stated(machine: Machine, notes: list[str]) -> Machine:
    """The machine with such a tree; unchanged where /sys shows one or NVML states no switch."""
    if machine.pci or not any(pair.ancestor in _FAR for pair in machine.pairs):
        return machine
    inner, outer = _groups(machine, _NEAR), _groups(machine, _FAR)
    if len({*inner.values(), *outer.values()}) > _MOST:
        return machine
    notes.append(NOTE)
    return msgspec.structs.replace(machine, pci=tuple(_tree(machine, inner, outer)))


def _groups(machine: Machine, ancestors: tuple[str, ...]) -> dict[str, int]:
    """GPUs joined by such ancestors: address -> number of the group."""
    group = {gpu.address: {gpu.address} for gpu in machine.gpus}
    for pair in machine.pairs:
        if pair.ancestor in ancestors and {pair.src, pair.dst} <= group.keys():
            both = group[pair.src] | group[pair.dst]
            group |= dict.fromkeys(both, both)
    numbers: dict[str, int] = {}
    found: dict[str, int] = {}
    for address in sorted(group):
        if len(group[address]) > 1:
            first = min(group[address])
            found[address] = numbers.setdefault(first, len(numbers))
    return found


def _tree(machine: Machine, inner: dict[str, int], outer: dict[str, int]) -> Iterator[PciDevice]:
    made: set[str] = set()
    for gpu in machine.gpus:
        above = _ROOT
        nested = outer.get(gpu.address) is not None and _differ(gpu, inner, outer)
        for bus, group in (("e0", outer.get(gpu.address) if nested else None),
                           ("e1", inner.get(gpu.address))):  # fmt: skip
            if group is None:
                continue
            # NCCL counts every second bridge: the port above a switch, then the switch itself.
            for address in (f"ffff:{bus}:{group:02x}.0", f"ffff:{bus}:{group:02x}.1"):
                if address not in made:
                    made.add(address)
                    yield _bridge(address, above, gpu)
                above = address
        port = f"{gpu.address[:-4]}1f.0"
        yield _bridge(port, above, gpu)
        yield msgspec.structs.replace(
            _bridge(gpu.address, port, gpu), kind="gpu", class_code=0x030200
        )


def _differ(gpu: Gpu, inner: dict[str, int], outer: dict[str, int]) -> bool:
    """Whether GPUs of one outer group sit on different switches."""
    own = outer[gpu.address]
    return len({inner.get(name, name) for name, group in outer.items() if group == own}) > 1


def _bridge(address: str, above: str, gpu: Gpu) -> PciDevice:
    return PciDevice(
        address=address,
        parent=above,
        kind="bridge",
        numa_node=gpu.numa_node,
        class_code=0x060400,
        link_speed_max_gts=PCIE_GTS.get(gpu.pcie_gen_max or 0),
        link_width_max=gpu.pcie_width_max,
    )
