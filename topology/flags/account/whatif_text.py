"""The effect of changed variables as sections."""

from __future__ import annotations

from ...hardware.terms import library_terms
from ...model.page import Section
from ...nccl.decide.summary import duration
from ...nccl.wording import message_size
from ..catalogue.catalogue import catalogue
from ..what_if.effects import Effect, choice_of, named
from ..what_if.in_words import pairs_in_words
from ..what_if.net_changes import nets_in_words
from ..what_if.nothing import verdict
from ..what_if.outcomes import NVLS_UNSURE, group_in_words, taking_part, took
from ..what_if.whatif import Change, Comparison


def sections(comparison: Comparison) -> tuple[Section, ...]:
    """Compare before and after: pairs, graphs, choices by size with times, and the line to copy."""
    effect = comparison.effect
    set_to = " ".join(
        f"{change.name}={change.after}" if change.after is not None else f"without {change.name}"
        for change in comparison.changes
    )
    bullets = [text for change in comparison.changes if (text := _reading(change))]
    found = [
        Section(
            title=f"What changes with {set_to}" if set_to else "Nothing is changed",
            bullets=(*bullets, *clauses(comparison)),
        )
    ]
    if has_times(effect):
        unsure = (NVLS_UNSURE,) if comparison.without_nvls is not None else ()
        found.append(
            Section(title="Predicted all-reduce", table=times(comparison), paragraphs=unsure)
        )
    if comparison.export:
        found.append(Section(title="To set it up", paragraphs=(comparison.export,)))
    return tuple(found)


def clauses(comparison: Comparison) -> tuple[str, ...]:
    """Say what changes, in a sentence or clause each; the reason when nothing does."""
    effect = comparison.effect
    words = library_terms(comparison.changed.library.name)
    if effect.failure[1]:
        return (f"The start fails: {effect.failure[1]}.",)
    if effect.nothing:
        return tuple(_nothing(change, comparison) for change in comparison.changes) or (
            "The predictions are the same.",
        )
    found = [f"The start no longer fails: {effect.failure[0]}"] if effect.failure[0] else []
    if effect.ranks[0] != effect.ranks[1]:
        found.append(taking_part(effect))
    if effect.pairs_total:
        found.append(_pairs(effect))
    found += [f"{group_in_words(g)}: {pairs_in_words(g.pairs)}" for g in effect.pairs[:8]]
    if effect.nodes[0] != effect.nodes[1]:
        found.append(
            f"{words.library} counts {effect.nodes[1]} nodes instead of {effect.nodes[0]}: GPUs "
            "that reach each other by P2P or SHM make one"
        )
    for graph in effect.graphs:
        rest = "another order of GPUs" if graph.order else f"{graph.before} -> {graph.after}"
        found.append(f"{graph.graph}: {rest}")
    if effect.channels[0] != effect.channels[1]:
        found.append(f"coll channels: {effect.channels[0]} -> {effect.channels[1]}")
    found += nets_in_words(effect.nets)
    if effect.pairs and has_times(effect) and not effect.times_changed:
        found.append(
            f"the predicted times stay: {words.library}'s model does not ask by which transport "
            "bytes go; measure it"
        )
    return tuple(found)


def has_times(effect: Effect) -> bool:
    """Whether times are predicted; for RCCL none are."""
    return any(time.before_us is not None or time.after_us is not None for time in effect.times)


def _pairs(effect: Effect) -> str:
    if not effect.pairs:
        if effect.ranks[0] == effect.ranks[1]:
            return f"none of {effect.pairs_total} pairs changes its path or transport"
        if effect.pairs_total == 1:
            return "the one pair that is left keeps its path and transport"
        return f"none of {effect.pairs_total} pairs that are left changes its path or transport"
    return f"{effect.pairs_changed} of {effect.pairs_total} pairs change"


def _nothing(change: Change, comparison: Comparison) -> str:
    flag = catalogue().flag(change.name)
    if change.reading is None or flag is None:
        why = (
            "the predictions are the same"
            if change.reading is None
            else f"it is {change.reading.why}"
        )
        return f"{change.name}: nothing changes here, because {why}."
    return (
        f"{change.name}: {verdict(flag, change.reading, comparison.baseline, comparison.changed)}."
    )


def _reading(change: Change) -> str:
    reading = change.reading
    if reading is None or not reading.why or reading.ignored:
        return ""
    return f"{change.name}={change.after}: {reading.why}"


def times(
    comparison: Comparison, before: str = "before", after: str = "after"
) -> tuple[tuple[str, ...], ...]:
    """Time and choice of an all-reduce by size, a row each; the head names both sides."""
    rows = [("size", before, after, "time", "chosen")]
    for time in comparison.effect.times:
        old = named(choice_of(comparison.baseline, time.bytes))
        new = named(choice_of(comparison.changed, time.bytes))
        lasts, longer = took(comparison, time.bytes)
        rows.append(
            (
                message_size(time.bytes),
                duration(time.before_us),
                lasts,
                longer.strip("()") if time.after_us is not None else "fails",
                new if old == new else f"{old} -> {new}",
            )
        )
    return tuple(rows)
