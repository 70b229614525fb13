"""What the screen Flags works out about a variable."""

from __future__ import annotations

import pytest

from gputop.screens.flags.work import work_out
from gputop.topology.flags.what_if.study import Study
from gputop.topology.model.page import Blank, Heading
from gputop.topology.node import Node
from tests.support.expectation_made import demo


@pytest.mark.parametrize("name", ["NCCL_P2P_DISABLE", "NCCL_ALGO", "NCCL_IB_HCA"])
@pytest.mark.parametrize("shape", ["mi300x-8", "hgx-h100-8"])
def test_no_heading_stands_above_nothing(shape: str, name: str) -> None:
    snapshot = demo(shape)
    found = work_out(Study(snapshot), Node(snapshot), name, {})
    assert found is not None
    assert found.flag
    blocks = [block for block in found.flag if not isinstance(block, Blank)]
    for block, below in zip(blocks, [*blocks[1:], None], strict=True):
        assert not isinstance(block, Heading) or not isinstance(below, Heading | None), block
