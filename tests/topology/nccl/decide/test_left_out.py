"""GPUs that only PCI shows take no part in a communicator."""

from __future__ import annotations

import msgspec
import pytest

from gputop.app import GpuTop
from gputop.measuring.runs import requests_for
from gputop.measuring.selection import select
from gputop.topology.model.record import Gap
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.report import Report
from gputop.topology.sources.collect import ONLY_PCI
from tests.support.app import give, picture, press

UNSERVED = tuple(Gap(field, ONLY_PCI) for field in ("uuid", "memory_bytes", "index"))


def node(name: str, *hidden: int) -> NodeSnapshot:
    """A demo node of whose GPUs some are known by PCI alone."""
    snapshot = DemoFeed(name).at(3)
    gpus = tuple(
        msgspec.structs.replace(
            gpu, uuid=None, memory_bytes=None, index=None, nvlinks=(), xgmi=(), gaps=UNSERVED
        )
        if number in hidden
        else gpu
        for number, gpu in enumerate(snapshot.machine.gpus)
    )
    machine = msgspec.structs.replace(snapshot.machine, gpus=gpus)
    return msgspec.structs.replace(snapshot, machine=machine)


@pytest.mark.parametrize("name", ["hgx-h100-8", "mi300x-8"])
def test_a_gpu_that_its_driver_does_not_serve_takes_no_part(name: str) -> None:
    snapshot = node(name, 3, 7)
    kept = [gpu.address for gpu in snapshot.machine.gpus if gpu.why("uuid") != ONLY_PCI]
    found = predict(snapshot)
    assert {pair.src_bus_id for pair in found.pairs} == set(kept)
    assert len(found.pairs) == 6 * 5
    assert "2 GPUs take no part: their driver does not answer for " in " ".join(found.assumptions)
    # The same as where those are not in the machine at all.
    whole = predict(DemoFeed(name).at(3), gpus=kept)
    assert [pair.transport for pair in found.pairs] == [pair.transport for pair in whole.pairs]


def test_a_probe_without_a_choice_leaves_them_out() -> None:
    machine = node("hgx-h100-8", 0, 7).machine
    assert select(None, machine) == tuple(gpu.address for gpu in machine.gpus[1:7])
    (request,) = requests_for(("p2p",), machine, ())
    assert request.addresses == select(None, machine)
    nothing_told = node("hgx-h100-8", *range(8)).machine
    assert len(select(None, nothing_told)) == 8


@pytest.mark.parametrize("key", ["1", "3"])
async def test_screens_name_them_by_their_bus(key: str) -> None:
    report = Report(Node(node("hgx-h100-8", 2, 3)))
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, report)
        await press(pilot, key)
        shown = picture(pilot)
    assert "3b:00" in shown
    assert "0000:…" not in shown
    assert " GPU2" not in shown  # the library's number 2 is another GPU's, or nobody's


def test_all_take_part_where_no_library_answered_for_any() -> None:
    found = predict(node("hgx-h100-8", *range(8)))
    assert len(found.pairs) == 8 * 7
    assert "take no part" not in " ".join(found.assumptions)
