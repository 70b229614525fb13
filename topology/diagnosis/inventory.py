"""What was read of a node, thing by thing: a verdict is no better than this list.

A thing is what a person would name, such as the relations of the GPUs or their memory errors. It
counts as read where any examined device has it.
"""

from collections.abc import Callable, Iterator, Sequence

from ..model.machine import Gpu
from ..model.readings import EccCounts, GpuReading
from ..model.record import Record
from .case import Case

_OF_GPU: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("models of the GPUs", ("name", "pci_id")),
    ("UUIDs", ("uuid",)),
    ("sizes of their memory", ("memory_bytes",)),
    ("CPUs near them", ("cpu_affinity", "memory_affinity", "numa_node")),
    ("power limits", ("power_limit_watts",)),
    ("highest PCIe links", ("pcie_gen_max", "pcie_width_max")),
    ("modes (ECC, MIG, persistence, compute)",
     ("ecc_enabled", "mig_enabled", "persistence", "compute_mode")),
    ("partitions", ("compute_partition", "memory_partition")),
    ("links between GPUs", ("nvlinks", "xgmi")),
    ("the fabric", ("fabric",)),
)  # fmt: skip
_OF_READING: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("PCIe links at the moment", ("pcie_gen", "pcie_width")),
    ("PCIe replays", ("pcie_replays",)),
    ("errors of links", ("nvlinks",)),
    ("load, memory in use and processes",
     ("utilization_percent", "memory_used_bytes", "processes")),
    ("temperatures and power", ("temperature_c", "power_watts")),
    ("clocks and what holds them down", ("clock_sm_mhz", "clock_graphics_mhz", "throttle_reasons")),
)  # fmt: skip
_ERRORS = tuple(name for name in EccCounts.__struct_fields__ if name != "gaps")


def read_of(case: Case) -> tuple[str, ...]:
    """The things that were read, in the order of a report."""
    return tuple(_read(case))


def _read(case: Case) -> Iterator[str]:
    gpus: Sequence[Gpu] = case.gpus
    readings = [reading for gpu in gpus if (reading := case.reading(gpu)) is not None]
    if any(not gpu.address.startswith("topo:") for gpu in gpus):
        yield "addresses of the GPUs"
    yield from _known(_OF_GPU, gpus)
    yield from _of_pairs(case)
    yield from _known(_OF_READING, readings)
    if any(map(_errors, readings)):
        yield "memory errors"
    yield from (what for what, there in _OF_NODE if there(case))


def _known(things: Sequence[tuple[str, tuple[str, ...]]], records: Sequence[Record]) -> list[str]:
    return [
        what
        for what, names in things
        if any(getattr(record, name) not in (None, ()) for name in names for record in records)
    ]


def _errors(reading: GpuReading) -> bool:
    ecc = reading.ecc
    return bool(reading.ecc_blocks) or (
        ecc is not None and any(getattr(ecc, name) is not None for name in _ERRORS)
    )


def _of_pairs(case: Case) -> Iterator[str]:
    pairs, relations = case.machine.pairs, case.machine.relations
    if relations or any(pair.ancestor or pair.link_type or pair.hops for pair in pairs):
        yield "relations of the GPUs"
    if any(pair.nvlinks_reported is not None for pair in pairs):
        yield "NVLinks of each pair"
    if any(pair.p2p_read or pair.p2p_write for pair in pairs):
        yield "the driver's word on P2P"
    here = {gpu.address for gpu in case.machine.gpus}
    if any({relation.a, relation.b} - here for relation in relations):
        yield "relations of the NICs"


_OF_NODE: tuple[tuple[str, Callable[[Case], object]], ...] = (
    ("devices on PCI", lambda case: case.machine.pci),
    ("ACS of devices without names", lambda case: case.machine.unnamed_acs),
    ("NICs", lambda case: case.machine.rdma or case.machine.interfaces),
    ("CPUs and memory of the host", lambda case: case.host.numa or case.host.memory_bytes),
    ("the kernel", lambda case: case.host.kernel),
    ("versions of the software", lambda case: case.machine.software),
    ("variables", lambda case: case.snapshot.environment),
    ("measured figures", lambda case: case.snapshot.measurements),
)
