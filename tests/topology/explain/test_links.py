"""When NVLinks are missing, and when their absence is normal."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.screens.node.gpu_lines import rows_of
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.explain.why import why_device
from gputop.topology.model.machine import Gpu, Machine, NvLink
from gputop.topology.model.page import Page
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.widgets.gpu_cells import links
from gputop.widgets.spans import text_of
from tests.support.places import RECORDINGS
from tests.support.snapshots import gpu, node_of

A, B = "0000:01:00.0", "0000:02:00.0"


def some_down(name: str, **facts: Any) -> Page:
    links = tuple(
        NvLink(link=n, active=n < 12, remote_kind="nvswitch", version="4.0") for n in range(18)
    )
    own = gpu(0, A, links, name=name, **facts)
    return why_device(node_of(Machine(gpus=(own,))), A)


def test_missing_links_are_a_fault_only_where_the_model_has_them_all() -> None:
    assert "12 of 18 NVLinks are up" in some_down("NVIDIA H200").claim
    assert some_down("NVIDIA H100 NVL").fix == (), "12 of 18 by design"
    assert some_down("NVIDIA H200", mig_enabled=True).fix == (), "MIG takes links down"
    assert some_down("Somebody's GPU").fix == (), "no twin and no table"


@pytest.mark.parametrize("name", ["NVIDIA H200", "NVIDIA GH200 120GB"])
def test_no_link_up_on_a_gpu_that_stands_alone_is_no_fault(name: str) -> None:
    links = tuple(NvLink(link=n, active=False) for n in range(18))
    why = why_device(node_of(Machine(gpus=(gpu(0, A, links, name=name),))), A)
    assert why.fix == (), "a partition of one GPU, or a Grace Hopper without switches"


def test_a_twin_with_more_links_is_proof_only_where_no_bridge_can_be_missing() -> None:
    def why(kind: str) -> Page:
        up = tuple(NvLink(link=n, active=True, remote_kind=kind) for n in range(4))
        down = tuple(NvLink(link=n, active=False) for n in range(4))
        gpus = (gpu(0, A, down, name="Unlisted"), gpu(1, B, up, name="Unlisted"))
        return why_device(node_of(Machine(gpus=gpus)), A)

    assert why("gpu").fix == (), "a card without a bridge beside two with one"
    assert "0 of 4 NVLinks are up" in why("nvswitch").claim


def test_the_rule_the_page_and_the_cell_agree_about_cards_with_bridges() -> None:
    def card(index: int, address: str, up: int) -> Gpu:
        links = tuple(NvLink(link=n, active=n < up, remote_kind="gpu") for n in range(12))
        return gpu(index, address, links, name="NVIDIA A100 80GB PCIe")

    addresses = [f"0000:0{n}:00.0" for n in range(1, 5)]
    ups = (12, 12, 8, 8)
    cards = tuple(card(n, address, ups[n]) for n, address in enumerate(addresses))
    node = node_of(Machine(gpus=cards))
    assert [node.devices.expected_links(card) for card in cards] == [
        (12, "the other GPUs of this model here")
    ] * 4
    down = [finding for finding in diagnose(Case(node)).findings if finding.id == "nvlink-down"]
    assert [finding.devices for finding in down] == [tuple(addresses[2:])]
    claims = [why_device(node, address).claim for address in addresses]
    assert ["8 of 12 NVLinks are up" in claim for claim in claims] == [False, False, True, True]
    cells = [text_of(links(row, 8)).strip() for row in rows_of(node.snapshot)]
    assert cells == ["12/12", "12/12", "8/12!", "8/12!"]


def test_links_that_a_gpu_does_not_even_list_are_missing_on_every_door() -> None:
    node = Node(load([str(RECORDINGS / "nccl-topologies" / "one_missing_nvlink.xml")]).snapshot)
    own = node.snapshot.machine.gpus[3]
    assert node.devices.links_most(own) == 18
    (fact,) = (f for f in why_device(node, own.address).facts if f.what == "Which NVLinks are up?")
    assert fact.value.startswith("9 of 18,")
    assert text_of(links(rows_of(node.snapshot)[3], 8)).strip() == "9/18!"
