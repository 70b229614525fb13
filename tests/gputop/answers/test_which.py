"""`gputop which K`: what it says of busy, sick, shared and mixed nodes, and of wrong input."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.__main__ import run
from gputop.answers import which
from gputop.answers.which import WhichAnswer, WhichRequest
from gputop.measuring.guard import Idle
from gputop.topology.model.readings import GpuReading
from gputop.topology.model.snapshot import NodeSnapshot
from tests.support import mixed_made
from tests.support.checked import saved
from tests.support.expectation_made import change_gpu
from tests.support.snapshots import demo_node, gpus_of

MATRIX = "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n"


def asked(snapshot: NodeSnapshot, count: int, *, busy: bool = False) -> WhichAnswer:
    return which.answer(WhichRequest(given=snapshot, count=count, with_busy=busy))


def with_readings(snapshot: NodeSnapshot, gpus: Sequence[GpuReading]) -> NodeSnapshot:
    readings = msgspec.structs.replace(snapshot.readings, gpus=tuple(gpus))
    return msgspec.structs.replace(snapshot, readings=readings)


def test_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["which", "2", "--demo", "dgx-1v"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "GPU4 and GPU7: by NCCL 2.19.3's own model 40.0 GB/s bus (all-reduce of 1 GiB); 50.0 GB/s "
        "one way, P2P over 2 NVLinks; NUMA node 1, mlx5_2-3 beside them; none in use.",
        "Second best, GPU6-7: 40.0 GB/s bus, nothing less, but 1 NIC beside them in place of 2. 1 "
        "other group is as good as the best.",
        "Left out: GPU0-3 (python3 of demo, torchrun demo).",
        "",
        "To copy:",
        "  export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=4,7",
        "  numactl --cpunodebind=1 --membind=1 PROGRAM",
        '  export NCCL_IB_HCA="=mlx5_2:1,mlx5_3:1"',
        "",
        "  rank  GPU   address",
        "     0  GPU4  0000:84:00.0",
        "     1  GPU7  0000:8a:00.0",
        "",
        "  - NCCL_IB_HCA counts in a job over several nodes alone",
    ]


@pytest.mark.parametrize(
    ("demo", "count", "link", "low"),
    [("mi300x-8", 2, 64.0, 47.9), ("mi300x-8", 4, 64.0, 143.5), ("dgx-1v", 4, 25.0, 79.9)],
)
def test_the_narrowest_link_and_the_figure(demo: str, count: int, link: float, low: float) -> None:
    best = asked(demo_node(demo).snapshot, count, busy=True).best
    assert best is not None
    assert best.link_gbs == link
    assert best.low_gbs == pytest.approx(low, abs=0.05)


def test_what_the_second_best_loses() -> None:
    found = asked(demo_node("dgx-1v").snapshot, 4, busy=True)
    assert found.loses_gbs == pytest.approx(20.0, abs=0.1)
    assert found.second is not None
    assert "20.0 less (25 %)" in found.sentences[1]
    cards = asked(demo_node("pcie-l40s-8").snapshot, 2, busy=True)
    assert "at the least 5.36 less (49 %)" in cards.sentences[1]
    assert "NO P2P: shared memory in the host" in cards.sentences[1]


def test_too_few_free_ones_are_said_with_who_uses_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["which", "4", "--demo", "mi300x-8"]) == 1
    out = capsys.readouterr().out
    said = "Not free now: GPU4-5 (python3 of demo, torchrun demo); 2 GPUs that can be used are free"
    assert said in out
    assert "and 4 were asked for" in out
    assert "HIP_VISIBLE_DEVICES=4,5,6,7" in out


def test_the_document_names_each_user(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["which", "1", "--demo", "hgx-h100-8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "gputop.which/1"
    assert found["best"]["names"] == ["GPU6"]
    assert found["best"]["low_gbs"] is None
    whys = {one["name"]: one["why"] for one in found["left_out"]}
    assert whys["GPU3"] == "in use by pid 41003, python3 of demo, torchrun demo, 67.9 GiB"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("0", "K takes a whole number from 1, not 0"),
        ("-1", "-1"),
        ("two", "K takes a whole number from 1, not two"),
        ("9", "9 of 8 GPUs cannot be chosen: K is at most 8"),
        ("99999999999999999999", "K is at most 8"),
    ],
)
def test_wrong_numbers(word: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["which", word, "--demo", "hgx-h100-8"]) == 64
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err.splitlines()[-1]


def test_what_nobody_told_is_not_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "matrix.txt").write_text(MATRIX, encoding="ascii")
    assert run(["which", "2", "--from", str(tmp_path / "matrix.txt")]) == 0
    out = capsys.readouterr().out
    assert "whether they are in use is not known" in out
    assert "Not known whether GPU0-1 are in use: no reading" in out
    assert "the NUMA node of GPU0 and GPU1 is not known" in out


def test_an_unknown_use_comes_after_a_known_one() -> None:
    snapshot = demo_node("hgx-h100-8").snapshot
    rest = [
        one for one in snapshot.readings.gpus if one.address != gpus_of(demo_node("hgx-h100-8"))[6]
    ]
    found = asked(with_readings(snapshot, rest), 1)
    assert found.best is not None
    assert found.best.names == ("GPU7",)
    assert len(found.not_known) == 1


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"mig_enabled": True}, "MIG is on"),
        ({"compute_mode": "prohibited"}, "its compute mode is prohibited"),
    ],
)
def test_a_gpu_that_cannot_be_used_is_left_out(facts: dict[str, Any], said: str) -> None:
    snapshot = change_gpu(demo_node("hgx-h100-8").snapshot, 7, **facts)
    found = asked(snapshot, 2)
    assert said in {one.name: one.why for one in found.left_out}["GPU7"]
    assert found.best is not None
    assert "GPU7" not in found.best.names
    assert not found.free


def test_a_lost_gpu_is_left_out_and_all_of_them_are_too_many() -> None:
    snapshot = demo_node("hgx-h100-8").snapshot
    lost = [
        msgspec.structs.replace(one, lost=number == 7)
        for number, one in enumerate(snapshot.readings.gpus)
    ]
    found = asked(with_readings(snapshot, lost), 8)
    assert found.best is None
    assert found.exit_code == 1
    assert found.sentences == ("No 8 GPUs of one vendor can be used together here",)


def _some_slower(slower: Sequence[int]) -> NodeSnapshot:
    """Some L40S of a node are A10 instead; nobody uses any."""
    snapshot = demo_node("pcie-l40s-8").snapshot
    for number in slower:
        snapshot = change_gpu(snapshot, number, name="NVIDIA A10", pci_id="10de:2236")
    idle = [msgspec.structs.replace(one, processes=()) for one in snapshot.readings.gpus]
    return with_readings(snapshot, idle)


def test_of_several_models_a_group_is_of_one_and_of_the_fastest() -> None:
    snapshot = _some_slower((1, 3, 4))
    for count in range(1, 6):
        best = asked(snapshot, count, busy=True).best
        assert best is not None
        assert best.models == ("NVIDIA L40S",)
    alone = asked(snapshot, 1, busy=True)
    assert alone.second is not None
    assert alone.second.models == ("NVIDIA A10",)
    assert "the slower NVIDIA A10" in alone.sentences[1]
    both = asked(snapshot, 6, busy=True)
    assert both.best is not None
    assert both.best.models == ("NVIDIA A10", "NVIDIA L40S")
    assert "2 models, NVIDIA A10 and NVIDIA L40S" in both.sentences[0]
    slowest = asked(snapshot, 2, busy=True).best
    assert slowest is not None
    assert slowest.slowest_tflops == 362.05
    # A model that no data sheet tells of is neither slow nor fast.
    strange = asked(change_gpu(snapshot, 1, name="NVIDIA A999", pci_id="10de:ffff"), 2, busy=True)
    assert strange.best is not None
    assert strange.best.slowest_tflops is None


def test_a_gpu_whose_links_are_away_is_not_in_the_best_group() -> None:
    cut = change_gpu(demo_node("dgx-1v").snapshot, 5, nvlinks=())
    best = asked(cut, 4, busy=True).best
    assert best is not None
    assert "GPU5" not in best.names
    all_of_them = asked(cut, 8, busy=True)
    assert all_of_them.best is not None
    assert all_of_them.best.link_gbs is not None
    assert all_of_them.best.link_gbs < 25.0


def test_a_group_is_of_one_vendor() -> None:
    snapshot = mixed_made.mixed()
    found = asked(snapshot, 3, busy=True)
    assert found.best is not None
    vendors = {snapshot.machine.gpu(gpu).vendor for gpu in found.best.gpus}  # type: ignore[union-attr]
    assert vendors == {"amd"}
    assert found.lines[0].startswith("export HIP_VISIBLE_DEVICES=")
    assert asked(snapshot, 5, busy=True).best is None


def test_live_gpus_are_looked_at_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = msgspec.structs.replace(demo_node("hgx-h100-8").snapshot, source=("live",))
    gpus = [gpu.address for gpu in snapshot.machine.gpus]
    monkeypatch.setattr(
        which,
        "idle",
        lambda addresses, names: Idle(free=tuple(gpus[:3]), busy=((gpus[3], "works"),)),
    )
    found = asked(snapshot, 3)
    assert found.best is not None
    assert found.best.gpus == tuple(gpus[:3])


def test_a_saved_node_gives_the_same_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(demo_node("dgx-1v").snapshot, tmp_path / "node.json")
    assert run(["which", "2", "--from", path]) == 0
    told = capsys.readouterr().out
    run(["which", "2", "--demo", "dgx-1v"])
    assert told == capsys.readouterr().out
