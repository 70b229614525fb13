"""A card in a slot that has a quarter of its lanes, or fewer."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.reading import read_snapshot
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.shared.lanes import by_itself
from gputop.topology.node import Node

LSPCI = """\
00:1c.4 PCI bridge: Intel Corporation Device a33c (rev f0) (prog-if 00 [Normal decode])
\tBus: primary=00, secondary=03, subordinate=03, sec-latency=0
\tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00
\t\tLnkCap:\tPort #5, Speed 8GT/s, Width x{slot}, ASPM L0s L1
\t\tLnkSta:\tSpeed 8GT/s (ok), Width x{now} (ok)
03:00.0 VGA compatible controller: NVIDIA Corporation GP104 [GeForce GTX 1080] (rev a1)
\tCapabilities: [78] Express (v2) Legacy Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 8GT/s, Width x16, ASPM L0s L1
\t\tLnkSta:\tSpeed 8GT/s (ok), Width x{now} (downgraded)
"""


@pytest.mark.parametrize(
    ("slot", "now", "told"), [(1, 1, True), (4, 4, True), (8, 8, False), (16, 16, False)]
)
def test_a_slot_with_few_lanes_is_told(tmp_path: Path, slot: int, now: int, told: bool) -> None:
    path = tmp_path / "lspci.txt"
    path.write_text(LSPCI.format(slot=slot, now=now), encoding="utf-8")
    found = by_itself(Case(Node(read_snapshot((str(path),), None))), set())
    assert [(link.now, link.most) for link in found] == [(now, 16)] * told
    assert all(f"x{slot}" in link.source for link in found)
