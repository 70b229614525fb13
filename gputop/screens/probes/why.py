"""Explains the figures of one probe with their evidence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gputop.measuring.quantities import unit_text
from gputop.screens.probes.entries import ProbeEntry
from gputop.screens.probes.groups import Group, GroupMember
from gputop.terminal.clean import clean
from gputop.topology.model import units
from gputop.topology.model.page import MEASURED, READ, Fact, Page
from gputop.topology.model.severity import FigureVerdict
from gputop.widgets.meters import band_text, verdict_of

if TYPE_CHECKING:
    from gputop.topology.model.snapshot import Measurement

_LOWS = 4
"""How many low figures of a group are explained one by one."""


def why_probe(entry: ProbeEntry, notes: Iterable[str]) -> Page:
    """Explain the results of a probe: a claim, and a fact for each kind of figure."""
    members = [member for group in entry.groups for member in group.members]
    basis = members[0].figure.basis if members else MEASURED
    facts = [
        _fact(group, member)
        for group in entry.groups
        for member in (group.bad[:_LOWS] or (group.worst,))
    ]
    facts += [
        Fact(what="What else follows?", value=clean(note, 600), basis=basis, source="")
        for note in notes
        if note
    ]
    facts += [
        Fact(what="What did the probe note?", value=note, basis=basis, source="")
        for note in entry.notes
    ]
    if members:
        facts.append(_made_with(members[0].figure))
    else:
        how = "p runs it, a runs all" if entry.seconds is not None else ""
        facts.append(
            Fact(what="What does it measure?", value=entry.measures, because=how, source="")
        )
    return Page.why(
        title=f"{entry.name}: {entry.title}" if entry.title else entry.name,
        claim=_claim(entry, members),
        facts=tuple(facts),
        impact=_causes(members),
    )


def _claim(entry: ProbeEntry, members: list[GroupMember]) -> str:
    if not members:
        said = entry.text or "nothing was measured yet"
        return f"{entry.word}: {said}" if entry.run else f"{said}."
    counts: dict[str, int] = {}
    for member in members:
        word = verdict_of(member.judgement)[1]
        counts[word] = counts.get(word, 0) + 1
    order = ("low", "too long", "high", "healthy", "no reference")
    words = ", ".join(f"{counts[word]} {word}" for word in order if word in counts)
    return f"{len(members)} figure{'s' * (len(members) != 1)}: {words}."


def _causes(members: list[GroupMember]) -> str:
    causes = [m.judgement.cause for m in members if m.judgement is not None and m.judgement.cause]
    return "; ".join(dict.fromkeys(causes))


def _fact(group: Group, member: GroupMember) -> Fact:
    figure, judgement = member.figure, member.judgement
    about = ", ".join(word for word in (group.title, member.who) if word)
    if figure.value is None:
        answer = clean(figure.verdict or "no figure", 40)
        return Fact(
            what=f"{about}?",
            value=answer,
            because=clean(figure.why_none or "", 400),
            source=_source(figure),
            basis=figure.basis,
        )
    unit = unit_text(figure.unit)
    answer = f"{units.figure(figure.value)} {unit}".strip()
    if figure.low is not None and figure.high is not None:
        answer += f" ({units.figure(figure.low)} to {units.figure(figure.high)})"
    answer += f", {verdict_of(judgement)[1]}"
    return Fact(
        what=f"{about}?",
        value=answer,
        because="; ".join(part for part in (*_band(member, unit), *_how(figure)) if part),
        source=_source(figure),
        basis=figure.basis,
        decides=judgement is not None and judgement.verdict == FigureVerdict.LOW,
    )


def _band(member: GroupMember, unit: str) -> list[str]:
    """The reference in words: the band, what scaled it, and its source."""
    judgement = member.judgement
    if judgement is None:
        return []
    said = []
    band = judgement.band
    if band is not None:
        has_share = judgement.share is None or " % " in judgement.note
        share = "" if has_share else f"{100 * (judgement.share or 0.0):.0f} % of "
        said.append(f"{share}{units.figure(band.healthy)} {unit} ({band.basis})")
        said.append(f"healthy {band_text(band)}")
        said += [clean(text, 200) for text in band.scaled if text not in judgement.cause]
        said.append(f"from {clean(band.source, 200)}")
    said += [clean(judgement.note, 300), clean(judgement.cause, 300)]
    return said


def _how(figure: Measurement) -> list[str]:
    said = [
        clean(figure.counted or "", 80),
        "" if not figure.samples else f"{figure.samples} samples",
        "" if not figure.bytes_per_copy else f"{units.size(figure.bytes_per_copy)} each",
        clean(figure.why_none or "", 300),
    ]
    for name, value in list(figure.details.items())[:12]:
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        if plain or (isinstance(value, list) and value):
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            said.append(f"{clean(name.replace('_', ' '), 40)} {clean(text, 80)}")
    return said


def _source(figure: Measurement) -> str:
    parts = (figure.engine, figure.way, figure.method)
    return ", ".join(clean(part, 120) for part in parts if part)


def _made_with(figure: Measurement) -> Fact:
    versions = ", ".join(f"{clean(n, 20)} {clean(v, 60)}" for n, v in figure.versions)
    when = (
        ""
        if figure.taken_at is None
        else units.moment(figure.taken_at, f"{figure.basis} %Y-%m-%d %H:%M:%S")
    )
    return Fact(
        what="With what was it measured?",
        value=versions or units.UNKNOWN,
        because=when,
        basis=READ,
        source="",
    )
