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


def test_nccl_2_32_decides_on_two_h100_as_predicted() -> None:
    """The only run at hand of a version after 2.30, with its diagnostics."""
    log = read_file(FOLDER / "2-h100-2.32.3.log.gz")
    snapshot = load([str(FOLDER / "2-h100.json")]).snapshot
    assert ("NCCL_VERSION", "2.28.3-1") in [(one.name, one.value) for one in snapshot.environment]
    read = examine(log, snapshot)
    agreement = read.overlay.agreement
    assert log.versions.version == "2.32.3"
    assert agreement.comparable, agreement.why_not
    assert len(agreement.items) == 47
    assert [item for item in agreement.items if not item.agrees] == []
    assert [pair.logged for pair in agreement.pairs] == 2 * [("P2P/CUMEM",)]
    assert log.unread == ()


def test_what_differs_is_not_blamed_on_variables_that_nothing_reads() -> None:
    log = read_file(FOLDER / "2-h100-2.32.3.log.gz")
    snapshot = load([str(FOLDER / "2-h100.json")]).snapshot
    read = examine(log, snapshot, library="nccl-2.18.1")
    agreement = read.overlay.agreement
    assert not all(item.agrees for item in agreement.items)
    assert not [why for why in agreement.reasons if "NCCL_VERSION" in why or "NCCL_RUN_" in why]


def test_the_live_topology_is_the_one_that_nccl_dumps() -> None:
    """All that differs from NCCL's own dump of that machine is the host hash."""
    text = as_nccl_xml(load([str(FOLDER / "4-gpus.json")]).snapshot).text
    dump = io.StringIO((RECORDINGS / "nccl-topologies" / "real.xml").read_text())
    lines = [line for line in dump if "host_hash" not in line]
    assert [line for line in io.StringIO(text) if "<cpu" not in line] == lines
