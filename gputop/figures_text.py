"""What is said of figures in lines: verdicts, causes, the four numbers, patterns, a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gputop.clean import clean
from gputop.expected import Expectations, title
from gputop.figures_table import wrapped
from gputop.topology import units
from gputop.topology.snapshot import Measurement

if TYPE_CHECKING:
    from gputop.suite.state import SuiteState
    from gputop.topology.expectation.judgement import Judgement

MOST_LOW = 12
"""Low figures are told one by one up to so many."""
Pairs = Sequence[tuple[Measurement, "Judgement | None"]]


def healthy(pairs: Pairs) -> str:
    """What these figures should be: "396", "390-396"; a dash where nothing says."""
    bands = [one.band for _, one in pairs if one is not None and one.band is not None]
    if not bands:
        return units.UNKNOWN
    low, high = (units.figure(end([band.healthy for band in bands])) for end in (min, max))
    return low if low == high else f"{low}-{high}"


def verdict(pairs: Pairs) -> str:
    """One word for several figures: "healthy", "2 low", "high", "no reference"."""
    words = Counter(one.verdict for _, one in pairs if one is not None)
    for word in ("low", "high"):
        if words[word]:
            return word if words[word] == len(pairs) else f"{words[word]} {word}"
    return "healthy" if words["healthy"] else "no reference" if words else units.UNKNOWN


def verdict_line(pairs: Pairs) -> str:
    """The verdict on a matrix: "healthy: 12 of 12; healthy is about 396 GB/s (typical)"."""
    judged = [one for _, one in pairs if one is not None]
    if not judged:
        return ""
    words = Counter(one.verdict for one in judged)
    counts = ", ".join(f"{count} {word}" for word, count in words.most_common())
    if len(words) == 1:
        counts = next(iter(words))
    bands = [one.band for one in judged if one.band is not None]
    if not bands:
        return f"verdict: {counts}"
    basis = ", ".join(sorted({band.basis for band in bands}))
    return f"verdict: {counts}; healthy is about {healthy(pairs)} {bands[0].unit} ({basis})"


def low_lines(known: Expectations, names: Mapping[str, str]) -> list[str]:
    """Each low figure with its cause; the poorest first."""
    low = [(figure, one) for figure, one in known.pairs() if one is not None]
    low = [(figure, one) for figure, one in low if one.verdict in ("low", "high")]
    low.sort(key=lambda pair: pair[1].share if pair[1].share is not None else 1.0)
    lines = [wrapped(_low(figure, one, names)) for figure, one in low[:MOST_LOW]]
    if len(low) > MOST_LOW:
        lines.append(f"... and {len(low) - MOST_LOW} more; --json has all")
    return lines


def _low(figure: Measurement, one: Judgement, names: Mapping[str, str]) -> str:
    size = f" of {units.size(figure.bytes_per_copy)}" if "busbw" in figure.quantity else ""
    text = f"{one.verdict.upper()} {title(figure, names)}{size}: {units.figure(figure.value)}"
    text += f" {figure.unit or ''}".rstrip()
    if one.band is not None and one.share is not None:
        text += f", {100 * one.share:.0f} % of {units.figure(one.band.healthy)}"
    if one.cause:
        text += f": {clean(one.cause, 300)}" + ("" if one.explained else " (not all of it)")
    elif one.note:
        text += f": {clean(one.note, 300)}"
    return text


def said(known: Expectations) -> list[str]:
    """The four numbers and the patterns."""
    return [wrapped(clean(text, 400)) for text in (*known.four_numbers, *known.patterns)]


def summary(state: SuiteState) -> str:
    """A line for each probe of a suite, and one for all."""
    longest = max((len(step.name) for step in state.steps), default=0)
    lines = []
    for step in state.steps:
        seconds = units.UNKNOWN if step.elapsed_seconds is None else f"{step.elapsed_seconds:.1f} s"
        if step.state in ("skipped", "refused", "cancelled"):
            seconds = ""
        line = f"{step.name.ljust(longest)}  {step.state:<9} {seconds:>7}"
        if step.state == "finished":
            line += f"  {step.figures} figures"
        elif step.text:
            room = 80 - len(line) - 2
            text = clean(step.text)
            line += "  " + (text if len(text) <= room else text[: max(room - 1, 0)] + "…")
        lines.append(line.rstrip())
    lines.append(wrapped(state.text))
    return "\n".join(lines)
