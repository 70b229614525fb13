"""Facts that differ: hardware, wiring, driver, firmware and settings, by category and place."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ..diagnosis.case import Case
from ..flags.what_if.in_words import pairs_in_words
from ..fleet.fleet import HARM, MOST_WORDS, TOLERANCE, family_of, gpus_in
from ..fleet.making import HOST_MEMORY
from ..fleet.section import CATEGORIES
from ..model.english import plural
from ..model.severity import BROKEN, NOTICE, SLOW
from ..model.units import ranged
from ..wiring.codes import has_a_row
from .record import ChangedPart, DiffRelation, DiffSide, NodeChange, Uncompared

ENVIRONMENT, WIRING = "environment", "wiring"
LISTS = ("modules", "kernel command line", "memory peers", "registry keys of the driver")
"""Facts that are words in no order: only those that come and go are told."""
ROWS = {
    "NVLinks up": "NVLinks up",
    "PCIe lanes of the GPUs": "PCIe lanes",
}
"""Facts with a number for each GPU, and what one of them is called."""
TOLD_AS_DEVICES = ("GPUs", "NICs")
TOLD_AS_LIBRARY = ("NCCL", "RCCL")
LESS_IS_WORSE = frozenset(
    {
        *ROWS, "GPU memory", "BAR1", "PCIe of the GPUs", "power limit", "highest SM clock",
        "highest memory clock", "locked memory", "cores",
    }
)  # fmt: skip
GPUS, NONE = "GPUs", "none"
TO_GPUS, TO_NICS = " to the GPUs", " to the NICs"
"""How the name of a row of relations ends."""
FAR = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Codes of ways over PCIe, the nearest first."""
UNNAMED = "unnamed"
ACTIVE = "ACTIVE"
MEANS = {
    "NVLinks up": "fewer links carry what GPUs send each other",
    "PCIe lanes of the GPUs": "copies between this GPU and the host, or a NIC, are slower",
    "PCIe of the GPUs": "copies to the host and to NICs are slower",
    "NIC ports": "a job over several nodes loses this port, or waits for it",
    "GPU memory": "a job that fitted may not fit",
    "BAR1": "GPUDirect RDMA maps GPU memory through it",
    "power limit": "GPUs are slower under load",
    "highest SM clock": "GPUs compute more slowly",
    "highest memory clock": "GPU memory is slower",
    "PCIe functions with ACS on": "copies between GPUs over PCIe may go through the CPU",
    "IOMMU": "DMA may be translated: GPUDirect and P2P over PCIe depend on it",
    "fabric manager": "NVLink through NVSwitches needs it",
    "locked memory": "RDMA may fail to register memory",
    "driver": "P2P, speed and known faults depend on it: measure again",
    "ECC": "it costs memory bandwidth, and without it errors stay hidden",
    "MIG": "a job finds other GPUs",
    "compute mode": "a second process on a GPU may be refused",
    "compute partition": "a job finds another number of GPUs",
    "kernel": "its drivers and its limits come with it",
}
OF_CATEGORY = {
    "hardware": "a node of other hardware has other figures",
    "wiring": "the library may choose other paths",
    "driver": "behaviour and known faults depend on the version",
    "firmware": "behaviour and known faults depend on the version; equal nodes want one",
    "settings": "the node may behave otherwise under load",
}
_PLACES = re.compile(r" at (?:GPU|port )\d+(?:, (?:GPU|port )\d+)*")
_NUMBER = re.compile(r"\d+(?:\.\d+)?|unlimited")


def fact_changes(before: DiffSide, now: DiffSide, relation: DiffRelation) -> Iterator[NodeChange]:
    """What both tell and what differs. A variable is no fact here: it has a change of its own."""
    by_design = relation not in (DiffRelation.SAME, DiffRelation.SISTER)
    apart = _told_apart(before, now, relation)
    for category in CATEGORIES:
        if category == ENVIRONMENT or (category == WIRING and _other_gpus(before, now)):
            continue
        old, new = before.facts.get(category, {}), now.facts.get(category, {})
        other = {
            what: (old[what], new[what])
            for what in old
            if what in new and old[what] != new[what] and what not in apart
        }
        rows = {what: values for what, values in other.items() if what.endswith(TO_GPUS)}
        yield from _relations(rows, read=_links_read(before) and _links_read(now))
        for what, values in other.items():
            if what == GPUS:
                yield from _gpus(before, now)
            elif what not in rows and not _of_other_nics(what, *values):
                for change in _changed(ChangedPart(category), what, *values, now):
                    yield _by_design(change) if by_design else change
    yield from _memory(before, now, by_design=by_design)


