"""What is known of a product, and whether a number is normal for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gputop.agents.requests import FiguresTool
from gputop.agents.told import AgentFact, FactKind
from gputop.answers.about import AboutRequest, answer
from gputop.answers.known import Known
from gputop.topology.expectation.judgement import band
from gputop.topology.expectation.links import pcie_gbs
from gputop.topology.hardware.specs import PublishedFigure
from gputop.topology.model.severity import FigureBasis

_PCIE = re.compile(r"\bpcie\D{0,12}?([1-6])(?:\.0)? *,? *x ?(1|2|4|8|16)\b", re.I)
_QUANTITIES = {"allreduce": "allreduce_busbw", "p2p": "p2p_uni", "hbm": "hbm_triad"}
_DISPROOF = "other figures of several healthy nodes of this kind, measured the same way"


def facts(asked: FiguresTool) -> Iterator[AgentFact]:
    """What tables hold of a name; raises Exit where none has it."""
    if link := _PCIE.search(asked.product):
        yield from _pcie(int(link[1]), int(link[2]), asked.measured)
        return
    for known in answer(AboutRequest(names=(asked.product,))).known:
        if not asked.quantity:
            yield from _sheet(known)
        chosen = [one for one in known.figures if _is_asked(one, asked)]
        yield from (_figure(known, figure) for figure in chosen)
        if asked.quantity:
            yield _judged(known, chosen, asked)


def _pcie(gen: int, width: int, measured: float | None) -> Iterator[AgentFact]:
    gbs, name = pcie_gbs(gen, width), f"PCIe gen{gen} x{width}"
    source = "PCI Express Base Specification: rate, lanes and line code"
    sheet = FactKind.DATA_SHEET
    what = f"{name}, payload"
    yield AgentFact(what, gbs, sheet, source, unit="GB/s one way")
    if gbs is not None and measured is not None:
        share = measured / gbs
        word = "more than the link carries" if share > 1 else f"{share:.0%} of what it carries"
        lost = "another generation or width in `lspci -vv` (LnkSta)"
        concluded = FactKind.CONCLUDED
        yield AgentFact("your number", word, concluded, name, disproof=lost)


def _sheet(known: Known) -> Iterator[AgentFact]:
    """What tables hold in one fact, and in a second one what no source confirms."""
    for confirmed in (True, False):
        value = {
            fact.what: f"{fact.value} {fact.unit}".rstrip()
            for fact in known.facts
            if fact.confirmed is confirmed
        }
        if value:
            yield AgentFact(
                known.name,
                value,
                FactKind.DATA_SHEET if confirmed else FactKind.OPEN,
                "; ".join(known.sources),
                why=() if confirmed else ("no source that was read confirms it",),
            )


def _is_asked(figure: PublishedFigure, asked: FiguresTool) -> bool:
    plain = asked.quantity.lower().replace("-", "_").replace(" ", "_")
    wanted = _QUANTITIES.get(plain.replace("_", ""), plain)
    return figure.quantity.startswith(wanted) and asked.gpus in (None, figure.gpus)


def _figure(known: Known, figure: PublishedFigure) -> AgentFact:
    of = f" of {figure.gpus} GPUs" if figure.gpus else ""
    return AgentFact(
        f"{known.name}: {figure.quantity}{of}",
        figure.measured,
        FactKind(figure.kind),
        figure.source,
        unit=figure.unit,
        why=tuple(filter(None, (figure.algorithm, figure.note))),
        disproof=_DISPROOF,
    )


def _judged(known: Known, chosen: list[PublishedFigure], asked: FiguresTool) -> AgentFact:
    """By the bands of a check, those of typical figures, else of the best ones; and by floors.

    A floor is what somebody accepts a node by: below it nothing is called healthy.
    """
    what = f"{known.name}: your {asked.quantity}"
    by_kind = {kind: [one for one in chosen if one.kind is kind] for kind in FigureBasis}
    expected = by_kind[FigureBasis.TYPICAL] or by_kind[FigureBasis.BEST]
    floors = by_kind[FigureBasis.FLOOR]
    if asked.measured is None or not (expected or floors):
        why = ("no `measured` was given" if asked.measured is None else "no reference",)
        return AgentFact(what, None, FactKind.OPEN, "", why=why)
    missed = [one for one in floors if asked.measured < one.measured]
    if expected:  # what is above each figure of a healthy node is a floor of another size
        most = max(one.measured for one in expected)
        missed = [one for one in missed if one.measured <= most]
    rows = [(_word(asked.measured, one), one) for one in expected]
    rows += [("low", one) for one in missed]
    # A floor that is kept says nothing that a figure does not say better.
    rows += [("enough", one) for one in floors if not expected and one not in missed]
    said = ", ".join(
        f"{word} against {one.measured:g} {one.unit} ({one.kind}{f', {one.note}' * bool(one.note)})"
        for word, one in rows
    )
    words = {word for word, _ in rows}
    if "low" in words and len(words) > 1:
        why = ("which of them is comparable decides: number of GPUs, algorithm, size",)
        return AgentFact(what, said, FactKind.OPEN, known.name, why=why)
    return AgentFact(what, said, FactKind.CONCLUDED, known.name, disproof=_DISPROOF)


def _word(measured: float, figure: PublishedFigure) -> str:
    made = band(figure.measured, figure.unit, figure.kind, figure.source)
    if measured > made.high:
        return "high"
    return "low" if measured < made.low else "healthy"
