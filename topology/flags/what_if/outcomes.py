"""What each value of a flag does on a node: a table and its conclusion."""

from __future__ import annotations

from ...model.page import Section
from ...nccl.decide.summary import duration
from ...nccl.prediction import Prediction
from ...nccl.wording import message_size
from ..catalogue.catalogue import Flag
from .effects import MIB, ChoiceChange, Effect, PairGroup, described, time_of, untold
from .in_words import change, hops_in_words, p2p_groups, ranks_in_words, ring_hops
from .net_changes import nets_in_words
from .nothing import because, unpredicted
from .whatif import Comparison

SMALL, BIG = MIB, 256 * MIB
"""Sizes whose times are in the table; training sends messages of about the second size."""


NVLS_UNSURE = (
    "The first time holds if NVLS comes up without P2P, which is not known; the second holds if it "
    "does not, and with NCCL_NVLS_ENABLE=0."
)


VALUES = "What each value would do here"
"""Begin of the title of the section."""


def outcomes(flag: Flag, found: tuple[Comparison, ...], without: Prediction) -> Section:
    """Write the section on what each value does."""
    third = "P2P hops" if flag.kind in ("p2p", "shm", "paths") else "ring"
    if flag.kind == "tuning":
        third = message_size(SMALL)
    head = ("value", "what changes", third, message_size(BIG))
    rows: list[tuple[str, ...]] = [head, _row("not set", "", without, None, third)]
    rendered: dict[tuple[str, ...], str] = {}
    timed = time_of(without, BIG) is not None
    for comparison in found:
        value = comparison.changes[0].after or ""
        clauses = () if comparison.effect.nothing else tuple(parts(comparison.effect))
        same = rendered.get(clauses) if clauses else None
        what = (
            f"the same as {same}{_absent(flag, value, without)}"
            if same
            else clause_of(flag, comparison)
        )
        rendered.setdefault(clauses, value)
        row = _row(value, what, comparison.changed, comparison, third)
        if rows[-1][1:] == row[1:]:
            row = (f"{rows.pop()[0]} {value}", *row[1:])
        rows.append(row)
    if not timed:
        kept = 2 if third == message_size(SMALL) else 3
        rows = [row[:kept] for row in rows]
    return Section(
        title=VALUES + (", with times of an all-reduce" * timed),
        table=tuple(rows),
        paragraphs=tuple(remarks(flag, found, without)),
    )


def _absent(flag: Flag, value: str, without: Prediction) -> str:
    """Say why a level does the same as the level below: no pair is exactly that far apart."""
    if flag.type != "level" or any(pair.path == value for pair in without.pairs):
        return ""
    return f": no pair is {value}"


def clause_of(flag: Flag, comparison: Comparison) -> str:
    """Word a comparison as a clause."""
    effect = comparison.effect
    reading = comparison.changes[0].reading
    if effect.failure[1] and not effect.failure[0]:
        return f"the start fails: {effect.failure[1]}"
    if effect.nothing and reading is not None:
        if why := unpredicted(flag, reading, comparison.baseline, comparison.changed):
            return f"not predicted: {why}"
        return f"nothing: {because(flag, reading, comparison.baseline, comparison.changed)}"
    return "; ".join(parts(effect)) or "nothing that is predicted"


def taking_part(effect: Effect) -> str:
    """Say how many GPUs take part before and after."""
    before, after = effect.ranks
    take = "1 GPU takes part" if after == 1 else f"{after} GPUs take part"
    return f"{take} instead of {before}"


def parts(effect: Effect) -> list[str]:
    """Write clauses on everything that changes, the most important first."""
    found = [group_in_words(group) for group in effect.pairs]
    if effect.ranks[0] != effect.ranks[1]:
        found.append(taking_part(effect))
    if effect.nodes[0] != effect.nodes[1]:
        found.append(f"counts as {effect.nodes[1]} nodes")
    found += [
        f"{graph.graph}: another order of GPUs"
        if graph.order
        else f"{graph.graph} {graph.before} -> {graph.after}"
        for graph in effect.graphs
    ]
    if effect.channels[0] != effect.channels[1]:
        found.append(f"coll channels {effect.channels[0]} -> {effect.channels[1]}")
    if effect.choices:
        found.append(_choice(effect.choices))
    return found + nets_in_words(effect.nets)


