"""`gputop about`: one name, several side by side, an unknown one, JSON."""

from __future__ import annotations

import json

import pytest

from gputop.answers.known import known
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
    assert line.split() == ["power", "limit", "700", "W", "700", "W"]


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