def _told_apart(before: DiffSide, now: DiffSide, relation: DiffRelation) -> tuple[str, ...]:
    """Facts that have a change of their own, which says more."""
    if before.node is None or now.node is None:
        return ()
    return TOLD_AS_LIBRARY + TOLD_AS_DEVICES * (relation is DiffRelation.SAME)


def _memory(before: DiffSide, now: DiffSide, *, by_design: bool) -> Iterator[NodeChange]:
    old, new = (side.sizes.get(HOST_MEMORY) for side in (before, now))
    if old and new and abs(new - old) > TOLERANCE * old:
        values = (f"{old:.0f} GiB", f"{new:.0f} GiB")
        change = _change(ChangedPart.HARDWARE, HOST_MEMORY, *values, 1 if new > old else -1)
        yield _by_design(change) if by_design else change


def _gpus(before: DiffSide, now: DiffSide) -> Iterator[NodeChange]:
    """Another product, or fewer of it; a text that lists no GPU does not say that there is none."""
    if any(not side.product and not _asked(side) for side in (before, now)):
        return
    if not _other_gpus(before, now):
        return  # one does not name its GPUs
    fewer = gpus_in(now.product) < gpus_in(before.product)
    alike = family_of(now.product) == family_of(before.product) or not now.product
    yield NodeChange(
        part=ChangedPart.DEVICES,
        what="GPUs",
        before=before.product or NONE,
        now=now.product or NONE,
        severity=BROKEN if fewer and alike else NOTICE,
        gain=not fewer and alike,
        meaning="a job that takes all GPUs starts with fewer, or not at all" * (fewer and alike),
    )


def _asked(side: DiffSide) -> bool:
    """Whether gputop itself looked for GPUs there."""
    return side.node is None or Case(side.node).on_node


def _by_design(change: NodeChange) -> NodeChange:
    """A fact of what may be another kind of machine, neither worse nor better by it."""
    return msgspec.structs.replace(change, severity=NOTICE, gain=False, meaning="")


def _links_read(side: DiffSide) -> bool:
    """Whether the links of all its GPUs were read, or a text shows the codes themselves."""
    if side.node is None:
        return "NVLinks up" in side.facts.get(WIRING, {})
    machine = side.node.machine
    gpus = [gpu for gpu in machine.gpus if has_a_row(gpu)]
    return bool(machine.relations) or all(gpu.nvlinks or gpu.xgmi for gpu in gpus)


def _relations(rows: Mapping[str, tuple[str, str]], *, read: bool) -> Iterator[NodeChange]:
    """The pairs of GPUs whose codes are other, by the old and the new code.

    Where links were not read, a code of PCIe proves no loss of a link, and the pair is left out.
    """
    moved: dict[tuple[str, str], set[tuple[int, int]]] = {}
    for place, (old, new) in enumerate(rows.values()):
        row = int(number[0]) if (number := _NUMBER.findall(list(rows)[place])) else place
        for column, (one, other) in enumerate(zip(old.split(), new.split(), strict=False)):
            if one != other:
                pair = (row, column) if row < column else (column, row)
                moved.setdefault((one, other), set()).add(pair)
    for (one, other), pairs in moved.items():
        farther = _distance(other) - _distance(one)
        if not read and (one in FAR) != (other in FAR):
            continue
        yield NodeChange(
            part=ChangedPart.WIRING,
            what=f"{plural(len(pairs), 'pair')} of GPUs ({pairs_in_words(pairs)})",
            before=one,
            now=other,
            severity=SLOW if farther > 0 else NOTICE,
            gain=farther < 0,
            meaning="the way between them, by the codes of nvidia-smi topo -m",
        )


def _distance(code: str) -> float:
    """How far two devices are apart by their code; several NVLinks are nearer than one."""
    if code in FAR:
        return 1.0 + FAR.index(code)
    links = code.lstrip("NVXGMI")
    return 1.0 / (1.0 + int(links)) if links.isdecimal() and len(links) < 4 else 0.0


