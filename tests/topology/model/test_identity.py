"""The first line of Node: facts stay whole."""

from __future__ import annotations

import pytest

from gputop.screens.node.identity import identity_lines
from gputop.topology.hardware.terms import terms_of
from gputop.topology.hardware.vendors import VENDORS
from gputop.widgets.spans import text_of, width_of
from tests.support.app import demo_report, gpu


@pytest.mark.parametrize("name", ["mi300x-8", "dgx-1v", "hgx-h100-8"])
def test_no_fact_is_broken_over_two_lines(name: str) -> None:
    snapshot = demo_report(name).snapshot
    facts = text_of(identity_lines(snapshot, 1000)[0]).strip().split(" · ")
    assert len(facts) > 5
    for width in range(60, 200):
        lines = identity_lines(snapshot, width, most=9)
        assert all(width_of(line) < width for line in lines)
        shown = [fact for line in lines for fact in text_of(line).strip().split(" · ")]
        assert shown == facts


def test_texts_name_the_library_of_the_node_alone() -> None:
    nvidia, amd = gpu(0), gpu(1, vendor="amd")
    both = "a debug log of {libraries}"
    assert terms_of((nvidia,)).fill(both) == "a debug log of NCCL"
    assert terms_of((amd,)).fill(both) == "a debug log of RCCL"
    assert terms_of((nvidia, amd)).fill(both) == terms_of(()).fill(both)
    libraries = " or ".join(vendor.library for vendor in VENDORS)
    assert terms_of(()).fill(both) == f"a debug log of {libraries}"


def test_the_dies_of_a_package_are_not_counted_as_packages() -> None:
    (line, *_) = identity_lines(demo_report("mi250x-8").snapshot, 160)
    assert "8 GCDs of MI250X" in text_of(line)
    (line, *_) = identity_lines(demo_report("mi300x-8").snapshot, 160)
    assert "8 × MI300X" in text_of(line)
