"""Who moves RCCL's bytes and by which handles: rules of 2.21.5 that speak of NVIDIA's GPUs.

Facts of ROCm/rccl at 2.21.5: graph/xml.cc writes the number of compute units where NCCL has the
compute capability, but graph/topo.cc:ncclTopoAddGpu takes every GPU for 60 before
graph/paths.cc:ncclTopoCheckP2p asks for 80; misc/rocmwrap.cc:ncclCuMemEnable answers 0.
"""

from __future__ import annotations

import pytest

from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.prediction import PairDecision
from gputop.topology.nccl.settings import Settings
from tests.topology.nccl.made import AMD, cpu, gpu, snapshot, system


def pair(units: int, wanted: dict[str, str], version: str = "rccl-2.21.5") -> PairDecision:
    """Two GPUs of so many compute units, joined by xGMI."""
    links = [[("0000:03:00.0", 1, "0x120000")], [("0000:02:00.0", 1, "0x120000")]]
    gpus = [gpu(2 + i, i, links[i]) for i in (0, 1)]
    xml = system(cpu(0, *gpus, kind=AMD), version="2").replace("nvlink", "xgmi")
    xml = xml.replace('"0x030200"', '"0x120000"')
    node = snapshot(xml.replace(' sm="90"', f' sm="{units}" gcn="gfx942" arch="94"'))
    found = predict(node, Settings.of(node, wanted), library=version).pair(0, 1)
    assert found is not None
    return found


@pytest.mark.parametrize("units", [80, 304])
@pytest.mark.parametrize("wish", [None, "0", "1"])
def test_the_receiver_reads_when_told_to_alone(units: int, wish: str | None) -> None:
    found = pair(units, {} if wish is None else {"NCCL_P2P_READ_ENABLE": wish})
    assert found.label == ("P2P/IPC/read" if wish == "1" else "P2P/IPC")
    (step,) = [step for step in found.steps if step.question == "who moves the bytes?"]
    assert step.answer == ("the receiver reads" if wish == "1" else "the sender writes")


@pytest.mark.parametrize("wish", ["0", "1", "-2"])
def test_cumem_stays_off_whatever_is_set(wish: str) -> None:
    assert pair(304, {"NCCL_CUMEM_ENABLE": wish}).label == "P2P/IPC"


def test_a_newer_one_may_be_told_to_use_it() -> None:
    assert pair(304, {"NCCL_CUMEM_ENABLE": "1"}, "rccl-2.26.6").label == "P2P/CUMEM"
