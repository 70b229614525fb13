"""An upgrade in sections: the answer first, then every difference with the rule behind it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..expectation.cost.cost import PREDICTED
from ..expectation.cost.costs import Costs
from ..expectation.judgement import ESTIMATE
from ..expectation.modelled import modelled
from ..flags.what_if.changes import with_changes
from ..flags.what_if.effects import choice_of, described, named, untold
from ..flags.what_if.wording import times
from ..model.english import listing, plural
from ..model.gathered import gathered
from ..model.page import Section
from ..model.severity import FigureBasis
from ..model.snapshot import NodeSnapshot
from ..model.units import figure, sentence
from ..model.versions import numbers
from ..nccl.decide.summary import CAPITALS, library_name
from ..nccl.prediction import Prediction
from ..nccl.versions import version_for
from ..node import Node
from .causes import Cause
from .units import (
    ALGORITHMS,
    DOMAINS,
    FIGURES,
    LIMITS,
    NICS,
    NVLS,
    PAIRS,
    RING,
    TREE,
    TURNS,
    PieceTopic,
)
from .upgrade import Upgrade

RULES = "What changes, and by which rule"
COMPARED = {
    PAIRS: ("pair", ""),
    NICS: ("GPU-NIC pair", ""),
    ALGORITHMS: ("size", " of an all-reduce"),
    FIGURES: ("figure", " of the tuning model"),
}
"""Topic -> what is counted, and what follows it."""
FIGURES_ALONE = {
    PAIRS: ("pair", ": hops, GB/s or the wording of the log"),
    NICS: ("GPU-NIC pair", ": hops, GB/s, or whether the graph of one host holds them"),
    TURNS: ("list", " of NICs for channels: whether the graph of one host holds them"),
    DOMAINS: ("domain", ": numbering"),
    LIMITS: ("limit", " that the search starts from"),
    ALGORITHMS: ("size", " of an all-reduce: its own estimate of the time"),
    FIGURES: ("figure", " of its tuning model: latency or bandwidth"),
}
LARGE_BYTES = 1 << 30
WHAT = "All-reduce 1 GiB"
SAME = 0.005
"""Two figures that differ by less than this share are the same."""


def head_lines(found: Upgrade, where: str, cost: str) -> tuple[str, ...]:
    """What changes and what it costs; which of the two versions is an estimate."""
    before, after = found.before, found.after
    name, library = library_name(before), after.library
    ways = f"from {name} to {library.version}"
    ranks = sum(len(view.ranks) for view in after.views)
    gpus = plural(ranks, "GPU")
    place = f"{where} ({gpus})"
    if after.hosts > 1:
        place = f"{after.hosts} hosts like {where} ({gpus} each)"
    count = len(found.topics)
    if count:
        things = f"{plural(count, 'thing')} change{'s' * (count == 1)}"
        head = f"{things} {ways} on {place}: {', '.join(found.topics)}"
    elif found.differences:
        head = f"No decision changes {ways} on {place}, only figures of the library's own tables"
    else:
        head = f"Nothing changes {ways} on {place}"
    lines = [head, cost, *sure(found)]
    return tuple(line for line in lines if line)


def sure(found: Upgrade) -> tuple[str, ...]:
    """Which of the two versions is compared with recordings, and which is an estimate."""
    guesses = {library_name(side): estimate(side) for side in (found.before, found.after)}
    held = [name for name, guess in guesses.items() if not guess]
    lines = [f"{name} is an estimate: {guess}" for name, guess in guesses.items() if guess]
    if held:
        library = CAPITALS[found.after.library.name]
        which = "these very versions" if len(held) > 1 else "that very version"
        lines.insert(
            0,
            f"{library} {listing([name.removeprefix(f'{library} ') for name in held])}: paths, "
            f"transports, NICs and graphs are held against recordings of {which}",
        )
    return tuple(lines)


def estimate(side: Prediction) -> str:
    """Why the rules of a version are an estimate; "" where recordings of it were compared."""
    name = f"{side.library.name}-{side.library.version}"
    return (version_for(name)[1] or "").removesuffix(".")


def heading(found: Upgrade) -> str:
    """What stands above the decisions; of an older version, that its rules are those of before."""
    before, after = (numbers(side.library.version) for side in (found.before, found.after))
    older = after < before
    return "What changes, and the rule that is not there yet" if older else RULES


def decisions(found: Upgrade) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The rules that work together, a line each, and what changes by them."""
    library = CAPITALS[found.after.library.name]
    sizes = {cause for item in found.decisions if item.topic is ALGORITHMS for cause in item.causes}
    groups: dict[tuple[Cause, ...], list[str]] = {}
    for item in found.decisions:
        told = f"{item.subject}: {item.before} -> {item.after}"
        # What wins at a size hangs on many figures: all sizes together, by any of these rules.
        causes = (
            tuple(sorted(sizes, key=lambda cause: cause.age))
            if item.topic == ALGORITHMS
            else item.causes
        )
        groups.setdefault(causes, []).append(told)
    for causes, lines in groups.items():
        rules = tuple(because(cause, library) for cause in causes)
        yield rules or ("By the values of variables, not by a rule",), tuple(lines)


def because(cause: Cause, library: str) -> str:
    """A rule with its version and its place in the source."""
    own, _, number = cause.since.partition("-")
    since = f"Since {library} {number}"
    other, _, brought = cause.introduced.partition("-")
    if other and other != own:
        since += f" or before, from {CAPITALS[other]} {brought}"
    place = f" · {cause.source}" if cause.source else ""
    return f"{since}: {cause.rule}{place}"


