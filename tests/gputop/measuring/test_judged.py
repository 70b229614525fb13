"""What is said of all figures of a node together, and of which node they are."""

from __future__ import annotations

import msgspec
import pytest

from gputop.measuring.judged import Judged, low_probes
from gputop.topology.expectation.judgement import Judgement
from gputop.topology.model.severity import FigureVerdict
from tests.support.app import demo_report
from tests.support.measured import one, with_figures


def because(cause: str) -> Judgement:
    return Judgement(verdict=FigureVerdict.LOW, cause=cause)


@pytest.mark.parametrize(
    ("sick", "measured", "causes", "said"),
    [
        (("p2p",), 1, (), "p2p low"),
        (("p2p",), 1, ("4 links: of 18",), "p2p low: 4 links"),
        (("p2p", "gemm"), 3, (), "2 of 3 probes low: p2p and gemm"),
        (("p2p", "gemm"), 3, ("a: x", "b", "a: y", ""), "2 of 3 probes low: a; b"),
        (("p2p", "gemm"), 3, tuple("abcdef"), "2 of 3 probes low: a; b; c; d"),
    ],
)  # fmt: skip
def test_low_probes_are_counted_and_their_causes_told_once(
    sick: tuple[str, ...], measured: int, causes: tuple[str, ...], said: str
) -> None:
    judgements = [None, *map(because, causes)]
    assert low_probes(sick, measured, judgements, broken=False, simulated=False) == said
    made_up = said.replace("low", "broken, simulated", 1)
    assert low_probes(sick, measured, judgements, broken=True, simulated=True) == made_up


def test_figures_are_of_the_report_with_their_node_and_the_same_values() -> None:
    node = demo_report("hgx-h100-8")
    gpu = node.snapshot.machine.gpus[0].address
    figure = one("gemm", "gemm", 660.0, "TFLOP/s", src=gpu)
    report = with_figures(node, figure)
    found = Judged(report)
    assert found.fits(report)
    assert not found.fits(node), "it has no figures"
    assert not found.fits(with_figures(node, msgspec.structs.replace(figure, value=600.0)))
    assert not found.fits(with_figures(demo_report("hgx-a100-8"), figure))
