"""Runs of the probe nccl on machines with four and two H200, against the prediction."""

from __future__ import annotations

import io

import pytest

from gputop.topology.diagnosis.symptoms.log import examine
from gputop.topology.exports.nccl_xml import as_nccl_xml
from gputop.topology.logs.reading.read import read_file
from gputop.topology.recorded.load import load
from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "nccl-probe"
RUNS = ("default", "p2p-off", "net", "cumem-off", "level-loc")
LABELS = {
    "default": {"P2P/CUMEM"},
    "p2p-off": {"SHM/direct/direct"},
    "net": {"NET/Socket/0", "NET/Socket/0/Shared"},
    "cumem-off": {"P2P/IPC"},
    "level-loc": {"SHM/direct/direct"},
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("gpus", [4, 2])
def test_prediction_and_log_agree_on_everything(gpus: int, run: str) -> None:
    log = read_file(FOLDER / f"{gpus}-gpus-{run}.log.gz")
    read = examine(log, load([str(FOLDER / f"{gpus}-gpus.json")]).snapshot)
    agreement = read.overlay.agreement
    assert agreement.comparable, agreement.why_not
    assert [item for item in agreement.items if not item.agrees] == []
    assert len(agreement.pairs) == gpus * (gpus - 1)
    assert all(pair.agrees for pair in agreement.pairs)
    assert {label for pair in agreement.pairs for label in pair.logged} == LABELS[run]
    assert log.unread == ()


def test_the_live_topology_is_the_one_that_nccl_dumps() -> None:
    """All that differs from NCCL's own dump of that machine is the host hash."""
    text = as_nccl_xml(load([str(FOLDER / "4-gpus.json")]).snapshot).text
    dump = io.StringIO((RECORDINGS / "nccl-topologies" / "real.xml").read_text())
    lines = [line for line in dump if "host_hash" not in line]
    assert [line for line in io.StringIO(text) if "<cpu" not in line] == lines