def _choice(changes: tuple[ChoiceChange, ...]) -> str:
    """Word the change at the size that training sends, or at the first size that changes."""
    shown = next((c for c in changes if c.bytes == BIG), changes[0])
    what = (
        message_size(shown.bytes)
        if shown.collective == "AllReduce"
        else f"{shown.collective} {shown.bytes}"
    )
    if shown.after == "none":
        return f"{what}: nothing is left to choose, the call fails"
    return f"{what}: {shown.before} -> {shown.after}"


def group_in_words(group: PairGroup) -> str:
    """Say how one group changed: `4 PIX pairs: P2P -> SHM (path then PHB)`."""
    count = len(group.pairs)
    before, after = group.before, group.after
    head = f"{count} {before.path} pair{'s' * (count != 1)}"
    then = "" if after.path in (before.path, after.transport) else f" (path then {after.path})"
    if before.label == after.label:
        return f"{head}: {before.path} -> {after.path}" if then else head
    moved = (before.transport, after.transport)
    if before.transport == after.transport:
        moved = (before.label, after.label)
    return f"{head}: {moved[0]} -> {moved[1]}{then}"


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
    return (value, what or "as above", cells[third], _took(prediction, of, BIG))


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
    return " ".join(took(of, bytes_))


def took(comparison: Comparison, bytes_: int) -> tuple[str, str]:
    """Time after the change, and how much longer that is: "8.18 to 47.1 ms", "(2.1 to 12 x)".

    A range where the first figure holds only if NVLS comes up without P2P.
    """
    time = next(time for time in comparison.effect.times if time.bytes == bytes_)
    other = comparison.without_nvls
    slow = None if other is None else next(time for time in other.times if time.bytes == bytes_)
    if slow is None or slow.after_us is None or slow.share is None or time.share is None:
        return duration(time.after_us), f"({change(time.share)})"
    first, last = duration(time.after_us), duration(slow.after_us)
    if first.split()[-1] == last.split()[-1]:
        first = first.split()[0]
    low, high = change(time.share), change(slow.share)
    if low.endswith(" x longer") and high.endswith(" x longer"):
        low = low.removesuffix(" x longer")
    return f"{first} to {last}", f"({low} to {high})"


def remarks(flag: Flag, found: tuple[Comparison, ...], without: Prediction) -> list[str]:
    """Say what follows from the table."""
    title = without.library.name.upper()
    if time_of(without, BIG) is None:
        return [f"Times are not predicted for {title} {without.library.version}."]
    if flag.subject == "channels":
        if all(untold(comparison.changed) for comparison in found):
            return []
        return [_channel_remark(title, found)]
    moved = [
        comparison
        for comparison in found
        if any(_moves(group) for group in comparison.effect.pairs)
    ]
    if any(comparison.without_nvls is not None for comparison in moved):
        return [NVLS_UNSURE]
    silent = [comparison for comparison in moved if not comparison.effect.times_changed]
    return _transport_remarks(title, moved, silent, without) if silent else []


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


def _transport_remarks(
    title: str, moved: list[Comparison], silent: list[Comparison], without: Prediction
) -> list[str]:
    """What the table does not say of the `moved` transports; `silent`: those of equal times."""
    shm = any(_pcie(group) for comparison in silent for group in comparison.effect.pairs)
    which = "No value changes a predicted time" if silent == moved else "Not every time changes"
    text = [
        f"{which}, although transports change: {title}'s own model takes the speed of a hop from "
        "its table of links and does not ask by which transport the bytes go. The machine does "
        "ask."
    ]
    if shm:
        text.append(
            "Through shared memory a byte is written to the host's memory by one GPU and read "
            "from it by the other: two copies, and traffic on the memory that everybody shares. "
            "P2P over PCIe is one copy, but processors differ in how fast they pass PCIe traffic "
            "from one root port to another, and many are slow between sockets. Only a "
            "measurement tells which of the two is faster here."
        )
    more = [comparison for comparison in moved if _p2p(comparison.changed) > _p2p(without)]
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


def _pcie(group: PairGroup) -> bool:
    """Whether pairs on PCIe change between P2P and shared memory."""
    ways = {group.before.transport, group.after.transport}
    return ways == {"P2P", "SHM"} and group.before.path in ("PIX", "PXB", "PHB", "SYS")


def _p2p(prediction: Prediction) -> int:
    return sum(1 for pair in prediction.pairs if pair.transport == "P2P")
