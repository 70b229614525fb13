"""An export format is one file and one line."""

from __future__ import annotations

from tests.support.copied_checkout import CopiedCheckout

MODULE = '''"""The wires of the node, one a line."""

from __future__ import annotations

from ..report import Report
from ..wiring.graph import wires_of
from .written import Written


def write(report: Report) -> Written:
    """Write both ends and the kind of each wire, separated by tabs."""
    lines = [f"{a}\\t{b}\\t{wire.kind}\\n" for a, b, wire in wires_of(report.graph)]
    return Written("".join(lines))
'''


def test_an_export_format_is_one_file_and_one_line(checkout: CopiedCheckout) -> None:
    checkout.write("topology/exports/edge_list.py", MODULE)
    checkout.add_line("topology/exports/__init__.py", after='"json",', line='"edge-list",')
    written = checkout.gputop("topo", "--format", "edge-list", "--demo", "dgx-1v")
    assert written.returncode == 0, written.stderr
    rows = [line.split("\t") for line in written.stdout.splitlines()]
    assert {len(row) for row in rows} == {3}
    assert {"nvlink", "pcie"} <= {kind for _, _, kind in rows}
    assert "edge-list" in checkout.gputop("topo", "--help").stdout
