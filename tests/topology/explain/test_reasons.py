"""Explanations: true to what was read, silent where nothing is proven."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.explain.why import why_device, why_edge, why_pair
from gputop.topology.model.machine import Fabric, Gpu, Machine
from gputop.topology.model.page import Page
from gputop.topology.model.readings import EccCounts, GpuReading, Readings
from gputop.topology.model.record import Gap
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import Host
from gputop.topology.node import Node
from gputop.topology.sources.nvidia.words import P2P_STATUS
from tests.support.snapshots import demo_node, gpu, gpus_of, link, node_of, pair
from tests.topology.explain.explanations_read import answer, asked, because

A, B = "0000:01:00.0", "0000:02:00.0"


DEMOS = ["hgx-h100-8", "hgx-a100-8", "mi300x-8", "pcie-l40s-8", "dgx-1v", "sick-h100-8"]


@pytest.mark.parametrize("name", DEMOS)
def test_everything_can_be_explained(name: str) -> None:
    report = demo_node(name)
    nodes = list(report.graph)
    explanations = [why_device(report, node) for node in nodes]
    explanations += [why_edge(report, a, b) for a, b in report.graph.edges]
    explanations += [why_pair(report, a, b) for a in nodes[:12] for b in nodes[-12:]]
    ends = [row.address for row in report.matrix.rows]
    explanations += [why_pair(report, a, b) for a in ends for b in ends]
    for why in explanations:
        assert why.title
        assert why.claim.endswith(".")
        for fact in why.facts:
            assert fact.what.endswith("?")
            assert fact.value
            assert fact.basis in ("measured", "read", "assumed")
            assert "None" not in f"{fact.value} {fact.because} {fact.source}"


@pytest.mark.parametrize("name", [name for name in DEMOS if name != "sick-h100-8"])
def test_a_healthy_node_raises_no_alarm(name: str) -> None:
    report = demo_node(name)
    for node in report.graph:
        assert why_device(report, node).fix == ()
    for a in gpus_of(report):
        for b in gpus_of(report):
            assert why_pair(report, a, b).fix == ()


def test_the_sick_gpu_is_named_with_what_is_missing() -> None:
    report = demo_node("sick-h100-8")
    sick = gpus_of(report)[3]
    why = why_device(report, sick)
    assert "8 of 16 lanes" in why.claim
    assert "16 of 18 NVLinks are up: link 4, 11 are down" in why.claim
    assert "nvidia-smi nvlink -s" in why.fix_text
    assert [node for node in gpus_of(report) if why_device(report, node).fix] == [sick]
    assert "GPU3" in why_pair(report, gpus_of(report)[0], sick).impact
    edge = why_edge(report, sick, next(iter(report.graph[sick])))
    assert answer(edge, "all lanes") == "x8 of x16"


def test_a_pair_on_switches() -> None:
    report = demo_node("hgx-h100-8")
    why = why_pair(report, *gpus_of(report)[:2])
    assert why.title == "GPU0 → GPU1"
    assert why.claim == (
        "NV18: NVLink through the NVSwitches joins them, 450 GB/s one way (payload)."
    )
    assert answer(why, "Which route") == "GPU0 → 4 NVSwitches → GPU1"
    assert answer(why, "How fast is it") == "478 GB/s raw, 450 GB/s payload one way"
    assert "adds both ways: 900 GB/s" in because(why, "How fast is it")
    assert "no byte was moved" in because(why, "grant")
    assert answer(why, "measured") == "not tested yet"


def test_a_pair_without_links_between_sockets() -> None:
    report = demo_node("dgx-1v")
    gpus = gpus_of(report)
    why = why_pair(report, gpus[0], gpus[5])
    assert why.claim.startswith("SYS: PCIe joins them, 15.8 GB/s one way at most")
    assert "does not offer P2P across this part" in because(why, "grant")
    assert "between CPUs cannot be read" in because(why, "narrowest")
    assert answer(why, "should a copy reach") == "no reference"
    assert why.fix == ()


def linked(**facts: Any) -> Node:
    links = tuple(link(number, None, kind="nvswitch") for number in range(18))
    fabric = facts.pop("fabric", Fabric(state="completed", status="Success"))
    own = {"fabric": fabric, "mig_enabled": facts.pop("mig_enabled", None)}
    gpus = (gpu(0, A, links, **own), gpu(1, B, links, **own))
    return node_of(Machine(gpus=gpus, pairs=(pair(A, B, p2p_read="ok", **facts),)))


def test_links_up_and_nvlink_not_granted_is_a_fault() -> None:
    why = why_pair(linked(p2p_nvlink="not supported"), A, B)
    assert "NVLinks between the two are up, but the driver says 'not supported'" in why.impact
    assert "Fabric" in why.fix_text
    assert why_pair(linked(p2p_nvlink="ok"), A, B).fix == ()
    assert why_pair(linked(), A, B).fix == (), "not asked is no fault"


def test_a_fabric_that_completed_with_an_error_is_a_fault() -> None:
    fabric = Fabric(state="completed", status="Insufficient Resources")
    why = why_pair(linked(fabric=fabric, p2p_nvlink="ok"), A, B)
    assert "Insufficient Resources" in why.impact
    started = Fabric(state="in progress")
    assert why_pair(linked(fabric=started, p2p_nvlink="ok"), A, B).fix == ()


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("gpu not supported", "by design"),
        (P2P_STATUS[4], "a registry key of the driver"),
        ("ok", "no byte"),
    ],
)
def test_words_of_the_driver_are_explained(word: str, meaning: str) -> None:
    machine = Machine(gpus=(gpu(0, A), gpu(1, B)), pairs=(pair(A, B, p2p_read=word),))
    assert meaning in because(why_pair(node_of(machine), A, B), "grant")


def test_a_driver_that_was_not_asked_grants_nothing_and_denies_nothing() -> None:
    why = why_pair(node_of(Machine(gpus=(gpu(0, A), gpu(1, B)))), A, B)
    assert answer(why, "grant") == "not known"
    assert why.claim.startswith("?")


def test_mig_is_no_fault_of_a_pair() -> None:
    parted = linked(p2p_nvlink="not supported", mig_enabled=True)
    why = why_pair(parted, A, B)
    assert answer(why, "MIG") == "yes: GPU0, GPU1"
    assert why.fix == ()
    assert "With MIG on" in why.impact
    assert "MIG is on: no P2P" in why.claim
    assert not any("about" in fact.value for fact in why.facts)


def read(reading: GpuReading, own: Gpu) -> Page:
    snapshot = NodeSnapshot(
        taken_at=0.0, machine=Machine(gpus=(own,)), readings=Readings(gpus=(reading,))
    )
    return why_device(Node(snapshot), own.address)


def test_a_slow_link_of_a_sleeping_gpu_says_nothing() -> None:
    own = gpu(0, A, pcie_gen_max=5, pcie_width_max=16)
    why = read(GpuReading(address=A, pcie_gen=1, pcie_width=16, performance_state=8), own)
    assert "sleeps" in because(why, "attached")
    assert why.fix == ()
    awake = read(GpuReading(address=A, pcie_gen=3, pcie_width=16, performance_state=0), own)
    assert "under load" in because(awake, "attached")
    assert awake.fix == (), "one reading without load proves nothing"


@pytest.mark.parametrize(
    ("reasons", "harmless"),
    [
        (("gpu idle",), True),
        (("sw power cap",), True),
        (("hw thermal",), False),
        (("sw thermal",), False),
        (("unknown (0x200)",), False),
    ],
)
def test_only_harmless_reasons_are_called_so(reasons: tuple[str, ...], harmless: bool) -> None:
    why = read(GpuReading(address=A, throttle_reasons=reasons), gpu(0, A))
    assert ("harmless" in answer(why, "Clock limit")) == harmless


def test_memory_errors_count_when_they_ask_for_something() -> None:
    well = EccCounts(uncorrected_aggregate=3, rows_remapped_uncorrected=1)
    assert read(GpuReading(address=A, ecc=well), gpu(0, A)).fix == ()
    pending = read(GpuReading(address=A, ecc=EccCounts(remap_pending=True)), gpu(0, A))
    assert "Reset the GPU" in pending.fix_text
    failed = read(GpuReading(address=A, ecc=EccCounts(remap_failed=True)), gpu(0, A))
    assert "Replace the GPU" in failed.fix_text


def test_a_lost_gpu_is_reported_first() -> None:
    why = read(GpuReading(address=A, lost=True, gaps=(Gap("lost", "GPU is lost"),)), gpu(0, A))
    assert "gone: GPU is lost" in why.claim
    assert "Clock limit?" not in asked(why)


def test_few_lanes_beside_c2c_are_no_fault() -> None:
    reading = GpuReading(address=A, pcie_width=1)
    assert "1 of 16 lanes" in read(reading, gpu(0, A, pcie_width_max=16)).claim
    why = read(reading, gpu(0, A, pcie_width_max=16, c2c_enabled=True))
    assert why.fix == ()
    assert answer(why, "joins it to the CPU") == "NVLink-C2C"


def test_what_is_gone_is_said_to_be_gone() -> None:
    report = node_of(Machine())
    assert "not part of this node" in why_device(report, A).claim
    assert "No wire" in why_edge(report, A, B).claim
    assert why_pair(report, A, B).claim.startswith("?")


@pytest.mark.parametrize(("hypervisor", "advice"), [(None, "Reseat"), ("KVM", "who runs the host")])
def test_few_lanes_are_said_with_advice_that_fits_the_machine(
    hypervisor: str | None, advice: str
) -> None:
    own = gpu(0, A, pcie_width_max=16)
    snapshot = NodeSnapshot(
        taken_at=0.0,
        machine=Machine(host=Host(hypervisor=hypervisor), gpus=(own,)),
        readings=Readings(gpus=(GpuReading(address=A, pcie_width=8),)),
    )
    why = why_device(Node(snapshot), A)
    assert "8 of 16 lanes" in why.claim
    assert advice in why.fix_text
