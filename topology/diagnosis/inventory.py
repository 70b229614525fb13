"""What was read of a node, thing by thing: a verdict is no better than this list.

A thing is what a person would name, such as the relations of the GPUs or their memory errors. It
counts as read where any examined device has it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from ..expectation.links import pcie_gbs
from ..model import quantities
from ..model.machine import Gpu
from ..model.readings import EccCounts, GpuReading
from ..model.record import Record
from ..model.snapshot import DataVerdict, Measurement
from ..model.units import figure as three
from ..wiring.codes import UNKNOWN
from ..wiring.wires import PCIE_GTS
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


_MOST_FIGURES = 2
_OF_PAIRS = {quantities.WRITE: 1.0, quantities.READ: 1.0, quantities.TOGETHER: 2.0}
"""Copies between GPUs, with the number of directions that the value adds up."""


def seen(case: Case) -> str:
    """What a text shows, in one phrase: models, what joins them, and figures with their pace."""
    models = Counter(gpu.name or "GPU of unknown model" for gpu in case.gpus)
    parts = [f"{count} x {name}" for name, count in models.items()]
    codes = sorted({pair.code for pair in case.pairs} - {UNKNOWN})
    if codes and any(what == "relations of the GPUs" for what in _of_pairs(case)):
        parts[-1] += f" joined by {', '.join(codes)}"
    parts += [*_figures(case)][:_MOST_FIGURES]
    return ", ".join(parts) or f"{', '.join(read_of(case))}"


def _figures(case: Case) -> Iterator[str]:
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for figure in case.snapshot.measurements:
        if figure.credible and figure.unit:
            groups.setdefault((figure.quantity, figure.unit), []).append(figure)
    done = [f for f in case.snapshot.measurements if f.verdict == DataVerdict.FINISHED]
    if passed := sum("pasted" in figure.details for figure in done):
        yield f"{passed} tests of DCGM that passed"
    for (quantity, unit), figures in groups.items():
        most = max(figure.bytes_per_copy or 0 for figure in figures)
        values = [f.value or 0.0 for f in figures if (f.bytes_per_copy or 0) == most]
        low, high = three(min(values)), three(max(values))
        span = low if low == high else f"{low} to {high}"
        yield f"{quantity.replace('_', ' ')} {span} {unit}{_pace(quantity, values)}"


def _pace(quantity: str, values: Sequence[float]) -> str:
    """The fastest PCIe link of 16 lanes that all these copies beat; "" for those of other links."""
    ways = _OF_PAIRS.get(quantity, 0.0)
    beaten = [gen for gen in (3, 4, 5) if min(values) > (pcie_gbs(gen, 16) or 0.0) * ways > 0.0]
    if not beaten or max(values) > (pcie_gbs(max(PCIE_GTS), 16) or 0.0) * ways:
        return ""
    return f" (more than PCIe {beaten[-1]}.0 x16 carries)"


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