def sections(found: Upgrade) -> Iterator[Section]:
    """What follows the decisions: the table by size, figures alone, what was compared."""
    versions = [side.library.version for side in (found.before, found.after)]
    effect = found.comparison.effect
    if effect.has_times and ALGORITHMS in found.compared:
        yield Section(
            title="All-reduce by each version's own model",
            table=times(found.comparison, *versions),
        )
    alone = tuple(_figures(found))
    if alone:
        yield Section(title="Figures of the library's own that differ, no decision", bullets=alone)
    yield Section(title="Compared", paragraphs=tuple(compared(found)))
    assumed = tuple(_assumed(found))
    if assumed:
        yield Section(title="Assumed", bullets=assumed)


def _figures(found: Upgrade) -> Iterator[str]:
    """One line for each topic: how many pieces, and since which versions."""
    groups = gathered((item.topic, item) for item in found.differences if not item.decision)
    for topic, items in groups.items():
        noun, rest = FIGURES_ALONE.get(topic, ("graph", f" of {topic}"))
        versions = {cause.since.partition("-")[2] for item in items for cause in item.causes}
        since = ", ".join(sorted(versions, key=numbers))
        count = plural(sum(item.pieces for item in items), noun)
        yield f"{count}{rest}" + f" (since {since})" * bool(since)


def compared(found: Upgrade) -> Iterator[str]:
    """What was held beside each other."""
    counted = {topic: count for topic in PieceTopic if (count := found.compared.get(topic, 0))}
    parts = [
        plural(counted[topic], noun) + rest
        for topic, (noun, rest) in COMPARED.items()
        if topic in counted
    ]
    parts += [topic for topic in (RING, TREE, NVLS) if topic in counted]
    text = f"{', '.join(parts)}: every value that `explain --json` has of them, not the reasons"
    yield sentence(text)
    silent = [library_name(side) for side in (found.before, found.after) if untold(side)]
    if silent:
        which = listing(list(dict.fromkeys(silent)))
        yield f"Channels, algorithms and times are not known of {which}: they are not compared."
    if found.after.hosts == 1 and RING in found.compared and found.after.nodes == 1:
        yield "Within one host no NIC is used: --nodes 2 compares the NIC of each GPU, too."


def _assumed(found: Upgrade) -> Iterator[str]:
    """What both predictions assume, but for what is said of the versions above."""
    told = {estimate(side) for side in (found.before, found.after)}
    both = dict.fromkeys((*found.before.assumptions, *found.after.assumptions))
    for text in both:
        if text.removesuffix(".") not in told:
            yield text


# What an all-reduce over all GPUs costs under each of the two versions, in one line.
def cost_line(found: Upgrade, snapshot: NodeSnapshot, *, whole: bool) -> str:
    """What it costs before and after: "All-reduce 1 GiB: 473 → 355 GB/s (predicted)".

    `whole`: all GPUs of one host take part, for which there is one model of cost; else the
    library's own model alone is asked.
    """
    sides = found.before, found.after
    silent = _silent(sides, whole=whole)
    if silent is not None:
        return silent
    (before, of_before), (after, of_after) = (_reached(snapshot, side, whole) for side in sides)
    if before is None or after is None:
        return f"{WHAT}: what it costs is not known"
    basis = listing(list(dict.fromkeys((of_before, of_after))))
    remark = _remark(found) if {of_before, of_after} <= {PREDICTED, ESTIMATE} else ""
    if abs(after - before) <= SAME * before:
        both = f"{WHAT}: {figure(after)} GB/s with both ({basis})"
        return both + remark if _moved(*sides) else both
    share = 100 * (after / before - 1)
    return f"{WHAT}: {figure(before)} → {figure(after)} GB/s, {share:+.0f} % ({basis}){remark}"


def _silent(sides: tuple[Prediction, Prediction], *, whole: bool) -> str | None:
    """What is said where no cost can be; None where one can."""
    failed = [library_name(side) for side in sides if side.failure]
    if failed:
        return f"{listing(failed)} would not start here"
    if min(side.ranks for side in sides) < 2:
        return ""
    of = [library_name(side) for side in sides if untold(side)]
    if not whole and not all(side.choices for side in sides):
        of = [CAPITALS[sides[1].library.name]]
    return f"{WHAT}: not predicted for {of[0]}" if len(of) == 1 else None


def _reached(
    snapshot: NodeSnapshot, side: Prediction, whole: bool
) -> tuple[float | None, FigureBasis]:
    """The cost by what is known without a measurement, which holds for one version alone."""
    if whole:
        changed = with_changes(snapshot, dict(side.environment))
        bare = msgspec.structs.replace(changed, measurements=())
        cost = Costs(Node(bare).with_prediction(side)).all_reduce
        if cost is not None:
            return cost.here, cost.basis
    return modelled(side, LARGE_BYTES), PREDICTED


def _remark(found: Upgrade) -> str:
    """What the library's own model leaves out."""
    if _moved(found.before, found.after):
        return "; the model does not ask by which transport bytes go"
    if _alike(found.before, found.after) and not {*found.topics} - {ALGORITHMS}:
        return "; by the same algorithm on the same channels: only the model's figures differ"
    return ""


def _alike(before: Prediction, after: Prediction) -> bool:
    """Whether both do the same: algorithm, channels, and the graph that they run on."""
    old, new = (choice_of(side, LARGE_BYTES) for side in (before, after))
    if old is None or named(old) != named(new):
        return False
    kind = old.algorithm.partition("_")[0].lower()
    graphs = [getattr(side.graphs, kind, None) for side in (before, after)]
    return described(graphs[0]) == described(graphs[1])


def _moved(before: Prediction, after: Prediction) -> bool:
    then = {(pair.src, pair.dst): pair.transport for pair in before.pairs}
    return any(then.get((pair.src, pair.dst)) != pair.transport for pair in after.pairs)
