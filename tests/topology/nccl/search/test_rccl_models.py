"""RCCL's hand-made node models: which node has one, and what loses it."""

from __future__ import annotations

import msgspec
import pytest

from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.prediction import DecisionStep, Prediction
from gputop.topology.nccl.search.rccl_models import models
from gputop.topology.nccl.settings import Settings
from gputop.topology.recorded.feeds import DemoFeed
from tests.topology.nccl.made import AMD, cpu, decide, gpu, nic, switch, system


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


@pytest.mark.parametrize("library", ["rccl-2.21.5", "rccl-2.27.7", "rccl-2.30.4"])
@pytest.mark.parametrize("gpus", [6, 8])
def test_two_rings_are_the_most_only_where_rccl_looks_for_a_model(library: str, gpus: int) -> None:
    """graph/search.cc:ncclTopoCompute caps what parseRome4P2H marked, which it asks for no more."""
    some = {"HIP_VISIBLE_DEVICES": ",".join(map(str, range(gpus)))}
    off = {**some, "RCCL_MODEL_MATCHING_DISABLE": "1"}
    given = {**some, "NCCL_RINGS": "unreadable"}
    shown = DemoFeed("mi300x-8").at(0)
    rings = [
        predict(shown, Settings(env), library=library).graphs.ring for env in (some, off, given)
    ]
    channels = [ring.channels for ring in rings if ring is not None and ring.model is None]
    assert channels == {6: [2, 8, 8], 8: [12, 12]}[gpus]


@pytest.mark.parametrize(
    ("library", "answer", "channels"),
    [("rccl-2.21.5", "no", 16), ("rccl-2.27.7", "yes: rome_model_81", 64),
     ("rccl-2.30.4", "yes: rome_model_81", 64)],
)  # fmt: skip
def test_a_nic_one_switch_away_fits_the_model_of_two_hosts_since_2_27(
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


def package(bus: int, dev: int, rank: int, others: list[int], gcn: str, inside: str = "") -> str:
    """An AMD GPU with an xGMI link to each of the others, and what hangs beside it."""
    links = "".join(
        f'<xgmi target="0000:{other:02x}:00.0" count="1" tclass="0x038000"/>' for other in others
    )
    return (
        f'<pci busid="0000:{bus:02x}:00.0" class="0x038000" link_speed="32.0 GT/s PCIe" '
        f'link_width="16"><gpu dev="{dev}" sm="304" gcn="{gcn}" arch="38911" rank="{rank}" '
        f'gdr="1">{links}</gpu></pci>{inside}'
    )


def test_a_guest_with_all_mi300x_counts_through_the_path_types_that_rccl_has() -> None:
    """RCCL 2.21.5 makes 14 rings of 18 GB/s on two hosts of its model topo_8p_940vm.

    With more types its search would be at the end of its steps before it came to 20 and 18 GB/s.
    """
    buses = [0x11, 0x21, 0x31, 0x41, 0x51, 0x61, 0x71, 0x81]
    # Device numbers and ranks in the order of the model's file, which names the ranks of a VM.
    homes = ([(1, 0), (0, 1), (2, 2), (3, 5)], [(6, 3), (5, 4), (4, 6), (7, 7)])
    ports = ([(0x20, 0), (0x30, 1), (0x10, 2), (0x40, 3)],
             [(0x60, 4), (0x50, 5), (0x70, 6), (0x80, 7)])  # fmt: skip
    cpus = [
        cpu(
            numa,
            *(
                package(
                    buses[dev], dev, rank, [bus for bus in buses if bus != buses[dev]], "gfx942"
                )
                for dev, rank in homes[numa]
            ),
            *(nic(bus, dev) for bus, dev in ports[numa]),
        )
        for numa in range(2)
    ]
    found = decide(system(*cpus, version="2"), library="rccl-2.21.5", nodes=2)
    assert found.graphs.ring is not None
    assert found.graphs.ring.model is None
    assert (found.graphs.ring.channels, found.graphs.ring.bw_intra) == (14, 18.0)


ROME = 'arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49"'


def test_four_hives_of_four_gpus_with_a_nic_beside_each() -> None:
    """RCCL looks for the NIC at distance 3 (parse4H4P), which is PIX in its list of types."""
    hives = [[0x10 + 8 * hive + place for place in range(4)] for hive in range(4)]
    boards = []
    for hive, buses in enumerate(hives):
        for place, bus in enumerate(buses):
            dev = 4 * hive + place
            others = [other for other in buses if other != bus]
            inside = package(bus, dev, dev, others, "gfx908", nic(0x60 + dev, dev))
            boards.append(switch(0x80 + dev, inside))
    node = system(cpu(0, *boards[:8], kind=ROME), cpu(1, *boards[8:], kind=ROME), version="2")
    for nodes in (1, 2):
        found = decide(node, library="rccl-2.21.5", nodes=nodes)
        assert model_step(found).answer == "yes: rome_model_68"
        assert found.graphs.ring is not None
        assert found.graphs.ring.channels == 8
        assert found.graphs.ring.type_intra == "XGMI"
