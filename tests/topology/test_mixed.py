"""A machine with NVIDIA's and AMD's GPUs: on every screen, in the commands, for the rules."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest

from gputop.app import GpuTop
from gputop.topology.model.snapshot import decode, encode
from gputop.topology.recorded.demos import demo
from gputop.topology.wiring.gpu_names import gpu_label
from tests.grid import share

from ..support.app import SIZES, give, picture, press
from ..support.command import gputop
from ..support.mixed_made import PACKAGES, mixed, mixed_report, raw
from ..support.rule_cases import diagnosed, ids

LABELS = ["GPU0", "GPU1", "AMD0", "AMD1", "AMD2", "AMD3"]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    file = tmp_path / "mixed.json"
    file.write_bytes(encode(mixed()))
    return file


def test_the_raw_answers_are_plain_data_of_both_libraries() -> None:
    answers = raw()
    assert json.loads(json.dumps(answers)) == answers
    assert {"nvml", "amdsmi", "nvml_readings", "amdsmi_readings"} <= answers.keys()
    assert decode(encode(mixed())) == mixed()


def test_no_two_gpus_have_one_label() -> None:
    machine = mixed().machine
    assert [gpu_label(gpu) for gpu in machine.gpus] == LABELS
    assert [gpu.index for gpu in machine.gpus] == [0, 1, 0, 1, 2, 3]
    rows = [row for row in mixed_report().matrix.rows if row.kind == "gpu"]
    assert [row.label for row in rows] == LABELS


def test_one_vendor_alone_keeps_its_labels() -> None:
    for name in ("mi300x-8", "pcie-l40s-8"):
        parts = demo.parts(demo.raw(name, 0)).values()
        gpus = [gpu for part in parts for gpu in part.gpus]
        assert not any(gpu.index_shared for gpu in gpus)


def test_links_stay_within_a_vendor() -> None:
    report = mixed_report()
    gpus = report.snapshot.machine.gpus
    for one, other in combinations(gpus, 2):
        cell = report.matrix.cell(one.address, other.address)
        assert cell is not None
        both_amd = one.vendor == other.vendor == "amd"
        assert (cell.code == "XGMI") == both_amd
    assert [len(island) for island in report.islands] == [PACKAGES]


def test_a_communicator_has_the_gpus_of_one_vendor_and_its_library() -> None:
    prediction = mixed_report().prediction
    assert prediction is not None
    assert prediction.library.name == "rccl"
    assert prediction.ranks == PACKAGES


def test_the_rules_say_nothing_wrong_of_the_mix() -> None:
    found = diagnosed(mixed())
    assert found.verdict == "healthy"
    assert "gpu-models-mixed" in ids(found)
    assert not [rule for rule in ids(found) if rule.startswith(("nvlink", "xgmi", "driver", "nic"))]


@pytest.mark.parametrize(
    "size", share([(size,) for size in SIZES], 2), ids=lambda size: f"{size[0]}x{size[1]}"
)
async def test_every_screen_shows_both(size: tuple[int, int]) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        await give(pilot, mixed_report())
        assert "A3" in picture(pilot)
        await press(pilot, "2")
        assert "AMD0" in picture(pilot)
        assert "GPU1" in picture(pilot)
        for key in ("3", "4", "5", "6", "7", "8", "9"):
            await press(pilot, key)
            assert picture(pilot).strip()
        await press(pilot, "3")
        assert "AMD3" in picture(pilot)


@pytest.mark.parametrize(
    "words",
    [
        ("topo", "--format", "matrix"),
        ("topo", "--format", "tree"),
        ("topo", "--format", "nccl-xml"),
        ("explain",),
        ("flags", "NCCL_P2P_LEVEL"),
        ("check", "--quick"),
    ],
    ids=" ".join,
)
def test_the_commands_take_it(recording: Path, words: tuple[str, ...]) -> None:
    ran = gputop(*words, "--from", str(recording))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip()
