"""A GPU that fell off the bus: the one line that nvidia-smi prints (JosephKJ/OWOD issue 81)."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.node import Node
from gputop.topology.recorded.load import load

LOST = (
    "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  "
    "Reboot the system to recover this GPU\n"
)


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        (LOST, True),
        (LOST.replace("GPU 0", "GPU1: 0").replace("GPU is lost", "Unknown Error"), False),
    ],
    ids=["lost", "unknown"],
)
def test_the_line_names_the_gpu(tmp_path: Path, line: str, lost: bool) -> None:
    path = tmp_path / "paste.txt"
    path.write_text(f"$ nvidia-smi\n{line}")
    node = load([str(path)]).snapshot
    assert [gpu.address for gpu in node.machine.gpus] == ["0000:02:00.0"]
    assert [reading.lost for reading in node.readings.gpus] == [True] * lost
    assert len(node.problems) == (not lost)
    found = {finding.id for finding in diagnose(Case(Node(node))).findings}
    assert ("gpu-lost" in found) is lost
