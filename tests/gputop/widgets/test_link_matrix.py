"""The matrix of links: a pair with fewer links than the others does not look like them."""

from __future__ import annotations

import pytest

from gputop.screens.node.cells import fewer_lanes
from gputop.screens.node.gpu_lines import rows_of
from gputop.widgets.link_matrix import matrix_lines
from gputop.widgets.spans import Line, text_of
from tests.support.app import demo_report


def _inks(lines: tuple[Line, ...], letters: str) -> set[str]:
    return {ink for line in lines for text, ink in line if text.strip() == letters}


def test_fewer_links_than_others_have_another_ink_and_a_sign() -> None:
    report = demo_report("sick-h100-8")
    sick = report.snapshot.machine.gpus[3].address
    lines = matrix_lines(report.matrix, None, 200, {sick: ("▼", "warn")})
    assert _inks(lines, "NV16") == {"bad"}
    assert _inks(lines, "NV18") == {"link-nvlink"}
    assert "GPU3▼" in text_of(lines[0])
    assert [text_of(line)[:6] for line in lines if "▼" in text_of(line)][1:] == [" GPU3▼"]


@pytest.mark.parametrize("name", ["hgx-h100-8", "dgx-1v"])
def test_pairs_that_differ_by_design_are_alike(name: str) -> None:
    lines = matrix_lines(demo_report(name).matrix, None)
    inks = {ink for line in lines for text, ink in line if text.strip().startswith("NV")}
    assert inks == {"link-nvlink"}


def test_the_heading_names_the_gpu_with_fewer_lanes() -> None:
    sick, well = (demo_report(name).snapshot for name in ("sick-h100-8", "hgx-h100-8"))
    assert fewer_lanes(rows_of(sick)) == "5 x16, GPU3 x8 !"
    assert fewer_lanes(rows_of(well)) == ""
