"""When NVLinks are missing, and when their absence is normal."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.explain.why import why_device
from gputop.topology.model.machine import Machine, NvLink
from gputop.topology.model.page import Page
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
