"""Judges each set of figures once and caches the result.

The refresh thread asks first, so that the result is ready for the screens.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from gputop.measuring.expected import Expectations, Expecting
from gputop.terminal.clean import clean
from gputop.topology.expectation.kept import Kept
from gputop.topology.model.english import listing, plural
from gputop.topology.model.severity import FigureVerdict
from gputop.topology.wiring.gpu_names import gpu_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gputop.topology.expectation.judgement import Judgement
    from gputop.topology.model.machine import Machine
    from gputop.topology.model.snapshot import Measurement
    from gputop.topology.report import Report

MOST_CAUSES = 4
"""How many different causes are listed for one kind of low figures."""


class Judged:
    """The figures of one node with their verdicts, and the patterns in them, by probe."""

    def __init__(self, report: Report) -> None:
        snapshot = report.snapshot
        self.machine: Machine = snapshot.machine
        self.figures: tuple[Measurement, ...] = snapshot.measurements
        self.names: dict[str, str] = _names(self.machine)
        """Label of a GPU by PCI address and by UUID: "GPU3"."""
        self._known = Expectations()
        if self.figures:
            self._known = Expecting(snapshot, self.names, report.prediction).of(self.figures)
        self._found = {figure.key: judgement for figure, judgement in self._known.pairs()}

    def fits(self, report: Report) -> bool:
        """Whether these are the figures of a report; cheap where they are the same objects."""
        snapshot = report.snapshot
        same = self.machine is snapshot.machine or self.machine == snapshot.machine
        return same and self.figures == snapshot.measurements

    def of(self, figure: Measurement) -> Judgement | None:
        """The judgement of one figure."""
        return self._found.get(figure.key)

    @cached_property
    def low(self) -> tuple[int, int]:
        """How many figures are low, without and with a cause that accounts for it."""
        known = [one for _, one in self._known.pairs() if one is not None]
        found = [one for one in known if one.verdict == FigureVerdict.LOW]
        explained = sum(one.explained for one in found)
        return len(found) - explained, explained

    def four_numbers(self, probe: str) -> tuple[str, ...]:
        """The four numbers of each main figure of a probe, one line each."""
        return tuple(
            line.line.replace("->", "→") for line in self._known.main if line.figure.probe == probe
        )

    def patterns(self, probe: str) -> dict[str, str]:
        """Quantity -> the pattern in its matrix, for the quantities of one probe."""
        own = dict.fromkeys(figure.quantity for figure in self.figures if figure.probe == probe)
        sentences = {quantity: self.pattern(quantity) for quantity in own}
        return {quantity: text for quantity, text in sentences.items() if text}

    def notes(self, probe: str) -> tuple[str, ...]:
        """Sentences on the figures of a probe: the four numbers and the patterns."""
        return (*self.four_numbers(probe), *self.patterns(probe).values())

    def pattern(self, quantity: str) -> str:
        """The pattern in the matrix of one quantity; "" where there is none."""
        return " ".join(
            pattern.text for pattern in self._known.patterns if pattern.quantity == quantity
        )

    def patterns_about(self, *addresses: str) -> tuple[str, ...]:
        """Patterns of these devices, each once even if several quantities show it."""
        wanted = set(addresses)
        sentences = {
            (pattern.kind, pattern.devices): pattern.text
            for pattern in reversed(self._known.patterns)
            if not wanted.isdisjoint(pattern.devices)
        }
        return tuple(reversed(sentences.values()))


def low_probes(
    sick: Sequence[str],
    measured: int,
    judgements: Iterable[Judgement | None],
    *,
    broken: bool,
    simulated: bool,
) -> str:
    """Which probes are low or broken, and why: "3 of 6 probes low: GPU3 has 16 of 18 NVLinks up".

    `sick`: their names; `measured`: how many probes have figures; `judgements`: of the sick ones.
    """
    names = listing(list(sick))
    who = names if measured == 1 else f"{len(sick)} of {measured} probes"
    causes = dict.fromkeys(
        clean(each.cause.partition(": ")[0], 100) for each in judgements if each and each.cause
    )
    more = "; ".join([*causes][:MOST_CAUSES]) or (names if measured > 1 else "")
    word = "broken" if broken else "low"
    return f"{who} {word}{', simulated' if simulated else ''}{f': {more}' if more else ''}"


def nothing_low(probe: str, measured: int, *, simulated: bool) -> str:
    """That no figure is low, of the one probe or of so many that were measured."""
    what = probe if measured == 1 else plural(measured, "probe")
    return f"{what}{', simulated' if simulated else ''}: nothing low"


_judged: Kept[Report, Judged] = Kept(Judged, most=2)
"""For the figures on screen and those that are being prepared."""


def judged(report: Report) -> Judged:
    """Judge the figures of a report, or take the result from the cache."""
    return _judged.of(report)


def _names(machine: Machine) -> dict[str, str]:
    names: dict[str, str] = {}
    for gpu in machine.gpus:
        for key in (gpu.address, gpu.uuid):
            if key:
                names[key] = clean(gpu_label(gpu))
    return names
