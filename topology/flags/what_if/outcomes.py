"""What each value of a flag does on a node: a table and its conclusion."""

from __future__ import annotations

from collections.abc import Callable

from ...model.gathered import gathered
from ...model.page import Section
from ...nccl.decide.summary import duration, ring_hops
from ...nccl.prediction import Prediction
from ...nccl.wording import message_size
from ..catalogue.catalogue import Flag, FlagKind
from .effects import MEDIUM, SMALL, Comparison, PairGroup, described, time_of, untold
from .in_words import distance, hops_in_words, p2p_groups, ranks_in_words, ways
from .wording import ALIKE, NVLS_UNSURE, clause_of, took

IN_SHORT, CHANGES = "In short", "what changes"
"""Title of the summary, and head of the column with all that changes."""
VALUES = "What each value would do here"
"""Begin of the title of the section."""


def outcomes(
    flag: Flag, found: tuple[Comparison, ...], without: Prediction
) -> tuple[Section, Section]:
    """What each value does: in a paragraph, for a level of P2P, and as a table with remarks."""
    summary = _short(flag, found, without)
    brief = Section(title=IN_SHORT, paragraphs=(summary,) if summary else ())
    third = "P2P hops" if flag.kind.of_pairs else "ring"
    if flag.kind is FlagKind.TUNING:
        third = message_size(SMALL)
    head = ("value", CHANGES, third, message_size(MEDIUM))
    rows: list[tuple[str, ...]] = [head, _row("not set", "", without, None, third)]
    first: dict[str, str] = {}
    for comparison in found:
        value = comparison.changes[0].after or ""
        what = clause_of(comparison)
        same = None if comparison.effect.nothing or what == ALIKE else first.get(what)
        first.setdefault(what, value)
        if same is not None:
            what = f"the same as {same}{_absent(flag, value, without)}"
        row = _row(value, what, comparison.changed, comparison, third)
        if rows[-1][1:] == row[1:]:
            row = (f"{rows.pop()[0]} {value}", *row[1:])
        rows.append(row)
    timed = time_of(without, MEDIUM) is not None
    if not timed:
        kept = 2 if third == message_size(SMALL) else 3
        rows = [row[:kept] for row in rows]
    title = VALUES + (", with times of an all-reduce" * timed)
    remarks = tuple(_remarks(flag, found, without))
    return brief, Section(title=title, table=tuple(rows), paragraphs=remarks)


def _absent(flag: Flag, value: str, without: Prediction) -> str:
    """Say why a level does the same as the level below: no pair is exactly that far apart."""
    if not flag.is_level or any(pair.path == value for pair in without.pairs):
        return ""
    return f": no pair is {value}"


def _row(
    value: str, what: str, prediction: Prediction, of: Comparison | None, third: str
) -> tuple[str, ...]:
    hops = ring_hops(prediction)
    p2p = sum(count for (_, transport), count in hops.items() if transport == "P2P")
    cells = {
        "P2P hops": f"{p2p} of {hops.total()}" + " per node" * (prediction.nodes > 1),
        "ring": described(prediction.graphs.ring),
        message_size(SMALL): _took(prediction, of, SMALL),
    }
    return (value, what or "as above", cells[third], _took(prediction, of, MEDIUM))


def _took(prediction: Prediction, of: Comparison | None, bytes_: int) -> str:
    if prediction.failure:
        return "fails"
    value = time_of(prediction, bytes_)
    if of is None:
        return duration(value)
    if untold(prediction):
        return ""
    if value is None:
        lost = any(choice.bytes == bytes_ for choice in of.effect.choices)
        return "fails" if lost else duration(value)
    return "not known" if of.effect.blind else " ".join(took(of, bytes_))


def _remarks(flag: Flag, found: tuple[Comparison, ...], without: Prediction) -> list[str]:
    """Say what follows from the table."""
    title = without.library.name.upper()
    if time_of(without, MEDIUM) is None:
        return [f"Times are not predicted for {title} {without.library.version}."]
    if flag.of_channels:
        if all(untold(comparison.changed) for comparison in found):
            return []
        return [_channel_remark(title, found)]
    moved = [comparison for comparison in found if any(map(_moves, comparison.effect.pairs))]
    if any(comparison.without_nvls is not None for comparison in moved):
        return [NVLS_UNSURE]
    silent = [comparison for comparison in moved if not comparison.effect.times_changed]
    return _transport_remarks(title, moved, silent) if silent else []


def _channel_remark(title: str, found: tuple[Comparison, ...]) -> str:
    wider = any(
        (comparison.effect.channels[1] or 0) > (comparison.effect.channels[0] or 0)
        for comparison in found
    )
    really = (
        "More channels than that go over the same links once more and take more SMs from the "
        "program; they help where one channel does not fill its link."
        if wider
        else "With fewer of them the links are not filled, and large messages take longer "
        "than predicted."
    )
    return (
        f"{title}'s own model counts with the channels that the search found, so the time "
        f"stays the same whatever the cap. {really}"
    )


def _transport_remarks(title: str, moved: list[Comparison], silent: list[Comparison]) -> list[str]:
    """What the table does not say of the `moved` transports; `silent`: those of equal times."""
    shm = any(_pcie(group) for comparison in silent for group in comparison.effect.pairs)
    text = [
        f"Not known, where transports change and no predicted time does: {title}'s own model takes "
        "the speed of a hop from its table of links and does not ask by which transport the bytes "
        "go. The machine does ask."
    ]
    if shm:
        text.append(
            "Through shared memory a byte is written to the host's memory by one GPU and read "
            "from it by the other: two copies, and traffic on the memory that everybody shares. "
            "P2P over PCIe is one copy, but processors differ in how fast they pass PCIe traffic "
            "from one root port to another, and many are slow between sockets. Only a "
            "measurement tells which of the two is faster here."
        )
    more = [comparison for comparison in moved if comparison.effect.p2p_gained > 0]
    return [*text, *_ring_remarks(more[0])] if more and shm else text


