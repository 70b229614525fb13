"""Devices that come, go and narrow, counters that grow, and figures that moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..diagnosis.case import Case
from ..diagnosis.shared.counters import both_readings, elapsed_seconds, growth
from ..expectation.judgement import TIMES
from ..fleet.outliers import LEAST_SHARE, STARTS
from ..fleet.section import FleetFigure
from ..model.english import first
from ..model.machine import Machine, PciKind
from ..model.page import SIMULATED
from ..model.readings import GpuReading
from ..model.record import by_address
from ..model.severity import BROKEN, NOTICE, SLOW
from ..model.units import figure as three
from ..model.units import ranged, seconds
from ..node import Node
from ..wiring.codes import has_a_row
from .record import ChangedPart, DiffSide, NodeChange, kind_of

MOST_NAMED = 4
NARROWING = (PciKind.NIC, PciKind.NVME, PciKind.SWITCH, PciKind.UPSTREAM)
"""PCIe functions whose lanes are compared; those of GPUs are among the facts."""
COUNTERS = {
    "pcie_replays": "PCIe replays",
    "corrected_volatile": "memory errors that ECC corrected",
    "uncorrected_volatile": "memory errors that ECC could not correct",
    "rows_remapped_corrected": "rows of memory remapped after corrected errors",
    "rows_remapped_uncorrected": "rows of memory remapped after uncorrected errors",
    "pages_retired_single": "pages retired after corrected errors",
    "pages_retired_double": "pages retired after uncorrected errors",
    "replay_errors": "NVLink replays",
    "recovery_errors": "NVLink recoveries",
    "crc_errors": "NVLink CRC errors",
    "errors": "xGMI errors",
}
GROWN = "the rules of check say how much is too much; growth under load is what counts"


def device_changes(before: Node, now: Node) -> Iterator[NodeChange]:
    """GPUs and NICs of one machine that went, came, or stand elsewhere; links that narrowed."""
    old, new = _gpus(before.machine), _gpus(now.machine)
    labels = {one: f"{before.devices.name(at)} at {at}" for one, at in old.items()}
    gone = [one for one in old if one not in new]
    came = [one for one in new if one not in old]
    if gone:
        yield NodeChange(
            part=ChangedPart.DEVICES,
            what=f"{ranged(before.devices.name(old[one]) for one in gone)} gone",
            before=first([labels[one] for one in gone], MOST_NAMED),
            now="",
            severity=BROKEN,
            meaning="a job that takes all GPUs starts with fewer, or not at all",
            devices=tuple(old[one] for one in gone),
        )
    if came:
        yield NodeChange(
            part=ChangedPart.DEVICES,
            what=f"{ranged(now.devices.name(new[one]) for one in came)} new",
            before="",
            now=first([f"{now.devices.name(new[one])} at {new[one]}" for one in came], MOST_NAMED),
            gain=not gone,
            devices=tuple(new[one] for one in came),
        )
    for one in (one for one in old if one in new and old[one] != new[one]):
        yield NodeChange(
            part=ChangedPart.DEVICES,
            what=f"{now.devices.name(new[one])} at another address",
            before=old[one],
            now=new[one],
            meaning="another slot, or another order of the buses: what names addresses is stale",
            devices=(new[one],),
        )
    yield from _nic_changes(before.machine, now.machine)
    yield from _narrowed(before, now)


def _gpus(machine: Machine) -> dict[tuple[str, str | None], str]:
    """The address of each GPU by what stays when it moves."""
    rows = (gpu for gpu in machine.gpus if has_a_row(gpu))
    return {(gpu.uuid or gpu.address, gpu.name): gpu.address for gpu in rows}


def _nic_changes(before: Machine, now: Machine) -> Iterator[NodeChange]:
    old, new = ({nic.name: nic.address or "" for nic in one.rdma} for one in (before, now))
    if not old or not (new or now.interfaces):
        return  # where none is listed, nobody knows whether somebody looked
    gone = [name for name in old if name not in new]
    came = [name for name in new if name not in old]
    if gone:
        yield NodeChange(
            part=ChangedPart.DEVICES,
            what=f"NIC {first(gone, MOST_NAMED)} gone",
            before=first([f"{name} {old[name]}".strip() for name in gone], MOST_NAMED),
            now="",
            severity=SLOW,
            meaning="a job over several nodes has fewer rails, and some GPUs no NIC near them",
            devices=tuple(filter(None, (old[name] for name in gone))),
        )
    if came:
        yield NodeChange(
            part=ChangedPart.DEVICES,
            what=f"NIC {first(came, MOST_NAMED)} new",
            before="",
            now=first([f"{name} {new[name]}".strip() for name in came], MOST_NAMED),
            gain=not gone,
        )


def _narrowed(before: Node, now: Node) -> Iterator[NodeChange]:
    old = by_address(one for one in before.machine.pci if one.kind in NARROWING)
    for device in now.machine.pci:
        known = old.get(device.address)
        if known is None or None in (known.link_width_now, device.link_width_now):
            continue
        then, lanes = known.link_width_now or 0, device.link_width_now or 0
        if then != lanes:
            yield NodeChange(
                part=ChangedPart.WIRING,
                what=f"PCIe lanes of {now.devices.name(device.address)}",
                before=f"x{then}",
                now=f"x{lanes}",
                severity=SLOW if lanes < then else NOTICE,
                gain=lanes > then,
                meaning="what goes over this link is slower" * (lanes < then),
                devices=(device.address,),
            )


def counter_changes(before: Node, now: Node) -> Iterator[NodeChange]:
    """Error counters of one machine that grew between two readings of it, by counter."""
    case = Case(now, earlier=before.snapshot)
    elapsed = elapsed_seconds(case)
    if elapsed is None:
        return
    grown: dict[str, dict[str, int]] = {}
    for gpu, new, old in both_readings(case):
        for name, count in _grown(new, old).items():
            if count:
                grown.setdefault(name, {})[gpu.address] = count
    for name, by_gpu in grown.items():
        told = [f"{now.devices.name(gpu)} +{count:,}" for gpu, count in by_gpu.items()]
        yield NodeChange(
            part=ChangedPart.COUNTERS,
            what=COUNTERS[name],
            before="",
            now=f"{first(told, MOST_NAMED)} in {seconds(elapsed)}",
            meaning=GROWN,
            devices=tuple(by_gpu),
        )


def _grown(new: GpuReading, old: GpuReading) -> Mapping[str, int]:
    """How much each counter of a GPU grew, those of its links added."""
    found = dict(growth(new, old, ("pcie_replays",)))
    if new.ecc is not None and old.ecc is not None:
        names = tuple(name for name in COUNTERS if name in new.ecc.__struct_fields__)
        found |= growth(new.ecc, old.ecc, names)
    links = {link.link: link for link in old.nvlinks}
    pairs = [(link, links[link.link]) for link in new.nvlinks if link.link in links]
    wires = {wire.remote_address: wire for wire in old.xgmi}
    ends = [(w, wires[w.remote_address]) for w in new.xgmi if w.remote_address in wires]
    for after, prior in pairs:
        for name, count in growth(
            after, prior, ("replay_errors", "recovery_errors", "crc_errors")
        ).items():
            found[name] = found.get(name, 0) + count
    for wire, earlier in ends:
        for name, count in growth(wire, earlier, ("errors",)).items():
            found[name] = found.get(name, 0) + count
    return found


def figure_changes(before: DiffSide, now: DiffSide) -> Iterator[NodeChange]:
    """Measured figures that moved by more than runs on one healthy node differ.

    The worst of each kind is compared. LEAST_SHARE is the limit by which a fleet names outliers.
    """
    old = {_key(one): one for one in before.figures}
    for new in now.figures:
        known = old.get(_key(new))
        if known is None or new.unit == STARTS:
            continue
        change = new.worst / known.worst - 1.0
        if abs(change) <= LEAST_SHARE:
            continue
        worse = (change > 0) == (new.unit in TIMES)
        healthy = "" if new.healthy is None else f"; healthy is {three(new.healthy)} ({new.basis})"
        where = f" at {new.at}" if new.at and worse else ""
        yield NodeChange(
            part=ChangedPart.FIGURES,
            what=kind_of(new).name,
            before=f"{three(known.worst)} {known.unit}" + _made_up(before),
            now=f"{three(new.worst)} {new.unit}" + _made_up(now),
            severity=SLOW if worse else NOTICE,
            gain=not worse,
            meaning=f"{abs(change):.0%} ".replace("%", " %")
            + f"{'more' if change > 0 else 'less'}{where}{healthy}",
        )


def _made_up(side: DiffSide) -> str:
    return f" ({SIMULATED})" * side.simulated


def unmeasured(before: DiffSide, now: DiffSide) -> Sequence[tuple[str, DiffSide]]:
    """Kinds of figures that one of the two has, each with the side that has none."""
    old, new = ({_key(one): kind_of(one).name for one in side.figures} for side in (before, now))
    return (
        *((name, now) for key, name in old.items() if key not in new),
        *((name, before) for key, name in new.items() if key not in old),
    )


def _key(one: FleetFigure) -> tuple[str, str, str]:
    return one.key, one.over, one.unit
