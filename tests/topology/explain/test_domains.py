"""Hosts of one NVLink domain: the figure is that of the domain, and says what it needs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gputop.topology.expectation.domains import RackDomain, domain_of
from gputop.topology.explain.domains import sections_of_domain
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.hosts.equal_hosts import predict_hosts
from gputop.topology.nccl.settings import Settings

from ...support.rule_cases import base

TRAY = "demo gb200-nvl72-tray"


def domain(snapshot: NodeSnapshot, hosts: int, **values: str) -> RackDomain | None:
    settings = Settings.of(snapshot, values)
    return domain_of(snapshot, settings, predict_hosts(snapshot, settings, hosts=hosts))


def text(snapshot: NodeSnapshot, hosts: int) -> str:
    many = predict_hosts(snapshot, hosts=hosts)
    found = domain_of(snapshot, Settings.of(snapshot), many)
    assert found is not None
    return " ".join(
        " ".join((section.title, *section.paragraphs, *section.bullets))
        for section in sections_of_domain(many, found)
    )


def test_a_rack_is_one_system_and_not_bound_by_its_nics() -> None:
    found = domain(base(TRAY), 18)
    assert found is not None
    assert (found.gpus, found.hosts, found.spanned, found.joined) == (72, 18, 1, True)
    # Published: 617 to 835 GB/s.
    assert found.low <= 617
    assert found.high >= 834.6
    assert found.by_nics is not None
    assert found.by_nics < found.low
    assert "coreweave" in text(base(TRAY), 18)


def test_a_tray_that_is_missing_is_told_and_how_to_find_it() -> None:
    said = text(base(TRAY), 17)
    assert "1 of the 18 hosts" in said
    assert "nvidia-imex-ctl -N" in said


def test_more_hosts_than_a_domain_holds_cross_the_nics() -> None:
    found = domain(base(TRAY), 20)
    assert found is not None
    assert found.spanned == 2
    assert found.by_nics is not None
    assert found.low <= found.by_nics


def test_no_domain_where_it_is_switched_off_or_nothing_leads_out() -> None:
    assert domain(base(TRAY), 18, NCCL_MNNVL_ENABLE="0") is None
    assert domain(base("demo hgx-h100-8"), 2) is None
    assert domain(base("demo mi300x-8"), 2) is None


@pytest.mark.parametrize("told", [True, False])
def test_what_nobody_told_of_the_clique_only_widens_the_range(told: bool) -> None:
    node = base(TRAY)
    gpus = tuple(
        gpu if told else msgspec.structs.replace(gpu, fabric=None) for gpu in node.machine.gpus
    )
    machine = msgspec.structs.replace(node.machine, gpus=gpus)
    found = domain(msgspec.structs.replace(node, machine=machine), 18)
    whole = domain(node, 18)
    assert found is not None
    assert whole is not None
    assert found.joined is (True if told else None)
    assert found.low <= whole.low
    assert whole.high <= found.high


def _with_fabric(node: NodeSnapshot, gpu: int, **facts: Any) -> NodeSnapshot:
    gpus = list(node.machine.gpus)
    fabric = gpus[gpu].fabric
    assert fabric is not None
    gpus[gpu] = msgspec.structs.replace(gpus[gpu], fabric=msgspec.structs.replace(fabric, **facts))
    return msgspec.structs.replace(
        node, machine=msgspec.structs.replace(node.machine, gpus=tuple(gpus))
    )


def test_a_tray_without_imex_is_told_before_the_job_fails() -> None:
    node = base(TRAY)
    assert node.machine.host is not None
    assert "would not start" not in text(node, 18)
    host = msgspec.structs.replace(node.machine.host, imex_channels=False)
    blind = msgspec.structs.replace(node, machine=msgspec.structs.replace(node.machine, host=host))
    said = text(blind, 18)
    assert "18 hosts, 72 GPUs: the job would not start; with NCCL_MNNVL_ENABLE=0" in said
    assert "No IMEX channel may be opened here" in said


def test_gpus_that_are_not_joined_are_named_and_the_nics_count() -> None:
    """By mnnvl.cc such jobs start: one by NICs alone, the other one by NICs between cliques."""
    other = _with_fabric(base(TRAY), 2, clique_id=7)
    assert "GPU2 is in clique 7" in text(other, 18)
    assert "by NICs, since NVLink does not join all" in text(other, 18)
    late = _with_fabric(base(TRAY), 3, state="in progress")
    assert "GPU3 has not registered with the fabric (in progress)" in text(late, 18)
    for node, highest in ((other, 883), (late, 173)):
        found = domain(node, 18)
        assert found is not None
        assert found.joined is False
        assert found.low == found.by_nics
        assert found.high == pytest.approx(highest, rel=0.01)
