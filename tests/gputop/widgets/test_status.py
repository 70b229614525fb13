"""What the status line says of a probe that has finished."""

from __future__ import annotations

from collections.abc import Hashable

import msgspec
import pytest
from msgspec.structs import replace

from gputop.measuring.judged import Judged
from gputop.topology.expectation.judgement import Judgement
from gputop.topology.model.snapshot import Measurement
from gputop.topology.report import Report
from gputop.widgets.spans import text_of
from gputop.widgets.status import counted, probe_line
from tests.support.app import demo_report
from tests.support.measured import p2p, with_figures
from tests.support.runs import run_of, suite_of

REPORT = demo_report("hgx-h100-8")
ADDRESSES = [gpu.address for gpu in REPORT.snapshot.machine.gpus]


def keys(report: Report, probe: str = "") -> set[Hashable]:
    return {one.key for one in report.snapshot.measurements if probe in (one.probe, "")}


def test_low_figures_are_counted_before_all_else() -> None:
    well = with_figures(REPORT, *p2p(ADDRESSES))
    sick = with_figures(REPORT, *p2p(ADDRESSES, slow=ADDRESSES[3]))
    said = text_of(counted(well, keys(well, "p2p")))
    assert said.startswith(" · ✓ ")
    assert "figures healthy" in said
    assert " low" not in said
    assert text_of(counted(sick, keys(sick))).startswith(" · ▼ ")
    assert text_of(counted(sick, keys(sick, "p2p"))).endswith(" figures low")
    assert counted(sick, keys(sick, "gemm")) == counted(REPORT, keys(sick)) == ()


def test_figures_of_earlier_runs_are_not_counted() -> None:
    sick = with_figures(REPORT, *p2p(ADDRESSES, slow=ADDRESSES[3]))
    run = {one.key for one in sick.snapshot.measurements if ADDRESSES[3] not in (one.src, one.dst)}
    said = text_of(counted(sick, run))
    assert said.startswith(" · ✓ ")
    assert " low" not in said


def test_a_low_figure_whose_cause_is_known_is_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    sick = with_figures(REPORT, *p2p(ADDRESSES, slow=ADDRESSES[3]))
    real = Judged.of
    known: list[Hashable] = []

    def of(self: Judged, figure: Measurement) -> Judgement | None:
        found = real(self, figure)
        if found is None or found.verdict != "low" or (known and figure.key not in known):
            return found
        return msgspec.structs.replace(found, explained=True)

    monkeypatch.setattr(Judged, "of", of)
    line = counted(sick, keys(sick))
    assert {ink for _, ink in line} == {"muted", "warn"}
    assert text_of(line).endswith(" figures low, all explained")
    known += [one.key for one in sick.snapshot.measurements if one.src == ADDRESSES[3]]
    line = counted(sick, keys(sick))
    assert [ink for _, ink in line] == ["muted", "bad", "warn"]
    assert text_of(line).endswith(" more explained")


def test_high_figures_are_counted_too() -> None:
    figures = p2p(ADDRESSES)
    tall = [replace(figure, value=10 * (figure.value or 0)) for figure in figures]
    report = with_figures(REPORT, *tall)
    said = text_of(counted(report, keys(report)))
    assert said.startswith(" · ▲ ")
    assert f" of {len(tall)} figures high" in said


def test_the_end_of_a_probe_is_said_once() -> None:
    one = suite_of(run_of("p2p", text="Finished in 2.8 s."))
    all_of = suite_of(run_of("p2p"), run_of("host"), text="9 of 9 probes finished in 28 s.")
    assert text_of(probe_line(one)) == " p2p: finished in 2.8 s"
    assert text_of(probe_line(all_of)) == " 9 of 9 probes finished in 28 s"
