"""Rules about AMD's GPUs on trees of real machines, and what they advise for a part of a board."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.exports.matrix import format_showtopo
from gputop.topology.model.finding import Finding
from gputop.topology.model.severity import BY_DESIGN
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.node import Node
from gputop.topology.recorded.demos import demo
from gputop.topology.recorded.load import load
from gputop.topology.sources.collect import merge
from gputop.topology.wiring.relations import matrix
from tests.support.places import RECORDINGS
from tests.support.rule_cases import base

KFD = RECORDINGS / "kfd"


def about(rule: str, case: Case) -> list[Finding]:
    return [finding for finding in diagnose(case).findings if finding.id == rule]


@pytest.mark.parametrize(("file", "gpus"), [("mi300x-8-cpx", 63), ("mi308x-8-cpx", 32)])
def test_parts_are_reported_as_parts_of_their_packages(file: str, gpus: int) -> None:
    snapshot = load([str(KFD / f"{file}.tar.gz")]).snapshot
    (one,) = about("amd-partition", Case(Node(snapshot)))
    assert one.severity == BY_DESIGN
    assert one.title == f"8 packages show as {gpus} GPUs (CPX)"


@pytest.mark.parametrize(
    ("name", "gpus", "paper", "all_of_them"),
    [
        ("mi300x-8", 2, "1 x 64.0 = 64.0 GB/s", "448 GB/s"),
        ("mi300x-8", 4, "3 x 64.0 = 192 GB/s", "448 GB/s"),
        ("mi355x-8", 2, "1 x 76.8 = 76.8 GB/s", "538 GB/s"),
    ],
)
def test_a_part_of_a_board_is_told_what_it_has(
    name: str, gpus: int, paper: str, all_of_them: str
) -> None:
    snapshot = base(f"demo {name}")
    chosen = [gpu.address for gpu in snapshot.machine.gpus[:gpus]]
    (one,) = about("amd-few-gpus", Case(Node(snapshot), gpus=chosen))
    assert one.severity == BY_DESIGN
    assert paper in one.evidence[0].value
    assert all_of_them in one.evidence[0].value
    assert one.fix[0].command == "export NCCL_MIN_NCHANNELS=32"
    if (name, gpus) == ("mi300x-8", 2):
        assert "47.7 GB/s busbw as others measured" in one.impact


def test_two_dies_of_a_package_are_no_part_of_a_full_mesh() -> None:
    snapshot = base("demo mi250x-8")
    for pair in ((0, 1), (0, 2)):
        chosen = [snapshot.machine.gpus[place].address for place in pair]
        assert not about("amd-few-gpus", Case(Node(snapshot), gpus=chosen))


def without(place: int) -> NodeSnapshot:
    """The demo mi300x-8 with a GPU that PCI shows and amdsmi does not: the others close up."""
    raw = copy.deepcopy(demo.raw("mi300x-8", 3))
    for name in ("amdsmi", "amdsmi_readings"):
        devices = [one for number, one in enumerate(raw[name]["devices"]) if number != place]
        for number, device in enumerate(devices):
            device["index"] = number
            device["pairs"] = [
                pair | {"peer": pair["peer"] - (pair["peer"] > place)}
                for pair in device.get("pairs", ())
                if pair["peer"] != place
            ]
        raw[name]["devices"] = devices
    parts = tuple(demo.parts(raw).values())
    return merge(parts, taken_at=1.7e9, source=("made",), gputop="0")


def test_links_to_a_gpu_that_the_library_does_not_see_are_not_called_down() -> None:
    found = diagnose(Case(Node(without(3))))
    assert "gpu-without-driver" in {finding.id for finding in found.findings}
    assert not [finding for finding in found.findings if finding.id == "xgmi-link-down"]


def test_such_a_gpu_has_its_address_for_a_name_in_the_tables_too() -> None:
    machine = without(3).machine
    assert matrix(machine).labels[:8] == (*(f"GPU{place}" for place in range(7)), "0000:64:00.0")
    tables = format_showtopo(machine).splitlines()
    assert tables[2].split() == [*(f"GPU{place}" for place in range(7)), "0000:64:00.0"]
    assert tables[10].split() == ["0000:64:00.0", *["N/A"] * 7, "0"]
    assert tables[2].index("GPU1") == tables[3].index("15")


@pytest.mark.parametrize(
    ("library", "paths"), [("rccl-2.26.6", {"XGMI", "SYS"}), ("rccl-2.30.4", {"XGMI"})]
)
def test_pairs_over_other_gpus_are_told_which_rccl_counts_them_over_pcie(
    library: str, paths: set[str]
) -> None:
    snapshot = base("demo mi250x-8")
    assert {pair.path for pair in predict(snapshot, library=library).pairs} == paths
    (one,) = about("xgmi-several-hops", Case(Node(snapshot)))
    assert "RCCL before 2.30 counts it over PCIe" in one.impact


def partitioned(**modes: tuple[str | None, ...]) -> Case:
    """The demo mi300x-8 with the first GPUs' modes as given."""
    snapshot = base("demo mi300x-8")
    gpus = list(snapshot.machine.gpus)
    for field, words in modes.items():
        for place, word in enumerate(words):
            gpus[place] = msgspec.structs.replace(gpus[place], **{field: word})
    machine = msgspec.structs.replace(snapshot.machine, gpus=tuple(gpus))
    return Case(Node(msgspec.structs.replace(snapshot, machine=machine)))


def test_an_unknown_mode_is_not_a_different_mode() -> None:
    assert not about("amd-partition", partitioned(memory_partition=(None, None)))
    assert not about("amd-partition", partitioned(compute_partition=(None,) * 3))
    (one,) = about(
        "amd-partition", partitioned(memory_partition=(None,), compute_partition=("SPX", "CPX"))
    )
    assert one.title == "GPU1 is partitioned otherwise than the rest"
    assert one.devices == ("0000:24:00.0",)


def test_one_part_is_one() -> None:
    snapshot = base("demo mi300x-8")
    part = msgspec.structs.replace(
        snapshot.machine.gpus[0], compute_partition="CPX", partition="0", parent="0000:04:00.0"
    )
    machine = msgspec.structs.replace(snapshot.machine, gpus=(part,))
    case = Case(Node(msgspec.structs.replace(snapshot, machine=machine)))
    (one,) = about("amd-partition", case)
    assert one.title == "1 package shows as 1 GPU (CPX NPS1)"


def test_a_page_that_waits_is_not_called_out_of_use(tmp_path: Path) -> None:
    none = "No bad pages found."
    entry: dict[str, object] = {"gpu": 0, "bdf": "0000:0c:00.0", "retired": none, "un_res": none}
    (tmp_path / "pages.json").write_text(
        json.dumps([entry | {"pending": [{"page_address": "0x1"}]}])
    )
    (one,) = about("amd-bad-pages", Case(Node(load([str(tmp_path)]).snapshot)))
    assert one.title == "bad pages of memory on GPU0"
    assert "once it has reserved it" in one.impact
