"""What is said of the figures of probes: verdicts, causes, patterns, and a run of NCCL."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gputop.measuring.expected import Expectations, title
from gputop.measuring.judged import MOST_CAUSES
from gputop.measuring.quantities import quantity_of
from gputop.terminal.clean import clean
from gputop.topology.logs.comparing.agreement import LogTopic
from gputop.topology.model import units
from gputop.topology.model.english import plural
from gputop.topology.model.gathered import gathered
from gputop.topology.model.page import SIMULATED
from gputop.topology.model.severity import FigureVerdict
from gputop.topology.model.snapshot import Measurement

if TYPE_CHECKING:
    from gputop.measuring.nccl_check import NcclCheck, PairCheck
    from gputop.topology.expectation.judgement import Judgement

MOST_LOW = 12
"""How many kinds of low figures are listed."""
MOST_PLACES = 4
"""How many GPUs or pairs of each kind are named."""
MOST_PAIRS = 24
"""How many differing pairs of ranks are named one by one."""
_SHARE = re.compile(r"^\d+ % of the reference[;:]? ?")
"""How a note begins that repeats the share."""
Pair = tuple[Measurement, "Judgement | None"]
"""A figure and its judgement, None where it was not judged."""
Pairs = Sequence[Pair]
Names = Mapping[str, str]
"""Address of a device -> its label."""


def name_of(address: str | None, names: Names) -> str:
    """The label of a device."""
    return names.get(address or "", clean(address or units.UNKNOWN, 16))


def made_up(pairs: Pairs) -> str:
    """What a heading says of simulated figures; "" for measured ones."""
    return f", {SIMULATED}" if any(figure.simulated for figure, _ in pairs) else ""


def _bands(pairs: Pairs) -> list[float]:
    """The healthy values of these figures."""
    judged = (judgement for _, judgement in pairs if judgement is not None)
    return [judgement.band.healthy for judgement in judged if judgement.band is not None]


def _basis(pair: Pair) -> str:
    """The basis of the healthy band; "" without one."""
    return "" if pair[1] is None or pair[1].band is None else pair[1].band.basis


def healthy(pairs: Pairs) -> str:
    """The healthy value of these figures: "396", "390-396", "~370" for an estimate, or a dash."""
    bands = _bands(pairs)
    if not bands:
        return units.UNKNOWN
    low, high = units.figure(min(bands)), units.figure(max(bands))
    about = "~" if {_basis(pair) for pair in pairs} <= {"", "estimate"} else ""
    return about + (low if low == high else f"{low}-{high}")


def _words(pairs: Pairs) -> Counter[FigureVerdict]:
    return Counter(FigureVerdict(judged.verdict) for _, judged in pairs if judged is not None)


def short(pairs: Pairs) -> str:
    """One word for several figures: "healthy", "2 low", "high", "no ref."."""
    words = _words(pairs)
    for word in (FigureVerdict.LOW, FigureVerdict.HIGH):
        if words[word]:
            return word if words[word] == len(pairs) else f"{words[word]} {word}"
    if words[FigureVerdict.HEALTHY]:
        return FigureVerdict.HEALTHY
    return "no ref." if words else units.UNKNOWN


def verdict_line(pairs: Pairs) -> str:
    """The verdict on a matrix: "✓ healthy; healthy is about 396 GB/s (typical)"."""
    words = _words(pairs)
    if not words:
        return ""
    worst, *_ = order = [word for word in FigureVerdict if words[word]]
    counts = ", ".join(f"{words[word]} {word}" for word in order)
    text = f"{worst.sign} {counts if len(order) > 1 else worst}"
    bands = [judged.band for _, judged in pairs if judged is not None and judged.band is not None]
    if not bands:
        return text
    unit = bands[0].unit
    guessed = [pair for pair in pairs if _basis(pair) == "estimate"]
    sure = [pair for pair in pairs if _basis(pair) not in ("", "estimate")]
    if not sure:
        return f"{text}; by an estimate about {healthy(pairs)[1:]} {unit}"
    basis = ", ".join(sorted({*map(_basis, sure)}))
    text += f"; healthy is about {healthy(sure)} {unit} ({basis})"
    return text + (f", of the others by an estimate {healthy(guessed)[1:]}" if guessed else "")


Low = list[tuple[Measurement, "Judgement"]]


def low_lines(known: Expectations, names: Names) -> Iterator[str]:
    """One sentence for each kind of low or too high figures, the poorest kind first."""
    groups = gathered(
        ((judgement.verdict, figure.quantity, figure.variant or ""), (figure, judgement))
        for figure, judgement in known.pairs()
        if judgement is not None and judgement.verdict in (FigureVerdict.LOW, FigureVerdict.HIGH)
    )
    ordered = sorted(groups.values(), key=lambda group: min(_share(each) for _, each in group))
    for group in ordered[:MOST_LOW]:
        yield _low(group, names)
    if len(ordered) > MOST_LOW:
        yield f"... and {len(ordered) - MOST_LOW} kinds more; --json has all"


def _share(judgement: Judgement) -> float:
    return 1.0 if judgement.share is None else judgement.share


def _low(group: Low, names: Names) -> str:
    group = sorted(group, key=lambda pair: _share(pair[1]))
    figure, judgement = group[0]
    word = FigureVerdict(judgement.verdict)
    text = f"{word.sign} {word}: {title(figure, {}, ends=False)}, {_places(group, names)}: "
    text += _range([units.figure(each.value) for each, _ in group])
    text += f" {figure.unit or ''}".rstrip() + made_up(group)
    if judgement.band is not None and judgement.share is not None:
        shares = _range([f"{100 * _share(each):.0f}" for _, each in group])
        text += f", {shares} % of {healthy(group)}"
    if any(each.cause for _, each in group):
        return f"{text}: {_causes(group, names)}"
    note = _SHARE.sub("", judgement.note)
    return text + (f": {clean(note, 300)}" if note else "")


def _causes(group: Low, names: Names) -> str:
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
        causes.append(f"{plural(len(found) - MOST_CAUSES, 'more cause')}, which --json has")
    without = [pair for pair in group if not pair[1].cause]
    if without:
        causes.append(f"of {_places(without, names)} no cause was seen")
    return "; ".join(causes)


def _places(group: Low, names: Names) -> str:
    """The devices and sizes of figures, the poorest first."""
    found = list(dict.fromkeys(_place(figure, names) for figure, _ in group))
    more = f" and {len(found) - MOST_PLACES} more" if len(found) > MOST_PLACES else ""
    return ", ".join(found[:MOST_PLACES]) + more


def _place(figure: Measurement, names: Names) -> str:
    ends = [name_of(end, names) for end in (figure.src, figure.dst) if end]
    return " -> ".join(ends) or (
        units.size(figure.bytes_per_copy) if quantity_of(figure).over_sizes else "all GPUs"
    )


def _range(words: list[str]) -> str:
    return words[0] if len(set(words)) == 1 else f"{words[0]} to {words[-1]}"


def combined_lines(known: Expectations) -> Iterator[str]:
    """Comparisons with the data sheet, and patterns of several figures."""
    texts = (*(item.text for item in known.main), *(item.text for item in known.patterns))
    yield from (clean(text, 400) for text in texts)


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
    return f"no reference: {clean(notes.most_common(1)[0][0], 300)}" if notes else ""


def nccl_lines(check: NcclCheck, names: Names) -> list[str]:
    """A run of the probe nccl beside its prediction."""
    lines = [_finished(check), *_speeds(check)]
    if check.trouble:
        lines.append(clean(check.trouble, 300))
    lines += _transports(check, names)
    lines += _own_diagnostics(check)
    lines += _decisions(check)
    if check.predicted_failure:
        lines.append(f"predicted to fail: {clean(check.predicted_failure, 300)}")
    lines += [f"the library warns: {clean(warning, 300)}" for warning in check.warnings]
    return lines


def _finished(check: NcclCheck) -> str:
    library = clean(check.library or check.logged_version or check.engine or "the library", 40)
    outcome = {
        "finished": "the all-reduce finished and its result is right",
        "wrong-data": "the all-reduce finished with WRONG data",
        "failed": "FAILED",
        "timed-out": "did NOT finish in time",
        None: "no collective was tried",
    }.get(check.finished, check.finished)
    return f"{library} on {len(check.gpus)} GPUs: {outcome}"


def _speeds(check: NcclCheck) -> list[str]:
    lines = []
    for speed in check.speeds:
        line = (
            f"all-reduce of {units.size(speed.bytes)}: algbw {units.gbs(speed.algbw_gbs)}, "
            f"busbw {units.gbs(speed.busbw_gbs)}"
        )
        if check.ceiling_gbs and speed.busbw_gbs and speed is check.speeds[-1]:
            share = 100 * speed.busbw_gbs / check.ceiling_gbs
            line += f", {share:.0f} % of what the rings are built for"
            line += f" ({units.gbs(check.ceiling_gbs)})"
        lines.append(line)
    return lines


def _counted(pairs: Sequence[PairCheck], total: int, how: str) -> list[str]:
    return [
        f"transport, {count} of {total} pairs: {_labels(labels)}, {how}"
        for labels, count in Counter(pair.logged for pair in pairs).most_common()
    ]


def _transports(check: NcclCheck, names: Names) -> list[str]:
    """Count the pairs that agree by label, and list the pairs that do not."""
    total = len(check.pairs)
    lines = _counted([pair for pair in check.pairs if pair.agrees is True], total, "as predicted")
    differing = [pair for pair in check.pairs if pair.agrees is False]
    lines += [_differs(pair, names) for pair in differing[:MOST_PAIRS]]
    if len(differing) > MOST_PAIRS:
        lines.append(f"... and {len(differing) - MOST_PAIRS} pairs more that differ")
    silent = [pair for pair in check.pairs if pair.agrees is None]
    lines += _counted([pair for pair in silent if pair.logged], total, "not predicted")
    unlogged = sum(not pair.logged for pair in silent)
    if unlogged and unlogged < total:
        lines.append(f"{unlogged} of {total} pairs do not show in the log")
    return lines


def _differs(pair: PairCheck, names: Names) -> str:
    src, dst = (
        names.get(address, clean(address, 20)) for address in (pair.src_bus_id, pair.dst_bus_id)
    )
    return f"{src} to {dst}: {_labels(pair.logged)}, PREDICTED {_labels(pair.predicted)}"


def _own_diagnostics(check: NcclCheck) -> list[str]:
    """The library's own verdict, and that of our bytes beside it."""
    if not check.diagnostics:
        return []
    moved = [pair for pair in check.pairs if pair.data]
    right = sum(pair.data == "verified" for pair in moved)
    lines = [
        f"the library's own diagnostics, {clean(each.sentence, 200)}" for each in check.diagnostics
    ]
    quoted = [
        one for each in check.diagnostics for one in each.checks if one.open or one.about == "p2p"
    ]
    lines += [
        f"  [{one.tag}] {clean(f'{one.about}: {one.text}', 300)}" for one in quoted[:MOST_PAIRS]
    ]
    return [*lines, f"  beside it, sent and received here: {right} of {len(moved)} pairs right"]


def _labels(labels: tuple[str, ...]) -> str:
    return clean(" and ".join(labels), 120)


def _decisions(check: NcclCheck) -> list[str]:
    """Graphs and channels, all other differences, and possible reasons."""
    found = check.agreement
    if found is None or not found.comparable:
        return []
    said: dict[tuple[str, str, str], list[str]] = {}
    for item in found.items:
        if not item.agrees or item.topic in (LogTopic.GRAPH, LogTopic.CHANNELS):
            end = "as predicted" if item.agrees else f"PREDICTED {clean(item.predicted, 200)}"
            # Domains that are alike share a line.
            kind = item.subject.partition(" of ranks ")[0] if item.topic is LogTopic.GRAPH else ""
            key = (kind or item.subject, clean(item.logged, 200), end)
            said.setdefault(key, []).append(item.subject)
    lines = [
        f"{clean(what, 60)}: {logged}, {end}"
        + (f" ({len(subjects)} times)" if len(subjects) > 1 else "")
        for (what, logged, end), subjects in said.items()
    ]
    lines.append(found.sentence)
    return lines + [clean(reason, 300) for reason in found.reasons]
