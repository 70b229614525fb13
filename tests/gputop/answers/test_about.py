"""`gputop about`: one name, several side by side, an unknown one, JSON."""

from __future__ import annotations

import json

import pytest

from gputop.answers.about import AboutRequest, answer
from gputop.answers.known import every_known_name, known
from gputop.exits import Exit
from gputop.topology.hardware.specs import skus
from tests.support.command import gputop


def test_a_gpu_has_its_data_sheet_and_figures_with_sources() -> None:
    done = gputop("about", "H200-SXM")
    assert done.returncode == 0
    assert "4800 GB/s" in done.stdout
    assert "Healthy figures of H200-SXM" in done.stdout
    assert "Sources" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_several_names_stand_side_by_side() -> None:
    done = gputop("about", "H100-SXM", "H200-SXM")
    (line,) = (line for line in done.stdout.splitlines() if "power limit" in line)
    assert line.split() == ["power", "limit", "700", "W", "~", "700", "W"]


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("AMD MI300X", "MI300X"),
        ("AMD Instinct MI300X", "MI300X"),
        ("GeForce RTX 4090", "RTX-4090"),
        ("Tesla V100-PCIe", "V100-PCIe"),
        ("AMDSMI_STATUS_BUSY", "AMDSMI_STATUS_BUSY"),
    ],
)
def test_the_words_before_a_model_may_be_said(said: str, name: str) -> None:
    assert [one.name for one in known(said)] == [name]


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("CX-7", "ConnectX-7"),
        ("Mellanox cx7", "ConnectX-7"),
        ("BF3", "BlueField-3"),
        ("HGX H200", "DGX H200, HGX H200 4-GPU"),
        ("HGX B200", "DGX B200"),
        ("A100 80GB", "A100-SXM4-80, A100-PCIe-80"),
        ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40"),
        ("A100-80G", "A100-SXM4-80, A100-PCIe-80"),
        ("RTX PRO 6000", "RTX-PRO-6000-WS, RTX-PRO-6000-MaxQ, RTX-PRO-6000-Server"),
        ("RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000-Server"),
        ("RTX PRO 6000 Blackwell Max-Q", "RTX-PRO-6000-MaxQ"),
        ("RTX 6000 Ada", "RTX-6000-Ada"),
        ("4090", "RTX-4090"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("H100 SXM5 80GB", "H100-SXM"),
        ("V100 SXM2 32GB", "V100-SXM2-32"),
        ("MI300X 192GB OAM", "MI300X"),
        ("Intel Gaudi 3", "Gaudi3"),
        ("GB200 NVL72", "GB200 NVL72 tray"),
        ("p5", "AWS p5.48xlarge"),
        ("NVLink 4", "nvlink4"),
        ("PCIe 5.0 x16", "pciegen5"),
        ("Gen5 x16", "pciegen5"),
        ("Xid 79", "Xid 79"),
        ("xid 79 H100-SXM H200 SXM", "Xid 79, H100-SXM, H200-SXM"),
        ("RTX A6000 RTX 4090", "RTX-A6000, RTX-4090"),
    ],
)
def test_names_are_taken_as_people_write_them(said: str, names: str) -> None:
    for words in ((said,), tuple(said.split())):
        if len(words) > 1 or not names.startswith(("Xid 79,", "RTX-A6000,")):
            assert ", ".join(one.name for one in answer(AboutRequest(names=words)).known) == names


def test_every_own_name_stands_for_itself() -> None:
    for name in skus():
        assert [one.name for one in known(name)] == [name]
    for name in every_known_name():
        assert known(name)


@pytest.mark.parametrize(
    "said", ["80", "SXM", "RTX", "H100 96GB", "nvidia", "a toaster", "x" * 400]
)
def test_what_tells_no_model_apart_is_not_known(said: str) -> None:
    assert known(said) == ()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("nvlink-down", "nvlink-down is a rule of check: see `gputop rule nvlink-down`"),
        ("cuda-out-of-memory", "it is a symptom in a log"),
    ],
)
def test_a_rule_and_a_symptom_are_pointed_at(said: str, why: str) -> None:
    with pytest.raises(Exit, match=why):
        answer(AboutRequest(names=(said,)))


def test_json_is_one_document() -> None:
    document = json.loads(gputop("about", "H200-SXM", "xid 79", "--json").stdout)
    assert document["schema"] == "gputop.about/1"
    assert [one["kind"] for one in document["known"]] == ["gpu", "code"]
    assert document["known"][0]["figures"][0]["source"]


def test_an_unknown_name_is_wrong_usage_with_what_is_like_it() -> None:
    done = gputop("about", "H200-SXMM\x1b[31m")
    assert done.returncode == 64
    assert "did you mean H200-SXM" in done.stderr
    assert "\x1b[31m" not in done.stderr
    assert gputop("about").returncode == 64
