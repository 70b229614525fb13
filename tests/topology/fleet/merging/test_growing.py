"""Outputs of nccl-tests, one a node: who is slower than the others is odd."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.fleet.merging.growing import read_fleet

HEAD = """# nThread 1 nGpus 8 minBytes 1073741824 maxBytes 1073741824 step: 2(factor)
#  Rank  0 Group  0 Pid   1 on {host} device  0 [0000:19:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1 on {host} device  1 [0000:3b:00] NVIDIA H100 80GB HBM3
"""
COLUMNS = (
    "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
    "#   (B) (elements)                 (us) (GB/s) (GB/s)         (us) (GB/s) (GB/s)\n"
)
ROW = "1073741824 268435456 float sum -1 4000.0  {rate}  {rate}  0  4000.0  {rate}  {rate}  0\n"


@pytest.mark.parametrize(("slow", "odd"), [(300.0, [("slow", "figure-odd", "g4")]), (468.0, [])])
def test_a_slow_output_is_odd(tmp_path: Path, slow: float, odd: list[tuple[str, str, str]]) -> None:
    for number in range(1, 9):
        rate = slow if number == 4 else 470.0 + number / 10
        text = HEAD.format(host=f"g{number}") + COLUMNS + ROW.format(rate=f"{rate:.2f}")
        (tmp_path / f"g{number}.txt").write_text(text)
    found = read_fleet(str(tmp_path))
    said = [(item.severity, item.id, item.folded) for item in found.findings if item.hosts]
    assert said == odd
    if odd:
        (item,) = (item for item in found.findings if item.hosts)
        assert item.title.startswith("nccl-tests all reduce busbw")
        assert "300 GB/s, where the median of 8 equal nodes is 470.4" in item.title
        assert item.evidence[0].source == "g4.txt"
