"""An export format is one file and one line."""

from __future__ import annotations

from tests.house.promises.worked_examples import example, line
from tests.support.copied_checkout import CopiedCheckout

MODULE, NAMES = "topology/exports/edge_list.py", "topology/exports/__init__.py"


def test_an_export_format_is_one_file_and_one_line(checkout: CopiedCheckout) -> None:
    checkout.write(MODULE, example(MODULE))
    checkout.add_line(NAMES, after='"json",', line=line(NAMES))
    written, helped = checkout.gputop("topo --format edge-list --demo dgx-1v", "topo --help")
    assert written.returncode == 0, written.stderr
    rows = [line.split("\t") for line in written.stdout.splitlines()]
    assert {len(row) for row in rows} == {3}
    assert {"nvlink", "pcie"} <= {kind for _, _, kind in rows}
    assert "edge-list" in helped.stdout
