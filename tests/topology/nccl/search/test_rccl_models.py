"""RCCL's hand-made node models: which node has one, and what loses it."""

from __future__ import annotations

import msgspec
import pytest

from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.prediction import DecisionStep, Prediction
from gputop.topology.nccl.search.rccl_models import models
from gputop.topology.nccl.settings import Settings
from gputop.topology.recorded.feeds import DemoFeed
from tests.topology.nccl.made import AMD, cpu, gpu, system


def model_step(found: Prediction) -> DecisionStep:
    return found.views[0].steps["model"][0]


def test_all_of_an_mi300x_node_is_known_and_parts_of_it_are_not() -> None:
    shown = DemoFeed("mi300x-8").at(0)
    whole = predict(shown, Settings())
    assert model_step(whole).answer == "yes: rome_model_79"
    ring = whole.graphs.ring
    assert ring is not None
    assert (ring.channels, ring.bw_intra, ring.estimate) == (28, 12.0, None)
    for count in (2, 4, 7):
        env = {"HIP_VISIBLE_DEVICES": ",".join(map(str, range(count)))}
        part = predict(shown, Settings(env))
        assert model_step(part).answer == "no"
        found = part.graphs.ring
        assert found is not None
        assert found.model is None
        # (n - 1) links of 48 GB/s leave each GPU.
        assert found.channels * found.bw_intra <= (count - 1) * 48
    off = predict(shown, Settings({"RCCL_MODEL_MATCHING_DISABLE": "1"}))
    assert model_step(off).answer == "not asked"


@pytest.mark.parametrize(
    ("library", "answer", "channels"),
    [("rccl-2.21.5", "no", 8), ("rccl-2.26.6", "yes: rome_model_81", 64),
     ("rccl-2.30.4", "yes: rome_model_81", 64)],
)  # fmt: skip
def test_a_nic_one_switch_away_fits_the_model_of_two_hosts_since_2_26(
    library: str, answer: str, channels: int
) -> None:
    """The model's NICs are PXB from their GPUs, those of the demo PIX (permuteNetIds)."""
    found = predict(DemoFeed("mi300x-8").at(0), nodes=2, library=library)
    assert model_step(found).answer == answer
    assert found.graphs.ring is not None
    assert found.graphs.ring.channels == channels


def test_a_lost_link_loses_the_model() -> None:
    sick = predict(DemoFeed("sick-mi300x-8").at(0), Settings())
    assert model_step(sick).answer == "no"
    well = predict(DemoFeed("mi300x-8").at(0), Settings()).graphs.ring
    worse = sick.graphs.ring
    assert well is not None
    assert worse is not None
    assert worse.channels * worse.bw_intra < well.channels * well.bw_intra / 2


@pytest.mark.parametrize(("numa", "known"), [(None, True), (0, False)])
def test_one_numa_node_is_an_assumption_where_none_was_read(numa: int | None, known: bool) -> None:
    """It decides whether RCCL knows the node, and a copy of KFD's topology says nothing of it."""
    snapshot = DemoFeed("mi250x-8").at(0)
    gpus = tuple(msgspec.structs.replace(gpu, numa_node=numa) for gpu in snapshot.machine.gpus)
    machine = msgspec.structs.replace(snapshot.machine, gpus=gpus, pci=())
    found = predict(msgspec.structs.replace(snapshot, machine=machine))
    assert model_step(found).answer == "no"
    assert known == any("taken to be on one" in text for text in found.assumptions)


def test_models_are_whole() -> None:
    known = models()
    assert len({model.name for model in known}) == len(known) == 44
    for model in known:
        count = len(model.gpu_ids)
        assert [len(row) for row in model.links] == [count] * count
        assert [len(row.split()) for row in model.gdr] == [count] * len(model.nic_numa)
        assert len(model.gpu_numa) == count
        full = [ring for ring in model.rings if ring]
        places = [[w for w in ring.split() if not w.startswith("N")] for ring in full]
        assert any(sorted(map(int, words)) == list(range(count)) for words in places)


@pytest.mark.timeout(60)
def test_a_file_made_to_be_slow_ends_soon() -> None:
    """Sixteen GPUs in four hives that no list has: every permutation of a hive looks alike."""
    from gputop.topology.nccl.search.recognition import match
    from tests.topology.nccl.nodes import made as system_of

    def links(rank: int) -> list[tuple[str, int, str]]:
        hive = rank // 4 * 4
        return [
            (f"0000:{16 + other:02x}:00.0", 4, "0x120000")
            for other in range(hive, hive + 4)
            if other != rank
        ]

    nodes = [
        cpu(numa, *(gpu(16 + rank, rank, links(rank)) for rank in range(numa * 4, numa * 4 + 4)),
            kind=AMD)
        for numa in range(4)
    ]  # fmt: skip
    xml = system(*nodes, version="2").replace("nvlink", "xgmi").replace("0x030200", "0x120000")
    built = system_of(xml.replace(' sm="90"', ' sm="304" gcn="gfx942"'), library="rccl-2.21.5")
    from gputop.topology.nccl.versions import version_for

    assert match(built, version_for("rccl-2.21.5")[0]) is None