def _of_other_nics(what: str, old: str, new: str) -> bool:
    """Whether a fact has a value for each NIC, and the NICs are others: those are told."""
    of_nics = what.endswith(TO_NICS) or what == "NUMA nodes of the NICs"
    return of_nics and len(old.split()) != len(new.split())


def uncompared_facts(
    before: DiffSide, now: DiffSide, relation: DiffRelation
) -> Iterator[Uncompared]:
    """Facts that one of the two does not tell, by category and by who does not.

    Two kinds of machine do not have the same facts, and none of them is missed.
    """
    if relation is DiffRelation.OTHER:
        return
    for category in CATEGORIES:
        if category == ENVIRONMENT:
            continue
        old, new = before.facts.get(category, {}), now.facts.get(category, {})
        for has, lacks, side in ((old, new, now), (new, old, before)):
            what = tuple(one for one in has if one not in lacks and not _of_what_is_gone(one))
            if what:
                yield Uncompared(part=category, what=what, why=f"{side.name} does not tell it")
    if _other_gpus(before, now):
        why = "their GPUs are not the same"
        yield Uncompared(part=WIRING, what=("the place of each device",), why=why)


def _of_what_is_gone(what: str) -> bool:
    """Whether a fact is there with its device alone, whose going is told."""
    return what.startswith("firmware of ")


def _other_gpus(before: DiffSide, now: DiffSide) -> bool:
    """Whether places cannot be held beside each other: one has more GPUs, or another kind."""
    if any(UNNAMED in side.product for side in (before, now)):
        return gpus_in(before.product) != gpus_in(now.product)
    return before.product != now.product


def _changed(
    part: ChangedPart, what: str, old: str, new: str, now: DiffSide
) -> Iterator[NodeChange]:
    if what in LISTS:
        then, since = old.split(), new.split()
        old = " ".join(word for word in then if word not in since)
        new = " ".join(word for word in since if word not in then)
        if old or new:
            yield _change(part, what, old, new, 0)
        return
    rows = old.split(), new.split()
    if what in ROWS and len(rows[0]) == len(rows[1]):
        moved: dict[tuple[str, str], list[int]] = {}
        for place, (one, other) in enumerate(zip(*rows, strict=True)):
            if one != other and "?" not in (one, other):
                moved.setdefault((one, other), []).append(place)
        for (one, other), places in moved.items():
            found = _change(part, what, one, other, _side(what, one, other))
            named = f"{ROWS[what]} of {ranged(f'GPU{place}' for place in places)}"
            yield msgspec.structs.replace(found, what=named, devices=_at(now, places))
        return
    yield _change(part, what, old, new, _side(what, old, new))


def _at(side: DiffSide, places: Sequence[int]) -> tuple[str, ...]:
    """The addresses of GPUs by their places."""
    if side.node is None:
        return ()
    gpus = [gpu.address for gpu in side.node.machine.gpus if has_a_row(gpu)]
    return tuple(gpus[place] for place in places if place < len(gpus))


def _change(part: ChangedPart, what: str, old: str, new: str, side: int) -> NodeChange:
    """`side`: below 0 where the second is worse, above 0 where it is better."""
    severity = HARM.get(what, (SLOW, ""))[0] if side < 0 else NOTICE
    return NodeChange(
        part=part,
        what=what,
        before=old[:MOST_WORDS],
        now=new[:MOST_WORDS],
        severity=severity,
        gain=side > 0,
        meaning="" if side > 0 else MEANS.get(what, OF_CATEGORY[part]),
    )


def _side(what: str, old: str, new: str) -> int:
    """Whether the second is worse (-1), better (1), or neither is proven (0)."""
    if what == "NIC ports":
        whole = [value.count(ACTIVE) == 1 + value.count(";") for value in (old, new)]
        return whole[1] - whole[0]
    if what not in LESS_IS_WORSE:
        return 0
    least = [_least(value) for value in (old, new)]
    return (least[1] > least[0]) - (least[1] < least[0])


def _least(value: str) -> float:
    """The lowest of its numbers, those of places left out; of Gen5 x16 their product."""
    each = (_NUMBER.findall(part) for part in _PLACES.sub("", value).split(";"))
    found = [
        math.prod(math.inf if one == "unlimited" else float(one) for one in numbers)
        for numbers in each
        if numbers
    ]
    return min(found, default=math.inf)