def _ring_remarks(step: Comparison) -> list[str]:
    """What a first value with more P2P means for the ring and for smaller jobs."""
    value = step.changes[0].after
    text = [
        f"With {value} the ring takes {hops_in_words(step.changed)}. A ring is as fast as its "
        "slowest hop: while one hop stays on shared memory, an all-reduce over all GPUs "
        "gains little."
        if any(t == "SHM" for _, t in ring_hops(step.changed))
        else f"With {value} every hop of the ring is P2P."
    ]
    groups = p2p_groups(step.changed)
    if groups:
        text.append(
            f"With {value} GPUs {' and GPUs '.join(map(ranks_in_words, groups))} use nothing "
            "but P2P among themselves: a job on one such group gains or loses most."
        )
    return text


def _moves(group: PairGroup) -> bool:
    return group.before.transport != group.after.transport


PCIE_PATHS = ("PIX", "PXB", "PHB", "SYS")


def _pcie(group: PairGroup) -> bool:
    """Whether pairs on PCIe change between P2P and shared memory."""
    ways = {group.before.transport, group.after.transport}
    return ways == {"P2P", "SHM"} and group.before.path in PCIE_PATHS


PLACES = {
    "NVL": "joined by NVLink",
    "XGMI": "joined by xGMI",
    "NVB": "joined by NVLink through another GPU",
    "C2C": "joined by C2C",
    "PIX": "behind one PCIe switch",
    "PXB": "behind several PCIe switches",
    "PHB": "on one CPU",
    "SYS": "on two CPUs",
}
"""Path type -> where two GPUs are; "on" a CPU means that their path leads through it."""


CPU = ("PHB", "SYS")


# The summary of a flag in one paragraph.
def _short(flag: Flag, found: tuple[Comparison, ...], without: Prediction) -> str:
    """Say what a level of P2P means on this node; "" for other flags."""
    if not flag.p2p_level or not without.pairs:
        return ""
    text = _now(without)
    gains = [(comparison, _moved(comparison, gained=True)) for comparison in found]
    others = sum(len(pairs) for way, pairs in ways(without) if not way.p2p)
    parts: list[str] = []
    for comparison, moved in gains:
        if moved:
            every = len(moved) > 1 and sum(count for count, _ in moved) == others
            what = f"all {others}" if every else f"the {_counted(moved)}"
            parts.append(
                f"{comparison.changes[0].after} {'' if parts else 'would give it '}to {what}"
            )
    text += f" {', '.join(parts)}." if parts else ""
    text += _losses(found, without)
    if any(path in CPU for _, moved in gains for _, path in moved):
        text += (
            " Whether P2P through the CPU is faster than shared memory depends on the processor: "
            "measure both before you keep it."
        )
    return text


def _now(without: Prediction) -> str:
    """Say which pairs use P2P now, and which do not."""
    now = [(len(pairs), way.path) for way, pairs in ways(without) if way.p2p]
    rest = [(len(pairs), way) for way, pairs in ways(without) if not way.p2p]
    total = sum(count for count, _ in (*now, *rest))
    if not rest:
        kinds = " or ".join(map(_place, dict.fromkeys(path for _, path in now)))
        if total == 1:
            return f"The one pair is {kinds} and uses P2P as it is: no higher level adds any."
        return f"All {total} pairs are {kinds} and use P2P as it is: no higher level adds any."
    by = gathered((way.transport, (count, way.path)) for count, way in rest)
    others = ", ".join(f"{_placed(some)} go by {name}" for name, some in by.items())
    if not now:
        return f"None of the {total} pairs uses P2P: {others}."
    return f"Of {total} pairs, {_placed(now)} use P2P now; {others}."


def _losses(found: tuple[Comparison, ...], without: Prediction) -> str:
    """Say which values take P2P away, and from which pairs."""
    total = sum(len(pairs) for way, pairs in ways(without) if way.p2p)
    by: dict[str, list[str]] = {}
    for comparison in found:
        moved = _moved(comparison, gained=False)
        if moved:
            every = sum(count for count, _ in moved) == total
            what = f"all {total} that have it" if every else _counted(moved)
            what = "this pair" if total == 1 else what
            by.setdefault(what, []).append(str(comparison.changes[0].after))
    return "".join(
        f" {' and '.join(', '.join(values).rsplit(', ', 1))} would take it away from {what}."
        for what, values in by.items()
    )


def _moved(comparison: Comparison, *, gained: bool) -> list[tuple[int, str]]:
    """List (number of pairs, path type) of the pairs that gain P2P, or lose it."""
    found: dict[str, int] = {}
    for group in comparison.effect.pairs:
        then, now = group.before.p2p, group.after.p2p
        if (now and not then) if gained else (then and not now):
            found[group.before.path] = found.get(group.before.path, 0) + len(group.pairs)
    return [(count, path) for path, count in found.items()]


def _place(path: str) -> str:
    return f"{PLACES[path]} ({path})" if path in PLACES else path


def _placed(parts: list[tuple[int, str]]) -> str:
    return _listed(parts, _place)


def _counted(parts: list[tuple[int, str]]) -> str:
    return _listed(parts, str)


def _listed(parts: list[tuple[int, str]], named: Callable[[str], str]) -> str:
    """Count the pairs by path type, nearest first: "8 PHB and 16 SYS"."""
    merged: dict[str, int] = {}
    for count, path in parts:
        merged[path] = merged.get(path, 0) + count
    order = sorted(merged, key=distance)
    return " and ".join(f"{merged[path]} {named(path)}" for path in order)
