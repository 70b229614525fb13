"""Text about figures: verdicts, causes, comparison with the data sheet, patterns, summary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gputop.commands.probe.table import made_up, wrapped
from gputop.measuring.expected import Expectations, title
from gputop.measuring.quantities import quantity_of
from gputop.probes.protocol.status import Status
from gputop.terminal.clean import clean
from gputop.topology.model import units
from gputop.topology.model.snapshot import Measurement

if TYPE_CHECKING:
    from gputop.measuring.state import SuiteState
    from gputop.topology.expectation.judgement import Judgement

SIGNS = {"low": "▼", "high": "▼", "healthy": "✓", "no reference": "–"}
"""Verdict on a figure -> its sign; the worst first."""
MOST_LOW = 12
"""How many kinds of low figures are listed."""
MOST_CAUSES = 4
"""How many different causes are listed for one kind of low figures."""
MOST_PLACES = 4
"""How many GPUs or pairs of each kind are named."""
_SHARE = re.compile(r"^\d+ % of the reference[;:]? ?")
"""How a note begins that repeats the share."""
Pair = tuple[Measurement, "Judgement | None"]
"""A figure and its judgement, None where it was not judged."""
Pairs = Sequence[Pair]


def healthy(pairs: Pairs) -> str:
    """The healthy value of these figures: "396", "390-396", "~370" for an estimate, or a dash."""
    bands = [
        judgement.band
        for _, judgement in pairs
        if judgement is not None and judgement.band is not None
    ]
    if not bands:
        return units.UNKNOWN
    low, high = (units.figure(end([band.healthy for band in bands])) for end in (min, max))
    about = "~" if all(band.basis == "estimate" for band in bands) else ""
    return about + (low if low == high else f"{low}-{high}")


def verdict(pairs: Pairs) -> str:
    """One word for several figures: "healthy", "2 low", "high", "no reference"."""
    words = Counter(judgement.verdict for _, judgement in pairs if judgement is not None)
    for word in ("low", "high"):
        if words[word]:
            return word if words[word] == len(pairs) else f"{words[word]} {word}"
    return "healthy" if words["healthy"] else "no reference" if words else units.UNKNOWN


def verdict_line(pairs: Pairs) -> str:
    """The verdict on a matrix: "✓ healthy; healthy is about 396 GB/s (typical)"."""
    judged = [judgement for _, judgement in pairs if judgement is not None]
    if not judged:
        return ""
    words = Counter(judgement.verdict for judgement in judged)
    order = [word for word in SIGNS if words[word]]
    counts = ", ".join(f"{words[word]} {word}" for word in order)
    if len(words) == 1:
        counts = order[0]
    counts = f"{SIGNS[order[0]]} {counts}"
    bands = [judgement.band for judgement in judged if judgement.band is not None]
    if not bands:
        return counts
    unit = bands[0].unit
    guessed = [pair for pair in pairs if _basis(pair[1]) == "estimate"]
    sure = [pair for pair in pairs if _basis(pair[1]) not in ("", "estimate")]
    if not sure:
        return f"{counts}; by an estimate about {healthy(pairs)[1:]} {unit}"
    basis = ", ".join(sorted({_basis(judgement) for _, judgement in sure}))
    text = f"{counts}; healthy is about {healthy(sure)} {unit} ({basis})"
    return text + (f", of the others by an estimate {healthy(guessed)[1:]}" if guessed else "")


def _basis(judgement: Judgement | None) -> str:
    """The basis of the healthy band; "" without one."""
    return "" if judgement is None or judgement.band is None else judgement.band.basis


def low_lines(known: Expectations, names: Mapping[str, str]) -> list[str]:
    """One sentence for each kind of low or too high figures, the poorest kind first."""
    groups: dict[tuple[str, str, str], list[tuple[Measurement, Judgement]]] = {}
    for figure, judgement in known.pairs():
        if judgement is not None and judgement.verdict in ("low", "high"):
            kind = (judgement.verdict, figure.quantity, figure.variant or "")
            groups.setdefault(kind, []).append((figure, judgement))
    ordered = sorted(
        groups.values(), key=lambda group: min(_share(judgement) for _, judgement in group)
    )
    lines = [wrapped(_low(group, names)) for group in ordered[:MOST_LOW]]
    if len(ordered) > MOST_LOW:
        lines.append(f"... and {len(ordered) - MOST_LOW} kinds more; --json has all")
    return lines


def _share(judgement: Judgement) -> float:
    return 1.0 if judgement.share is None else judgement.share


def _low(group: list[tuple[Measurement, Judgement]], names: Mapping[str, str]) -> str:
    group = sorted(group, key=lambda pair: _share(pair[1]))
    figure, judgement = group[0]
    text = f"{SIGNS[judgement.verdict]} {judgement.verdict}: "
    text += f"{title(figure, {}, ends=False)}, {_places(group, names)}: "
    text += _range([units.figure(each.value) for each, _ in group])
    text += f" {figure.unit or ''}".rstrip()
    text += made_up([each for each, _ in group])
    if judgement.band is not None and judgement.share is not None:
        shares = _range([f"{100 * _share(each):.0f}" for _, each in group])
        text += f", {shares} % of {healthy(group)}"
    if any(each.cause for _, each in group):
        return f"{text}: {_causes(group, names)}"
    note = _SHARE.sub("", judgement.note)
    return text + (f": {clean(note, 300)}" if note else "")


def _causes(group: list[tuple[Measurement, Judgement]], names: Mapping[str, str]) -> str:
    """Each cause once, then the places without one: a cause explains only its own GPU."""
    found: dict[str, bool] = {}
    for _, each in group:
        if each.cause:
            found[each.cause] = found.get(each.cause, True) and each.explained
    causes = [
        clean(cause, 300) + ("" if explained else " (not all of it)")
        for cause, explained in list(found.items())[:MOST_CAUSES]
    ]
    if len(found) > MOST_CAUSES:
        many = len(found) - MOST_CAUSES
        causes.append(f"{many} more cause{'s' * (many > 1)}, which --json has")
    without = [pair for pair in group if not pair[1].cause]
    if without:
        causes.append(f"of {_places(without, names)} no cause was seen")
    return "; ".join(causes)


def _places(group: list[tuple[Measurement, Judgement]], names: Mapping[str, str]) -> str:
    """The devices and sizes of figures, the poorest first."""
    found = list(dict.fromkeys(_place(figure, names) for figure, _ in group))
    more = f" and {len(found) - MOST_PLACES} more" if len(found) > MOST_PLACES else ""
    return ", ".join(found[:MOST_PLACES]) + more


def _place(figure: Measurement, names: Mapping[str, str]) -> str:
    ends = [names.get(end, clean(end, 16)) for end in (figure.src, figure.dst) if end]
    return " -> ".join(ends) or (
        units.size(figure.bytes_per_copy) if quantity_of(figure).over_sizes else "all GPUs"
    )


def _range(words: list[str]) -> str:
    return words[0] if len(set(words)) == 1 else f"{words[0]} to {words[-1]}"


def combined_lines(known: Expectations) -> list[str]:
    """Comparisons with the data sheet, and patterns of several figures."""
    texts = [item.text for item in known.main] + [item.text for item in known.patterns]
    return [wrapped(clean(text, 400)) for text in texts]


def unjudged(known: Expectations) -> str:
    """Why nothing was judged: "no reference: no table holds this model"; else empty."""
    judged = [
        judgement
        for figure, judgement in known.pairs()
        if judgement is not None and figure.value is not None
    ]
    if not judged or any(judgement.band is not None for judgement in judged):
        return ""
    notes = Counter(judgement.note for judgement in judged if judgement.note)
    return wrapped(f"no reference: {clean(notes.most_common(1)[0][0], 300)}") if notes else ""


def summary(state: SuiteState) -> str:
    """A line for each probe of a suite and one for the suite."""
    longest = max((len(step.name) for step in state.steps), default=0)
    lines = []
    for step in state.steps:
        seconds = units.UNKNOWN if step.elapsed_seconds is None else f"{step.elapsed_seconds:.1f} s"
        if step.status in (Status.SKIPPED, Status.REFUSED, Status.CANCELLED):
            seconds = ""
        line = f"{step.name.ljust(longest)}  {step.status:<9} {seconds:>7}"
        if step.status == Status.FINISHED:
            line += f"  {step.figures} figure{'' if step.figures == 1 else 's'}"
        elif step.text:
            room = 80 - len(line) - 2
            text = clean(step.text)
            line += "  " + (text if len(text) <= room else text[: max(room - 1, 0)] + "…")
        lines.append(line.rstrip())
    lines.append(wrapped(state.text))
    return "\n".join(lines)
