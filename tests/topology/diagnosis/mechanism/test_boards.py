"""On boards without NVSwitches nothing is blamed on them; on boards with them all stays."""

from __future__ import annotations

import re

import pytest

from gputop.topology.diagnosis.symptoms.explain import table
from gputop.topology.model.finding import Finding
from gputop.topology.model.severity import BROKEN, SLOW
from tests.topology.diagnosis.symptoms.test_unmarked_text import read

TABLE = """\
| NVIDIA-SMI 570.86.10              Driver Version: 570.86.10      CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  {:<27}     On  |   00000000:01:00.0 Off |                  Off |
| 30%   35C    P8             20W /  450W |       1MiB /  24564MiB |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
"""
DESKS = (
    "NVIDIA GeForce RTX 4090",
    "NVIDIA RTX A6000",
    "Quadro RTX 8000",
    "NVIDIA L40S",
    "Tesla T4",
)
FABRIC = re.compile(r"(?i)nvswitch|fabric manager")
SXID = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
LINES = [
    SXID,
    *(
        row.shown[0]
        for row in table()
        if row.any and row.shown and FABRIC.search(" ".join((row.title, row.cause, *row.fix)))
    ),
]


def blamed(finding: Finding) -> bool:
    """Whether a fault is claimed, and NVSwitches or their service are named for it."""
    said = (finding.title, finding.cause, finding.impact)
    return finding.severity in (BROKEN, SLOW) and FABRIC.search(" ".join(said)) is not None


@pytest.mark.parametrize("name", DESKS)
@pytest.mark.parametrize("line", LINES)
def test_a_board_without_switches_is_not_accused_for_them(name: str, line: str) -> None:
    found = read(f"{TABLE.format(name)}\n{line}").findings
    assert [one.title for one in found if blamed(one)] == []


def test_a_board_with_switches_is() -> None:
    said = {
        one.id
        for line in LINES
        for one in read(f"{TABLE.format('NVIDIA H100 80GB HBM3')}\n{line}").findings
        if blamed(one)
    }
    assert {"cuda-802", "fabric-manager-failed", "fabric-manager-version", "nvswitch-fatal"} <= said
