"""The effect of changed variables as sections."""

from __future__ import annotations

import pytest

from gputop.printing.render import blocks_of, texts
from gputop.topology.flags.what_if.study import Study
from gputop.topology.flags.what_if.wording import sections
from gputop.topology.recorded.feeds import DemoFeed


@pytest.mark.parametrize("demo", ["mi300x-8", "pcie-l40s-8"])
def test_what_changes_names_the_library_of_the_node(demo: str) -> None:
    study = Study(DemoFeed(demo, version="0").at(0))
    changed = study.compare({}, {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"})
    lines = " ".join(texts(blocks_of(sections(changed)), 80))
    rccl = demo == "mi300x-8"
    assert ("RCCL counts 8 nodes instead of 1" in lines) is rccl
    assert (" NCCL counts 8 nodes instead of 1" in lines) is not rccl
    assert not (rccl and "predicted times" in lines)
