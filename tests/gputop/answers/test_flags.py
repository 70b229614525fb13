"""`gputop flags`: a flag for a node, what is set, the catalogue, and wrong usage."""

from __future__ import annotations

import json

import pytest

from gputop.topology.flags.catalogue.catalogue import catalogue
from tests.support.command import gputop
from tests.support.places import RECORDINGS


def test_the_command_explains_a_flag() -> None:
    done = gputop("flags", "NCCL_P2P_LEVEL", "--demo", "pcie-l40s-8", NCCL_P2P_LEVEL="SYS")
    assert done.returncode == 0
    assert "It is not set here." in done.stdout, "the caller's variables say nothing of a demo"
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_an_unknown_name_is_wrong_usage_with_a_hint() -> None:
    done = gputop("flags", "NCCL_P2P_DISABLED", "--demo", "pcie-l40s-8")
    assert done.returncode == 64
    assert "NCCL_P2P_DISABLE" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("--all", "NCCL_ALGO"),
        ("--pid", "1", "--demo", "hgx-h100-8"),
        ("--pid", "0"),
        ("--pid", "4194999"),
        ("--demo", "hgx-h100-8", "--set", "NCCL_ALGO"),
        ("--demo", "hgx-h100-8", "--nccl", "abc"),
        ("--demo", "hgx-h100-8", "--gpus", "99"),
    ],
)
def test_wrong_usage_ends_with_64(arguments: tuple[str, ...]) -> None:
    done = gputop("flags", *arguments)
    assert done.returncode == 64, done.stderr
    assert "Traceback" not in done.stderr


def test_json_is_one_document() -> None:
    done = gputop(
        "flags", "NCCL_P2P_LEVEL", "--demo", "pcie-l40s-8", "--set", "NCCL_P2P_LEVEL=PHB", "--json"
    )
    document = json.loads(done.stdout)
    assert document["schema"] == "gputop.flags/1"
    assert document["source"] == ["demo pcie-l40s-8"]
    assert document["assumptions"]
    assert document["what_if"]["export"] == "export NCCL_P2P_LEVEL=PHB"
    assert document["what_if"]["effect"]["pairs_changed"] == 8
    outcomes = {
        one["value"]: one["effect"]["pairs_changed"] for one in document["flag"]["outcomes"]
    }
    assert outcomes == {"LOC": 4, "NVL": 4, "PIX": 0, "PXB": 0, "PHB": 8, "SYS": 24}


def test_json_of_what_is_set_keeps_its_names() -> None:
    node = str(RECORDINGS / "torchrun-h200-2gpu" / "snapshot.json")
    document = json.loads(gputop("flags", "--json", "--from", node).stdout)
    assert document["set"]
    for entry in document["set"]:
        assert {"name", "value", "origin", "known", "reading", "told", "status"} <= entry.keys()
        assert entry["told"]


def test_the_catalogue_needs_no_node() -> None:
    done = gputop("flags", "--all", "--json")
    assert len(json.loads(done.stdout)["catalogue"]) == len(catalogue().flags)
    text = gputop("flags", "--search", "gdr level")
    assert text.returncode == 0
    assert "NCCL_NET_GDR_LEVEL" in text.stdout


def test_a_subset_of_gpus_is_its_own_communicator() -> None:
    done = gputop("flags", "NCCL_P2P_LEVEL", "--demo", "pcie-l40s-8", "--gpus", "0,1")
    assert "The one pair is behind one PCIe switch (PIX) and uses P2P as it is" in " ".join(
        done.stdout.split()
    )


def test_a_name_with_a_value_asks_what_set_asks() -> None:
    here = ("--demo", "pcie-l40s-8")
    done = gputop("flags", "NCCL_P2P_DISABLE=1", *here)
    assert (
        done.stdout
        == gputop("flags", "NCCL_P2P_DISABLE", "--set", "NCCL_P2P_DISABLE=1", *here).stdout
    )
    assert "What changes with NCCL_P2P_DISABLE=1" in done.stdout
    assert "did you mean NCCL_P2P_DISABLE" in gputop("flags", "NCL_P2P_DISABLE=1", *here).stderr
