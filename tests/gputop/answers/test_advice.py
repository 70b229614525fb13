"""Advice of `gputop explain` for a job on a part of an Instinct board: what check says too."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from gputop.commands.asking import load
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.rules.amd.links import FEW
from gputop.topology.node import Node
from tests.support.snapshots import demo_node

EXPORT = "export NCCL_MIN_NCHANNELS=32"


def explained(*words: str) -> str:
    result = CliRunner().invoke(load("explain"), words)
    assert result.exit_code == 0, result.output
    return result.stdout


def document(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(explained(*words, "--json"))
    return found


@pytest.mark.parametrize(("demo", "gpus"), [("mi300x-8", 2), ("mi300x-8", 4), ("mi355x-8", 2)])
def test_advice_for_a_part_of_a_mesh_agrees_with_check(demo: str, gpus: int) -> None:
    chosen = ",".join(map(str, range(gpus)))
    snapshot = demo_node(demo).snapshot
    addresses = [gpu.address for gpu in snapshot.machine.gpus[:gpus]]
    (finding,) = FEW.answer(Case(Node(snapshot), gpus=addresses)) or ()
    (remark,) = document("--demo", demo, "--gpus", chosen)["advice"]
    assert (remark["id"], remark["title"], remark["command"]) == (
        "amd-few-gpus",
        finding.title,
        EXPORT,
    )
    assert finding.evidence[0].value in remark["why"]
    text = " ".join(explained("--demo", demo, "--gpus", chosen).split())
    assert f"{finding.title}: {finding.evidence[0].value}" in text
    assert text.endswith(EXPORT)


@pytest.mark.parametrize(
    "words",
    [
        ("--demo", "mi300x-8"),
        ("--demo", "mi250x-8", "--gpus", "0,1"),
        ("--demo", "hgx-h100-8", "--gpus", "0,1"),
    ],
)
def test_other_jobs_get_no_advice(words: tuple[str, ...]) -> None:
    assert document(*words)["advice"] == []
    assert EXPORT not in explained(*words)


def test_advice_that_is_followed_is_not_repeated() -> None:
    words = ("--demo", "mi300x-8", "--gpus", "0,1", "--set", "NCCL_MIN_NCHANNELS=32")
    (remark,) = document(*words)["advice"]
    assert (remark["text"], remark["command"]) == ("", "")
    assert "1 of 7 links of each GPU is in use" in remark["why"]
    fewer = document("--demo", "mi300x-8", "--gpus", "0,1", "--set", "NCCL_MIN_NCHANNELS=8")
    assert fewer["advice"][0]["command"] == EXPORT
