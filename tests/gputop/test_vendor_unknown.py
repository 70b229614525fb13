"""GPUs of a vendor that nobody described: cannot tell, in plain words, and never healthy."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from gputop.app import GpuTop
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import STRANGER, diagnose
from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.decide.predict import NoGpusError, predict
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.report import Report
from tests.support.app import SIZES, give, gpu, picture
from tests.support.command import gputop

WORDS = "gputop does not know the vendor of 2 GPUs, "


def stranger(number: int, vendor: str) -> Gpu:
    return gpu(
        number, vendor=vendor, name="Accelerator", nvlinks=(), address=f"0001:{number + 1:02x}:00.0"
    )


def alone(vendor: str) -> NodeSnapshot:
    gpus = tuple(stranger(number, vendor) for number in range(2))
    return NodeSnapshot(taken_at=0.0, machine=Machine(gpus=gpus))


def beside(demo: str, vendor: str) -> NodeSnapshot:
    """A demo node without anything wrong, and two more GPUs."""
    node = DemoFeed(demo).at(0)
    gpus = (*node.machine.gpus, *alone(vendor).machine.gpus)
    return msgspec.structs.replace(node, machine=msgspec.structs.replace(node.machine, gpus=gpus))


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "node.json"
    path.write_bytes(msgspec.json.encode(alone("intel")))
    return str(path)


def test_check_cannot_tell(file: str) -> None:
    done = gputop("check", "--from", file)
    assert done.returncode == 3
    assert "the vendor of GPU0 and GPU1 is not known to gputop: intel" in done.stdout
    assert "healthy;" not in done.stdout
    document = json.loads(gputop("check", "--json", "--from", file).stdout)
    assert document["verdict"] == "cannot tell"


def test_explain_refuses_and_says_why(file: str) -> None:
    done = gputop("explain", "--from", file)
    assert done.returncode == 3
    assert f"nothing to explain: no GPU takes part; {WORDS}intel." in done.stderr


def test_topo_says_it_beside_the_matrix(file: str) -> None:
    done = gputop("topo", "--from", file)
    assert done.returncode == 0
    assert f"{WORDS}intel. Not known of it: its driver and tools" in done.stderr
    assert "GPU0" in done.stdout


@pytest.mark.parametrize("demo", ["hgx-h100-8", "mi300x-8"])
def test_a_healthy_node_is_not_healthy_with_a_stranger_in_it(demo: str) -> None:
    assert diagnose(Case(Node(DemoFeed(demo).at(0)))).verdict == "healthy"
    found = diagnose(Case(Node(beside(demo, "gaudi"))))
    assert found.verdict == "cannot tell"
    (finding,) = (finding for finding in found.findings if finding.id == STRANGER)
    assert finding.devices == ("0001:01:00.0", "0001:02:00.0")
    assert finding.evidence[0].value == "gaudi"


@pytest.mark.parametrize("demo", ["hgx-h100-8", "mi300x-8"])
def test_the_others_are_explained_without_the_strangers(demo: str) -> None:
    node = beside(demo, "gaudi")
    prediction = predict(node)
    bare = predict(DemoFeed(demo).at(0))
    assert (prediction.library, prediction.ranks, prediction.pairs) == (
        bare.library,
        bare.ranks,
        bare.pairs,
    )
    (remark,) = set(prediction.assumptions) - set(bare.assumptions)
    assert remark.startswith(f"{WORDS}gaudi. Not known of it:")
    with pytest.raises(NoGpusError, match="gaudi"):
        predict(node, gpus=("0001:01:00.0",))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_node_says_it(size: tuple[int, int]) -> None:
    report = Report(Node(alone("intel")).decide())
    async with GpuTop().run_test(size=size) as pilot:
        await give(pilot, report)
        seen = picture(pilot)
    assert f"{WORDS}intel." in " ".join(seen.split())
    assert "NVLink" not in seen
    assert "SM MHz" not in seen


def test_a_hostile_name_stays_one_plain_word() -> None:
    found = diagnose(Case(Node(alone("{library}\x1b[31m\n" + "x" * 500))))
    (finding,) = (finding for finding in found.findings if finding.id == STRANGER)
    assert finding.title.endswith(": {library}[31m" + "x" * (40 - len("{library}[31m")))
