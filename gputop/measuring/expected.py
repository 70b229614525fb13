"""Compares figures with their references, for the command line, the history and the screens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

import msgspec

from gputop.measuring.quantities import main_variants, quantity_of
from gputop.probes.protocol.status import DeviceKind
from gputop.terminal.clean import clean
from gputop.topology.expectation.four_numbers import four_numbers
from gputop.topology.expectation.judge import Judge
from gputop.topology.expectation.patterns import FigurePattern
from gputop.topology.expectation.patterns import patterns as patterns_of
from gputop.topology.model.severity import FigureBasis, FigureVerdict
from gputop.topology.model.snapshot import Measurement, NodeSnapshot

if TYPE_CHECKING:
    from gputop.topology.expectation.judgement import Judgement
    from gputop.topology.nccl.prediction import Prediction


class MainFigure(msgspec.Struct, frozen=True, kw_only=True):
    """The best figure of one kind with its four numbers."""

    figure: Measurement
    title: str
    """What was measured: "write bandwidth GPU0 -> GPU1"."""
    unit: str
    line: str
    """Data sheet both ways, data sheet one way, realistic, measured."""

    @property
    def text(self) -> str:
        """The title and the four numbers in one line."""
        return f"{self.title}, {self.unit}: {self.line}"


class Expectations(msgspec.Struct, frozen=True):
    """Figures, the judgement of each, and the patterns that they form together."""

    figures: tuple[Measurement, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    """One for each figure, in order; empty where nothing can be judged."""
    main: tuple[MainFigure, ...] = ()
    """The best figure of each kind that the probes compare with the data sheet."""
    patterns: tuple[FigurePattern, ...] = ()
    """The device, link or block that explains why several figures are low."""

    @property
    def low(self) -> bool:
        """Whether any figure is low."""
        return any(judgement.verdict == FigureVerdict.LOW for judgement in self.judgements)

    def pairs(self) -> list[tuple[Measurement, Judgement | None]]:
        """Each figure with its judgement."""
        if not self.judgements:
            return [(figure, None) for figure in self.figures]
        return list(zip(self.figures, self.judgements, strict=True))


class Expecting:
    """Judges the figures of one node and caches what that takes."""

    def __init__(
        self,
        snapshot: NodeSnapshot | None,
        names: Mapping[str, str],
        prediction: Prediction | None = None,
    ) -> None:
        """`snapshot` is None for a self-test; `names`: the label of a device by address.

        `prediction`: what NCCL or RCCL does on the node; made on demand when None.
        """
        self._snapshot = snapshot
        self._names = names
        self._prediction = prediction
        self._judge: Judge | None = None

    def of(self, found: Sequence[Measurement]) -> Expectations:
        """Judge the figures of real GPUs; figures of a self-test are returned unjudged."""
        figures = tuple(found)
        snapshot = self._snapshot
        if snapshot is None or all(figure.device_kind == DeviceKind.CPU for figure in figures):
            return Expectations(figures)
        if self._judge is None:
            self._judge = Judge(snapshot, self._prediction)
        judgements = self._judge.judge(figures)
        main = []
        for figure in main_figures(figures):
            numbers = four_numbers(snapshot, figure, self._judge)
            if numbers is not None:
                main.append(
                    MainFigure(
                        figure=figure,
                        title=title(figure, self._names),
                        unit=numbers.unit,
                        line=numbers.line,
                    )
                )
        read = patterns_of(
            figures, self._names, snapshot, prediction=self._prediction, judgements=judgements
        )
        return Expectations(figures, judgements, tuple(main), read)


def title(figure: Measurement, names: Mapping[str, str], *, ends: bool = True) -> str:
    """Describe a figure: "write bandwidth GPU0 -> GPU1"; `ends` adds the GPUs."""
    words = [clean(figure.quantity.replace("_", " "), 40)]
    if figure.variant:
        words.append(clean(figure.variant, 60))
    who = [names.get(end, clean(end, 20)) for end in (figure.src, figure.dst) if end and ends]
    return " ".join((*words, " -> ".join(who))).strip()


def main_figures(figures: Sequence[Measurement]) -> list[Measurement]:
    """The best figure of each quantity that declares a main variant."""
    best = []
    for declared, variant in main_variants():
        alike = [
            figure
            for figure in figures
            if quantity_of(figure) == declared
            and figure.value is not None
            and (figure.variant or "").startswith(variant)
        ]
        if alike:
            best.append(max(alike, key=lambda figure: figure.value or 0.0))
    return best


class ReferenceEntry(TypedDict):
    """What a figure is held against, and what comes of it."""

    verdict: FigureVerdict
    healthy: float | None
    low: float | None
    high: float | None
    unit: str | None
    basis: FigureBasis | None
    source: str | None
    scaled: list[str]
    share: float | None
    cause: str
    explained: bool
    note: str


def as_json(judgement: Judgement | None) -> ReferenceEntry | None:
    """A judgement as `gputop probe --json` writes it."""
    if judgement is None:
        return None
    band = judgement.band
    return {
        "verdict": judgement.verdict,
        "healthy": None if band is None else band.healthy,
        "low": None if band is None else band.low,
        "high": None if band is None else band.high,
        "unit": None if band is None else band.unit,
        "basis": None if band is None else band.basis,
        "source": None if band is None else band.source,
        "scaled": [] if band is None else list(band.scaled),
        "share": judgement.share,
        "cause": judgement.cause,
        "explained": judgement.explained,
        "note": judgement.note,
    }
