"""What the status line says of a probe that has finished."""

from __future__ import annotations

from msgspec.structs import replace

from gputop.messages import ProbeState
from gputop.widgets.spans import text_of
from gputop.widgets.status import counted, probe_line
from tests.support.app import demo_report
from tests.support.measured import p2p, with_figures

REPORT = demo_report("hgx-h100-8")
ADDRESSES = [gpu.address for gpu in REPORT.snapshot.machine.gpus]


def test_low_figures_are_counted_before_all_else() -> None:
    well = with_figures(REPORT, *p2p(ADDRESSES))
    sick = with_figures(REPORT, *p2p(ADDRESSES, slow=ADDRESSES[3]))
    said = text_of(counted(well, "p2p"))
    assert said.startswith(" · ✓ ")
    assert "figures healthy" in said
    assert " low" not in said
    assert text_of(counted(sick, "probes")).startswith(" · ▼ ")
    assert text_of(counted(sick, "p2p")).endswith(" figures low")
    assert counted(sick, "gemm") == counted(REPORT, "p2p") == ()


def test_high_figures_are_counted_too() -> None:
    figures = p2p(ADDRESSES)
    tall = [replace(figure, value=10 * (figure.value or 0)) for figure in figures]
    said = text_of(counted(with_figures(REPORT, *tall), "p2p"))
    assert said.startswith(" · ▲ ")
    assert f" of {len(tall)} figures high" in said


def test_the_end_of_a_probe_is_said_once() -> None:
    one = ProbeState(probe="p2p", running=False, status="finished", text="Finished in 2.8 s.")
    all_of = ProbeState(
        probe="probes", running=False, status="finished", text="9 of 9 probes finished in 28 s."
    )
    assert text_of(probe_line(one)) == " p2p: finished in 2.8 s"
    assert text_of(probe_line(all_of)) == " 9 of 9 probes finished in 28 s"
