"""What is kept of a text."""

from __future__ import annotations

import re
from pathlib import Path

from gputop.topology.model import format as formats
from gputop.topology.model.part import PartialNode
from gputop.topology.model.snapshot import Measurement, ProblemKind

FIGURE = Measurement(probe="p2p", quantity="bandwidth", value=1.0)


def part_of(count: int) -> PartialNode:
    text = formats.text_format(
        "made up", lambda lines: PartialNode(measurements=(FIGURE,) * len(lines)), re.compile("x")
    )
    return text.parse(b"\n".join([b"x"] * count), Path("x"))


def test_figures_beyond_the_limit_are_left_out_and_that_is_told() -> None:
    whole, cut = part_of(formats.MOST_MEASURED), part_of(formats.MOST_MEASURED + 1)
    assert len(whole.measurements) == len(cut.measurements) == formats.MOST_MEASURED
    assert not whole.problems
    assert [problem.kind for problem in cut.problems] == [ProblemKind.CUT]
