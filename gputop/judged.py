"""Figures beside what they should be: judged once for a set of figures and kept.

The refresh thread asks first, so that the screens find the answer ready.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from gputop.clean import clean

if TYPE_CHECKING:
    from gputop.topology.expectation.judgement import Judgement
    from gputop.topology.machine import Machine
    from gputop.topology.report import Report
    from gputop.topology.snapshot import Measurement

_KEPT = 2
"""Sets of figures that are kept: what is shown, and what the refresh thread prepares."""


class Judged:
    """The figures of one node with their verdicts, and the patterns in them."""

    def __init__(self, report: Report) -> None:
        snapshot = report.snapshot
        self.machine: Machine = snapshot.machine
        self.figures: tuple[Measurement, ...] = snapshot.measurements
        self.names: dict[str, str] = _names(self.machine)
        """Label of a GPU by PCI address and by UUID: "GPU3"."""
        self._found: dict[tuple[object, ...], Judgement] = {}
        self._four: dict[str, list[str]] = {}
        self._patterns: dict[str, dict[str, list[str]]] = {}
        if self.figures:
            self._judge(report)

    def _judge(self, report: Report) -> None:
        from gputop.expected import main_figures
        from gputop.topology.expectation.four_numbers import four_numbers
        from gputop.topology.expectation.judge import Judge

        snapshot = report.snapshot
        judge = Judge(snapshot, report.prediction)
        judgements = judge.judge(self.figures)
        for figure, judgement in zip(self.figures, judgements, strict=True):
            self._found[_key(figure)] = judgement
        for figure in main_figures(self.figures):
            told = four_numbers(snapshot, figure, judge)
            if told is not None:
                self._four.setdefault(figure.probe, []).append(told.line.replace("->", "→"))
        self._read_patterns(report, judgements)

    def _read_patterns(self, report: Report, judgements: tuple[Judgement, ...]) -> None:
        from gputop.topology.expectation.patterns import patterns

        probes = {figure.quantity: figure.probe for figure in self.figures}
        for one in patterns(
            self.figures,
            self.names,
            report.snapshot,
            prediction=report.prediction,
            judgements=judgements,
        ):
            told = self._patterns.setdefault(probes.get(one.quantity, ""), {})
            told.setdefault(one.quantity, []).append(one.text)

    def fits(self, report: Report) -> bool:
        """Whether this is what that report shows; cheap where the figures are the same objects."""
        snapshot = report.snapshot
        same = self.machine is snapshot.machine or self.machine == snapshot.machine
        return same and self.figures == snapshot.measurements

    def of(self, figure: Measurement) -> Judgement | None:
        """The verdict on one of the figures."""
        return self._found.get(_key(figure))

    def four_numbers(self, probe: str) -> tuple[str, ...]:
        """Data sheet, one way, realistic and measured, a line for each main figure of a probe."""
        return tuple(self._four.get(probe, ()))

    def patterns(self, probe: str) -> dict[str, str]:
        """Quantity -> the pattern in its matrix, of the figures of one probe."""
        found = self._patterns.get(probe, {})
        return {quantity: " ".join(texts) for quantity, texts in found.items()}

    def notes(self, probe: str) -> tuple[str, ...]:
        """What the figures of a probe say together: the four numbers and the patterns."""
        return (*self.four_numbers(probe), *self.patterns(probe).values())

    def pattern(self, quantity: str) -> str:
        """The pattern in the matrix of one quantity; "" where there is none."""
        for patterns in self._patterns.values():
            if quantity in patterns:
                return " ".join(patterns[quantity])
        return ""


_lock = threading.Lock()
_kept: list[Judged] = []


def judged(report: Report) -> Judged:
    """Judge the figures of a report, unless that was done."""
    with _lock:
        for known in _kept:
            if known.fits(report):
                return known
    fresh = Judged(report)
    with _lock:
        _kept.insert(0, fresh)
        del _kept[_KEPT:]
    return fresh


def _names(machine: Machine) -> dict[str, str]:
    names: dict[str, str] = {}
    for gpu in machine.gpus:
        label = clean(gpu.address) if gpu.index is None else f"GPU{gpu.index}"
        names[gpu.address] = label
        if gpu.uuid:
            names[gpu.uuid] = label
    return names


def _key(figure: Measurement) -> tuple[object, ...]:
    return (
        figure.probe,
        figure.quantity,
        figure.src,
        figure.dst,
        figure.direction,
        figure.variant,
        figure.bytes_per_copy,
    )
