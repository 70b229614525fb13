"""What is said of figures in lines: verdicts, causes, the four numbers, patterns, a summary."""

from __future__ import annotations

import re
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
"""So many kinds of low figures are told."""
MOST_PLACES = 4
"""So many GPUs or pairs of each kind are named."""
_SHARE = re.compile(r"^\d+ % of the reference[;:]? ?")
"""How a note begins that says the share again."""
Pairs = Sequence[tuple[Measurement, "Judgement | None"]]


def healthy(pairs: Pairs) -> str:
    """What these figures should be: "396", "390-396", "~370" by an estimate, else a dash."""
    bands = [one.band for _, one in pairs if one is not None and one.band is not None]
    if not bands:
        return units.UNKNOWN
    low, high = (units.figure(end([band.healthy for band in bands])) for end in (min, max))
    about = "~" if all(band.basis == "estimate" for band in bands) else ""
    return about + (low if low == high else f"{low}-{high}")


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
    if basis == "estimate":
        return f"verdict: {counts}; by an estimate about {healthy(pairs)[1:]} {bands[0].unit}"
    return f"verdict: {counts}; healthy is about {healthy(pairs)} {bands[0].unit} ({basis})"


def low_lines(known: Expectations, names: Mapping[str, str]) -> list[str]:
    """Low figures and those that are too high, those of one kind in one sentence, poorest first."""
    groups: dict[tuple[str, str, str], list[tuple[Measurement, Judgement]]] = {}
    for figure, one in known.pairs():
        if one is not None and one.verdict in ("low", "high"):
            kind = (one.verdict, figure.quantity, figure.variant or "")
            groups.setdefault(kind, []).append((figure, one))
    ordered = sorted(groups.values(), key=lambda group: min(_share(one) for _, one in group))
    lines = [wrapped(_low(group, names)) for group in ordered[:MOST_LOW]]
    if len(ordered) > MOST_LOW:
        lines.append(f"... and {len(ordered) - MOST_LOW} kinds more; --json has all")
    return lines


def _share(one: Judgement) -> float:
    return 1.0 if one.share is None else one.share


def _low(group: list[tuple[Measurement, Judgement]], names: Mapping[str, str]) -> str:
    group = sorted(group, key=lambda pair: _share(pair[1]))
    figure, one = group[0]
    text = f"{one.verdict.upper()} {title(figure, {}, ends=False)}, {_places(group, names)}: "
    text += _range([units.figure(each.value) for each, _ in group])
    text += f" {figure.unit or ''}".rstrip()
    if one.band is not None and one.share is not None:
        shares = _range([f"{100 * _share(each):.0f}" for _, each in group])
        text += f", {shares} % of {healthy(group)}"
    causes = list(dict.fromkeys(each.cause for _, each in group if each.cause))
    if causes:
        text += f": {clean(causes[0], 300)}" + ("" if one.explained else " (not all of it)")
        text += f" (and {len(causes) - 1} more causes)" if len(causes) > 1 else ""
    else:
        note = _SHARE.sub("", one.note)
        text += f": {clean(note, 300)}" if note else ""
    return text


def _places(group: list[tuple[Measurement, Judgement]], names: Mapping[str, str]) -> str:
    """Which devices and sizes, the poorest first."""
    found = list(dict.fromkeys(_place(figure, names) for figure, _ in group))
    more = f" and {len(found) - MOST_PLACES} more" if len(found) > MOST_PLACES else ""
    return ", ".join(found[:MOST_PLACES]) + more


def _place(figure: Measurement, names: Mapping[str, str]) -> str:
    ends = [names.get(one, clean(one, 16)) for one in (figure.src, figure.dst) if one]
    return " -> ".join(ends) or (
        units.size(figure.bytes_per_copy) if "busbw" in figure.quantity else "all GPUs"
    )


def _range(words: list[str]) -> str:
    return words[0] if len(set(words)) == 1 else f"{words[0]} to {words[-1]}"


def said(known: Expectations) -> list[str]:
    """The four numbers and the patterns."""
    texts = [one.text for one in known.main] + [one.text for one in known.patterns]
    return [wrapped(clean(text, 400)) for text in texts]


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
            line += f"  {step.figures} figure{'' if step.figures == 1 else 's'}"
        elif step.text:
            room = 80 - len(line) - 2
            text = clean(step.text)
            line += "  " + (text if len(text) <= room else text[: max(room - 1, 0)] + "…")
        lines.append(line.rstrip())
    lines.append(wrapped(state.text))
    return "\n".join(lines)
