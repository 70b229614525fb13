"""The effect of changed variables in words: one wording for a page, a row and a banner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ...hardware.terms import library_terms
from ...model.copied import REFUSED
from ...model.english import plural
from ...model.page import Section
from ...model.versions import numbers
from ...nccl.decide.summary import duration
from ...nccl.prediction import Prediction
from ...nccl.wording import message_size
from ..catalogue.catalogue import Flag, FlagKind, catalogue
from ..values.values import Reading
from .changes import changes_in_words, of_variables, version_of
from .effects import (
    ALL_REDUCE,
    BIG,
    MEDIUM,
    NONE,
    Change,
    ChoiceChange,
    Comparison,
    Effect,
    PairGroup,
    choice_of,
    described,
    named,
    untold,
)
from .in_words import NEAR, change, pairs_in_words

NO_LIBRARY = (("images",), ("builds",))
MOST = 3
"""Clauses of the brief; the rest is on the Flags screen."""
MOST_GROUPS = 8
ALIKE = "nothing that is predicted"
NOTHING, NO_DECISION = "nothing changes", "no decision changes"
_OF_NETWORKS = ("NCCL_CROSS_NIC", "NCCL_COLLNET_ENABLE")
FLOOR_TIMES = (
    "No times: NCCL's search finds no ring at any rate of its table, and its model of time stands "
    "on that floor."
)
NVLS_UNSURE = (
    "The first time holds if NVLS comes up without P2P, which is not known; the second holds if it "
    "does not, and with NCCL_NVLS_ENABLE=0."
)


def sections(comparison: Comparison) -> tuple[Section, ...]:
    """The page of an effect: what changes, times by size, and the line to copy."""
    set_to = changes_in_words(changes_of(comparison))
    bullets = [
        f"{one.name}={one.after}: {one.reading.why}"
        for one in comparison.changes
        if one.reading is not None and one.reading.why and not one.reading.ignored
    ]
    title = f"What changes with {set_to}" if set_to else "Nothing is changed"
    found = [Section(title=title, bullets=(*bullets, *everything(comparison)))]
    if comparison.effect.has_times and not comparison.effect.blind:
        unsure = (NVLS_UNSURE,) if comparison.without_nvls is not None else ()
        rows = times(comparison)
        if any(map(_at_floor, (comparison.baseline, comparison.changed))):
            rows, unsure = (), (FLOOR_TIMES,)
        found.append(Section(title="Predicted all-reduce", table=rows, paragraphs=unsure))
    if of_variables(changes_of(comparison)):
        found.append(Section(title="To set it up", paragraphs=(comparison.export or REFUSED,)))
    return tuple(found)


def _at_floor(made: Prediction) -> bool:
    ring = made.graphs.ring
    return ring is not None and ring.at_floor


def everything(comparison: Comparison) -> tuple[str, ...]:
    """What changes, in a sentence or clause each; the reason when nothing does."""
    effect = comparison.effect
    if effect.failure[1]:
        return (f"The start fails: {effect.failure[1]}.",)
    if effect.nothing:
        reasons = tuple(_nothing(one, comparison) for one in comparison.changes)
        return reasons or ("The predictions are the same.",)
    found = [f"The start no longer fails: {effect.failure[0]}"] if effect.failure[0] else []
    groups = [f"{_group(one)}: {pairs_in_words(one.pairs)}" for one in effect.pairs[:MOST_GROUPS]]
    found += _clauses(comparison, [_pairs(effect)] * bool(effect.pairs_total) + groups)
    if effect.pairs and effect.has_times and not effect.times_changed:
        library = library_terms(comparison.changed.library.name).library
        times = "the times are not known" if effect.blind else "the predicted times stay"
        found.append(
            f"{times}: {library}'s model does not ask by which transport bytes go; measure it"
        )
    return tuple(found)


def _pairs(effect: Effect) -> str:
    left = " that are left" * (effect.ranks[0] != effect.ranks[1])
    if effect.pairs:
        return f"{effect.pairs_changed} of {effect.pairs_total} pairs change"
    if left and effect.pairs_total == 1:
        return "the one pair that is left keeps its path and transport"
    return f"none of {effect.pairs_total} pairs{left} changes its path or transport"


def _nothing(one: Change, comparison: Comparison) -> str:
    flag = catalogue().flag(one.name)
    if flag is not None and one.reading is not None:
        return f"{one.name}: {no_effect(flag, one.reading, comparison).clause}."
    why = "the predictions are the same" if one.reading is None else f"it is {one.reading.why}"
    return f"{one.name}: {NoEffect(True, why).clause}."


def _proven(one: Change, comparison: Comparison) -> bool:
    """Whether equal predictions prove that a change changes nothing."""
    flag = catalogue().flag(one.name)
    if flag is None or one.reading is None:
        return True
    return no_effect(flag, one.reading, comparison).predicted


def clause_of(comparison: Comparison) -> str:
    """Everything that changes as one clause of a table; the reason when nothing does."""
    effect, one = comparison.effect, comparison.changes[0]
    if effect.failure[1] and not effect.failure[0]:
        return f"the start fails: {effect.failure[1]}"
    flag = catalogue().flag(one.name)
    if effect.nothing and one.reading is not None and flag is not None:
        found = no_effect(flag, one.reading, comparison)
        return f"{'nothing' if found.predicted else 'not predicted'}: {found.why}"
    return "; ".join(parts(comparison)) or ALIKE


def parts(comparison: Comparison) -> list[str]:
    """Everything that changes, a clause each, without the pairs by name; [] for times alone."""
    effect = comparison.effect
    found = _clauses(comparison, [_group(group) for group in effect.pairs])
    return [*found, _choice(effect.choices)] if effect.choices else found


def brief(comparison: Comparison, cost: str | None = None) -> tuple[str, ...]:
    """The most important clauses: for a banner, a row, a line.

    `cost`: what an all-reduce costs with the changes, in words; None for its predicted time.
    """
    effect = comparison.effect
    if effect.failure[1]:
        return (f"the start fails: {effect.failure[1]}",)
    if effect.nothing:
        if not all(_proven(one, comparison) for one in comparison.changes):
            return ("what it does is not predicted",)
        readings = filter(None, (one.reading for one in comparison.changes))
        why = next((f": {read.why}" for read in readings if read.ignored and read.why), "")
        return (f"{NOTHING}{why}",)
    costs = _time(comparison) if cost is None else [cost] * bool(cost)
    found = _clauses(comparison, [*_p2p(comparison), *costs], orders=False)
    pairs = effect.pairs
    if version_of(changes_of(comparison)):
        # Versions word the same way differently.
        pairs = tuple(one for one in pairs if one.before.decides != one.after.decides)
    if pairs and not found:
        count = sum(len(group.pairs) for group in pairs)
        found.append(f"{count} of {effect.pairs_total} pairs go another way")
    brief_ = tuple(clause.replace(" -> ", " → ") for clause in found[:MOST])
    return brief_ or ("another choice for some sizes" if effect.choices else NO_DECISION,)


def _clauses(comparison: Comparison, pairs: Iterable[str], *, orders: bool = True) -> list[str]:
    """What changes, a clause each; `pairs`: what is said of pairs of GPUs.

    `orders`: also the graphs of which the order of GPUs alone differs.
    """
    effect = comparison.effect
    found = []
    before, after = effect.ranks
    if before != after:
        take = "1 GPU takes part" if after == 1 else f"{after} GPUs take part"
        found.append(f"{take} instead of {before}")
    found += pairs
    before, after = effect.nodes
    if before != after:
        library = library_terms(comparison.changed.library.name).library
        found.append(f"{library} counts {plural(after, 'node')} instead of {before}")
    for graph in effect.graphs:
        if not graph.order:
            found.append(f"{graph.graph} {graph.before} -> {graph.after}")
        elif orders:
            found.append(f"{graph.graph}: another order of GPUs")
    if effect.channels[0] != effect.channels[1]:
        found.append(f"coll channels {effect.channels[0]} -> {effect.channels[1]}")
    if comparison.changed.hosts > 1 or not version_of(changes_of(comparison)):
        # Versions differ in which NICs they count within one host, where none is used.
        found += [f"{plural(count, 'GPU-NIC pair')}: {what}" for what, count in effect.nets]
    return found


def changes_of(comparison: Comparison) -> dict[str, str | None]:
    """The changes that led from one prediction to the other."""
    return {one.name: one.after for one in comparison.changes}


def _group(group: PairGroup) -> str:
    """How one group changed: `4 PIX pairs: P2P -> SHM (path then PHB)`."""
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


def _choice(changes: tuple[ChoiceChange, ...]) -> str:
    """The change at the size that training sends, or at the first size that changes."""
    shown = next((c for c in changes if c.bytes == MEDIUM), changes[0])
    what = f"{shown.collective} {shown.bytes}"
    if shown.collective == ALL_REDUCE:
        what = message_size(shown.bytes)
    if shown.after == NONE:
        return f"{what}: nothing is left to choose, the call fails"
    return f"{what}: {shown.before} -> {shown.after}"


def p2p_pairs(prediction: Prediction) -> tuple[int, int]:
    """Unordered pairs of GPUs that use P2P, and all of them."""
    pairs = [pair for pair in prediction.pairs if pair.src < pair.dst]
    return sum(pair.p2p for pair in pairs), len(pairs)


def _p2p(comparison: Comparison) -> list[str]:
    before, _ = p2p_pairs(comparison.baseline)
    after, total = p2p_pairs(comparison.changed)
    if before == after:
        return []
    if after > before:
        return [f"P2P for {after - before} more pairs ({after} of {total})"]
    return [f"P2P for {after} of {total} pairs ({before} today)"]


def _time(comparison: Comparison) -> list[str]:
    time = next((time for time in comparison.effect.times if time.bytes == BIG), None)
    if time is None or (time.before_us is None and time.after_us is None):
        return []
    size = f"all-reduce {message_size(BIG)}"
    if time.after_us is None:
        return [f"{size} fails"]
    if not time.same:
        moved = f"{duration(time.before_us)} → {duration(time.after_us)}, {change(time.share)}"
        return [f"{size} {moved} (predicted)"]
    # The model takes a hop's speed from its links, whatever transport the bytes go by.
    library = comparison.changed.library.name.upper()
    if comparison.effect.blind:
        return [f"{size}: time not known"]
    return [f"{size}: same time in {library}'s model"] * bool(comparison.effect.pairs)


def times(
    comparison: Comparison, before: str = "before", after: str = "after"
) -> tuple[tuple[str, ...], ...]:
    """Time and choice of an all-reduce by size, a row each; the head names both sides."""
    rows = [("size", before, after, "time", "chosen")]
    for time in comparison.effect.times:
        old = named(choice_of(comparison.baseline, time.bytes))
        new = named(choice_of(comparison.changed, time.bytes))
        lasts, longer = took(comparison, time.bytes)
        longer = longer.strip("()") if time.after_us is not None else "fails"
        chosen = new if old == new else f"{old} -> {new}"
        rows.append((message_size(time.bytes), duration(time.before_us), lasts, longer, chosen))
    return tuple(rows)


def took(comparison: Comparison, bytes_: int) -> tuple[str, str]:
    """Time after the change, and how much longer that is: "8.18 to 47.1 ms", "(2.1 to 12 x)".

    A range where the first figure holds only if NVLS comes up without P2P.
    """
    time = next(time for time in comparison.effect.times if time.bytes == bytes_)
    other = comparison.without_nvls
    slow = None if other is None else next(time for time in other.times if time.bytes == bytes_)
    if slow is None or slow.share is None or time.share is None:
        return duration(time.after_us), f"({change(time.share)})"
    first, last = duration(time.after_us), duration(slow.after_us)
    if first.split()[-1] == last.split()[-1]:
        first = first.split()[0]
    low, high = change(time.share), change(slow.share)
    if low.endswith(" x longer") and high.endswith(" x longer"):
        low = low.removesuffix(" x longer")
    return f"{first} to {last}", f"({low} to {high})"


class NoEffect(NamedTuple):
    """Why two predictions are equal although a variable changed."""

    predicted: bool
    """Whether that proves that nothing changes."""
    why: str
    """A clause in lower case without a full stop."""

    @property
    def clause(self) -> str:
        """Both in one clause."""
        if self.predicted:
            return f"nothing changes here, because {self.why}"
        return f"what it does is not predicted: {self.why}"


def no_effect(flag: Flag, reading: Reading, comparison: Comparison) -> NoEffect:
    """Why a variable changes nothing that is predicted on a node."""
    before = comparison.baseline
    if reading.ignored:
        return NoEffect(True, reading.why)
    if flag.program:
        return NoEffect(False, f"{flag.program.title} reads it, and no collective library")
    if flag.libraries in NO_LIBRARY:
        return NoEffect(True, "no library reads it at run time")
    if before.choices and untold(comparison.changed):
        library = comparison.changed.library
        title = f"{library.name.upper()} {library.version}"
        return NoEffect(False, f"under it the choices of {title} are not followed")
    if not flag.of_library or flag.of_rocm:
        return NoEffect(False, "it does not enter into the decisions that are predicted here")
    if flag.p2p_level:
        return NoEffect(True, _level(reading, before, _default(flag, before)))
    if flag.name in SPECIAL:
        return NoEffect(True, SPECIAL[flag.name](reading, before))
    if flag.name.startswith("RCCL_MSCCL"):
        what = "MSCCL and MSCCL++ are not timed; what is assumed says which sizes they run"
        return NoEffect(False, what)
    return _of_kind(flag, before)


def _of_kind(flag: Flag, before: Prediction) -> NoEffect:
    """Why no variable of this kind changes anything here."""
    if flag.kind is FlagKind.NONE:
        return NoEffect(False, "the prediction does not model it")
    if flag.kind.of_networks or flag.name in _OF_NETWORKS:
        return NoEffect(True, _network(before))
    channels = flag.of_channels
    if not before.choices and (channels or flag.kind is FlagKind.TUNING):
        library = before.library.name.upper()
        return NoEffect(False, f"channels and algorithms are not predicted for {library}")
    if channels:
        return NoEffect(True, f"the {before.coll_channels} channels found are within it already")
    return NoEffect(True, _SAME.get(flag.kind, "the decisions come out the same"))


_SAME = {
    FlagKind.SEARCH: "the search comes to the same graphs",
    FlagKind.TUNING: "the same algorithm and protocol win at every size looked at",
}


def _default(flag: Flag, before: Prediction) -> str:
    """Find the level that holds for an unset flag; "" where that depends on the machine."""
    library = before.library
    first = flag.default_of(library.name, numbers(library.version)).split(";")[0]
    return "" if " " in first else first


def _level(reading: Reading, before: Prediction, default: str) -> str:
    paths = Counter(pair.path for pair in before.pairs if pair.src < pair.dst)
    if not paths:
        return "there is no second GPU"
    name = reading.effective
    if len(paths) > 1 and name == default:
        return "it is the default"
    if len(paths) == 1:
        only = next(iter(paths))
        if sum(paths.values()) == 1:
            return f"the one pair is {only}, and its transport does not change"
        return f"all {sum(paths.values())} pairs are {only}, and their transport does not change"
    place = NEAR.index(name) if name in NEAR else 0
    p2p = {pair.path for pair in before.pairs if pair.p2p}
    farthest = max((NEAR.index(path) for path in p2p if path in NEAR), default=0)
    if place > farthest:
        if all(pair.p2p for pair in before.pairs):
            return f"no pair is farther apart than {NEAR[farthest]}"
        return f"it takes in no pair beyond {NEAR[farthest]}"
    return f"no pair that uses P2P lies beyond {name}"


def _disable(reading: Reading, before: Prediction) -> str:
    if reading.effective != "1":
        return f"it reads as {reading.effective}, which leaves P2P on"
    return "no pair of this node uses P2P anyway"


def _shm(reading: Reading, before: Prediction) -> str:
    if reading.effective != "1":
        return f"it reads as {reading.effective}, which leaves shared memory on"
    used = Counter(pair.transport for pair in before.pairs if pair.src < pair.dst)
    every = " and ".join(f"{count} by {name}" for name, count in sorted(used.items()))
    return f"no pair uses shared memory ({every})"


def _relays(_reading: Reading, before: Prediction) -> str:
    links = "xGMI" if before.library.is_rccl else "NVLink"
    return f"no path of this node goes over {links} through another GPU"


def _nvls(reading: Reading, before: Prediction) -> str:
    nvls = before.graphs.nvls
    if before.library.is_rccl:
        return "RCCL has no NVLS"
    if nvls is None or not nvls.channels:
        return "NVLS needs Hopper or newer behind an NVSwitch, which is not what is here"
    if any(choice.algorithm.startswith("NVLS") for choice in before.choices):
        return f"NVLS ({described(nvls)}) is used either way"
    return "NVLS could be set up here, but Ring or Tree is predicted to be faster at every size"


def _cumem(reading: Reading, before: Prediction) -> str:
    if not any(pair.p2p for pair in before.pairs):
        return "no pair uses P2P, and only its label and registration depend on it"
    return "the labels stay as they are"


def _network(before: Prediction) -> str:
    if before.nodes > 1 or any(pair.by_net for pair in before.pairs):
        return "the decisions about NICs come out the same"
    return "inside one node no pair uses the network; it counts for jobs of several nodes"


SPECIAL = {
    "NCCL_P2P_DISABLE": _disable,
    "NCCL_SHM_DISABLE": _shm,
    "NCCL_NVB_DISABLE": _relays,
    "NCCL_NVLS_ENABLE": _nvls,
    "NCCL_CUMEM_ENABLE": _cumem,
}
"""Variable -> the function that finds the reason on this node."""
