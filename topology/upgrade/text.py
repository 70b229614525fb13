"""An upgrade in sections: the answer first, then every difference with the rule behind it."""

from __future__ import annotations

from collections.abc import Iterator

from ..flags.what_if.effects import untold
from ..flags.what_if.wording import times
from ..model.page import Section
from ..model.units import sentence
from ..model.versions import numbers
from ..nccl.decide.summary import CAPITALS, library_name
from ..nccl.prediction import Prediction
from ..nccl.versions import version_for
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
)
from .upgrade import Difference, Upgrade

RULES = "What changes, and by which rule"
COMPARED = {
    PAIRS: "pair{s}",
    NICS: "GPU-NIC pair{s}",
    ALGORITHMS: "size{s} of an all-reduce",
    FIGURES: "figure{s} of the tuning model",
}
FIGURES_ALONE = {
    PAIRS: "pair{s}: hops, GB/s or the wording of the log",
    NICS: "GPU-NIC pair{s}: hops, GB/s, or whether the graph of one host holds them",
    TURNS: "list{s} of NICs for channels: whether the graph of one host holds them",
    DOMAINS: "domain{s}: numbering",
    LIMITS: "limit{s} that the search starts from",
    ALGORITHMS: "size{s} of an all-reduce: its own estimate of the time",
    FIGURES: "figure{s} of its tuning model: latency or bandwidth",
}


def head_lines(found: Upgrade, where: str, cost: str) -> tuple[str, ...]:
    """What changes and what it costs; which of the two versions is an estimate."""
    before, after = found.before, found.after
    name, library = library_name(before), after.library
    ways = f"from {name} to {library.version}"
    ranks = sum(len(view.ranks) for view in after.views)
    gpus = f"{ranks} GPU{'s' * (ranks != 1)}"
    place = f"{where} ({gpus})"
    if after.hosts > 1:
        place = f"{after.hosts} hosts like {where} ({gpus} each)"
    count = len(found.topics)
    if count:
        things = f"{count} thing{'s' * (count != 1)} change{'s' * (count == 1)}"
        head = f"{things} {ways} on {place}: {', '.join(found.topics)}"
    elif found.differences:
        head = f"No decision changes {ways} on {place}, only figures of the library's own tables"
    else:
        head = f"Nothing changes {ways} on {place}"
    lines = [head, cost, *sure(found)]
    return tuple(line for line in lines if line)


def sure(found: Upgrade) -> tuple[str, ...]:
    """Which of the two versions is compared with recordings, and which is an estimate."""
    names = [library_name(side) for side in (found.before, found.after)]
    guesses = [estimate(side) for side in (found.before, found.after)]
    held = [name for name, guess in zip(names, guesses, strict=True) if not guess]
    lines = [
        f"{name} is an estimate: {guess}"
        for name, guess in dict(zip(names, guesses, strict=True)).items()
        if guess
    ]
    if held:
        library = CAPITALS[found.after.library.name]
        both = " and ".join(dict.fromkeys(name.removeprefix(f"{library} ") for name in held))
        lines.insert(
            0,
            f"{library} {both}: paths, transports, NICs and graphs are held against recordings "
            f"of {'these very versions' if len(set(held)) > 1 else 'that very version'}",
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
    sizes = {cause for item in found.decisions if item.topic == ALGORITHMS for cause in item.causes}
    groups: dict[tuple[Cause, ...], list[str]] = {}
    for item in found.decisions:
        told = f"{item.subject}: {item.before} -> {item.after}"
        # What wins at a size hangs on many figures: all sizes together, by any of these rules.
        causes = tuple(sorted(sizes, key=_age)) if item.topic == ALGORITHMS else item.causes
        groups.setdefault(causes, []).append(told)
    for causes, lines in groups.items():
        rules = tuple(because(cause, library) for cause in causes)
        yield rules or ("By the values of variables, not by a rule",), tuple(lines)


def _age(cause: Cause) -> tuple[tuple[int, ...], str]:
    return numbers(cause.since), cause.rule


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
    groups: dict[str, list[Difference]] = {}
    for item in found.differences:
        if not item.decision:
            groups.setdefault(item.topic, []).append(item)
    for topic, items in groups.items():
        count = sum(item.pieces for item in items)
        words = FIGURES_ALONE.get(topic, "graph{s} of " + topic).replace("{s}", "s" * (count != 1))
        versions = dict.fromkeys(cause.since for item in items for cause in item.causes)
        since = ", ".join(sorted((one.partition("-")[2] for one in versions), key=numbers))
        yield f"{count} {words}" + f" (since {since})" * bool(since)


def compared(found: Upgrade) -> Iterator[str]:
    """What was held beside each other."""
    names = {**COMPARED, RING: "ring", TREE: "tree", NVLS: "NVLS"}
    parts = [
        f"{count} {names[topic]}".replace("{s}", "s" * (count != 1))
        if topic in COMPARED
        else names[topic]
        for topic in names
        if (count := found.compared.get(topic, 0))
    ]
    text = f"{', '.join(parts)}: every value that `explain --json` has of them, not the reasons"
    yield sentence(text)
    silent = [library_name(side) for side in (found.before, found.after) if untold(side)]
    if silent:
        which = " and ".join(dict.fromkeys(silent))
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
