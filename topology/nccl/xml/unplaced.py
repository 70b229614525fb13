"""GPUs of a text without PCI addresses: addresses and a PCI tree to go by.

NCCL and RCCL need an address and a place for each GPU. Both are made up here: from the letters of
`nvidia-smi topo -m`, which say who shares a switch and who a NUMA node, or for `rocm-smi
--showtopo`, which knows no switches, from the NUMA nodes alone. Figures of links stay unknown.
"""

from collections.abc import Iterator

import msgspec

from ...hardware.vendors import AMD, NVIDIA, VENDORS
from ...model.machine import Gpu, Machine, PciDevice, PciKind, XgmiLink
from ...wiring.graph import gpu_numa

NOTE = "Addresses and PCI tree are made up from the codes of nvidia-smi topo -m."
NOTE_AMD = "Addresses and PCI tree are made up: the text of AMD's tool names none."
UNKNOWN = "topo:"
DOMAINS = {
    f"{UNKNOWN}{vendor.label}": f"{0xFFFE - place:x}" for place, vendor in enumerate(VENDORS)
}
"""PCI domains that no machine has, by the word that a text uses for its GPUs."""
MOST = 224
"""GPUs that get an address; buses from e0 on are for switches."""
ROOT = "pcifffe:00"


def is_unplaced(gpu: Gpu) -> bool:
    """Whether the source named no PCI address."""
    return gpu.address.startswith(UNKNOWN)


def bus_id(gpu: Gpu) -> str:
    """The address that stands for a GPU in a detected topology; its own where it has one."""
    for name, domain in DOMAINS.items():
        digits = gpu.address.removeprefix(name)
        if digits != gpu.address and digits.isdecimal() and int(digits) < MOST:
            return f"{domain}:{int(digits):02x}:00.0"
    return gpu.address


def placed(machine: Machine, notes: list[str]) -> Machine:
    """The machine with an address for every GPU; unchanged where all of them have one."""
    lost = [gpu for gpu in machine.gpus if is_unplaced(gpu)]
    if not lost or machine.pci:
        return msgspec.structs.replace(
            machine, gpus=tuple(gpu for gpu in machine.gpus if not is_unplaced(gpu))
        )
    notes += [
        note
        for note, vendor in ((NOTE, NVIDIA), (NOTE_AMD, AMD))
        if any(gpu.vendor == vendor.id for gpu in lost)
    ]
    names = {gpu.address: bus_id(gpu) for gpu in lost}
    nodes = _groups(machine, ("PIX", "PXB", "PHB", "NODE"))
    return msgspec.structs.replace(
        machine,
        gpus=tuple(
            msgspec.structs.replace(gpu, address=bus_id(gpu), xgmi=_renamed(gpu, names))
            for gpu in machine.gpus
        ),
        pairs=tuple(
            msgspec.structs.replace(
                pair, src=names.get(pair.src, pair.src), dst=names.get(pair.dst, pair.dst)
            )
            for pair in machine.pairs
        ),
        pci=tuple(_tree(machine, lost, nodes)),
    )


def _renamed(gpu: Gpu, names: dict[str, str]) -> tuple[XgmiLink, ...]:
    return tuple(
        msgspec.structs.replace(
            link, remote_address=names.get(link.remote_address, link.remote_address)
        )
        for link in gpu.xgmi
    )


def _tree(machine: Machine, lost: list[Gpu], nodes: dict[str, int]) -> Iterator[PciDevice]:
    """Bridges down to each GPU: an outer switch and an inner one where GPUs share them."""
    inner, outer = _groups(machine, ("PIX",)), _groups(machine, ("PIX", "PXB"))
    shared = {
        number
        for number in outer.values()
        if len({inner.get(name, name) for name, group in outer.items() if group == number}) > 1
    }
    made: set[str] = set()
    for gpu in lost:
        numa = gpu_numa(gpu)
        numa = nodes.get(gpu.address) if numa is None else numa
        if numa is None and gpu.memory_affinity:
            numa = gpu.memory_affinity[0]  # behind its CPU's node a Grace lists the GPUs' memory
        switches = [("e0", outer.get(gpu.address)), ("e1", inner.get(gpu.address))]
        above = ROOT
        for bus, group in switches:
            if group is None or (bus == "e0" and group not in shared):
                continue
            # NCCL counts every second bridge: the port above a switch, then the switch itself.
            for address in (f"fffe:{bus}:{group:02x}.0", f"fffe:{bus}:{group:02x}.1"):
                if address not in made:
                    made.add(address)
                    yield _bridge(address, above, numa)
                above = address
        own = bus_id(gpu)
        port = f"{own[:-4]}1f.0"
        yield _bridge(port, above, numa)
        yield PciDevice(
            address=own, parent=port, kind=PciKind.GPU, numa_node=numa, class_code=0x030200
        )


def _bridge(address: str, above: str, numa: int | None) -> PciDevice:
    return PciDevice(
        address=address, parent=above, kind=PciKind.BRIDGE, numa_node=numa, class_code=0x060400
    )


def _groups(machine: Machine, letters: tuple[str, ...]) -> dict[str, int]:
    """GPUs joined by such letters, also by way of a NIC: name -> number of the group."""
    groups: list[set[str]] = []
    for relation in machine.relations:
        if relation.code in letters:
            joined = {relation.a, relation.b}
            touching = [group for group in groups if group & joined]
            groups = [group for group in groups if not group & joined]
            groups.append(joined.union(*touching))
    groups.sort(key=lambda group: min(group))
    return {
        name: number
        for number, group in enumerate(groups)
        for name in group
        if name.startswith(UNKNOWN)
    }
