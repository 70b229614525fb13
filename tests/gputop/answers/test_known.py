"""What the tables hold of a name: kinds, other spellings, sources, and what is not known."""

from __future__ import annotations

import pytest

from gputop.answers.known import KnownKind, every_known_name, healthy, known
from gputop.topology.hardware.specs import skus
from tests.support.snapshots import demo_node


@pytest.mark.parametrize(
    ("written", "name", "kind"),
    [
        ("h200_sxm", "H200-SXM", KnownKind.GPU),
        ("NVIDIA H100 80GB HBM3", "H100-SXM", KnownKind.GPU),
        ("p5.48xlarge", "AWS p5.48xlarge", KnownKind.NODE),
        ("NVLink4", "nvlink4", KnownKind.LINK),
        ("ndr", "NDR", KnownKind.LINK),
        ("connectx 7", "ConnectX-7", KnownKind.NIC),
        ("nccl_p2p_level", "NCCL_P2P_LEVEL", KnownKind.VARIABLE),
        ("Xid 79", "Xid 79", KnownKind.CODE),
        ("ENOSPC", "ENOSPC", KnownKind.CODE),
    ],
)
def test_a_name_is_known_however_it_is_written(written: str, name: str, kind: KnownKind) -> None:
    (one,) = known(written)
    assert (one.name, one.kind) == (name, kind)
    assert one.facts


def test_a_family_stands_for_all_of_it_and_nonsense_for_nothing() -> None:
    assert [one.name for one in known("h100")] == ["H100-SXM", "H100-PCIe", "H100-NVL"]
    assert known("H100X") == known("") == known("\x1b[2J") == ()


def test_every_name_that_is_offered_is_known_and_every_gpu_has_a_source() -> None:
    assert [name for name in dict.fromkeys(every_known_name()) if not known(name)] == []
    for name in skus():
        (one,) = known(name)
        assert one.sources, name
        assert all(figure.source for figure in one.figures), name


def test_what_no_source_confirms_is_marked() -> None:
    (one,) = known("H100-PCIe")
    marked = {fact.what: fact.confirmed for fact in one.facts}
    assert marked["memory bandwidth"] is False
    assert marked["memory"] is True


def test_the_models_of_a_node_are_told_once() -> None:
    (one,) = healthy(demo_node("hgx-h100-8").snapshot.machine)
    assert one.name == "H100-SXM"
    assert one.figures


def test_rates_by_width_and_values_that_differ_are_told() -> None:
    (link,) = known("pciegen5")
    facts = {fact.what: (fact.value, fact.unit) for fact in link.facts}
    assert facts["x16, one way after line coding"] == (63.015, "GB/s")
    (gpu,) = known("B200")
    facts = {fact.what: (fact.value, fact.unit) for fact in gpu.facts}
    assert facts["memory bandwidth, by different sources"] == ("7670, 7700, 7750, 8000", "GB/s")


def test_a_cluster_and_the_long_name_of_a_size_are_known() -> None:
    (pod,) = known("SuperPOD")
    assert (pod.name, pod.kind) == ("H100 SuperPOD (1024 GPUs)", KnownKind.CLUSTER)
    assert {fact.what: fact.value for fact in pod.facts}["spine of 1024 GPUs"] == "50 GB/s"
    assert known("Standard_ND96isr_H100_v5") == known("ND96isr_H100_v5")
