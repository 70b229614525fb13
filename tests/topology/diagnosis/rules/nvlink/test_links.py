"""Rules of links: odd readings, limits of sites, what explains what, and the words on screen."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import Diagnosis, diagnose
from gputop.topology.diagnosis.policy import Policy
from gputop.topology.diagnosis.rule import Rule
from gputop.topology.model.finding import Finding
from gputop.topology.model.readings import GpuReading, NvLinkReading
from gputop.topology.model.severity import NOTICE, SLOW, Severity
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node
from tests.support.rule_cases import base, cases, diagnosed, edited, ids

LIVE = "hgx-h200-4gpu-live"
CARDS = "demo pcie-l40s-8"
BOARD = "demo hgx-h100-8"


def of(name: str) -> Diagnosis:
    case = next(case for case in cases() if case.name == name)
    return diagnosed(case.snapshot, earlier=case.earlier)


def the(found: Diagnosis, name: str) -> Finding:
    return next(finding for finding in found.findings if finding.id == name)


def changed(name: str, **edits: Any) -> NodeSnapshot:
    return edited(base(name), [{"path": path, "value": value} for path, value in edits.items()])


def with_link(reading: GpuReading, counters: dict[str, int | None]) -> GpuReading:
    link = msgspec.structs.replace(NvLinkReading(link=0), **counters)
    return msgspec.structs.replace(reading, nvlinks=(link,))


def grown(before: dict[str, int | None], now: dict[str, int | None], seconds: float) -> Diagnosis:
    """One link of one GPU, twice."""
    whole = base(LIVE)

    def at(counters: dict[str, int | None], moment: float) -> NodeSnapshot:
        readings = tuple(with_link(gpu, counters) for gpu in whole.readings.gpus[:1])
        return msgspec.structs.replace(
            whole,
            taken_at=moment,
            readings=msgspec.structs.replace(whole.readings, gpus=readings),
        )

    return diagnosed(at(now, 1000.0 + seconds), earlier=at(before, 1000.0))


def test_links_that_are_down_say_what_is_left() -> None:
    found = the(of("nvlink-two-down"), "nvlink-down")
    assert found.severity == SLOW
    assert found.devices == ("0000:00:08.0",)
    assert "2 NVLinks of GPU2 are down" in found.title
    assert "down: 4, 11" in found.evidence[0].value
    # 16 of 18 links of 25 GB/s.
    assert "400 of 450 GB/s payload" in found.impact
    assert "All-reduce 1 GiB: healthy 358 → here 318 GB/s (predicted)" in found.impact
    assert "copy GPU2 to GPU0: healthy 396 → here 352 GB/s (typical)" in found.impact


def test_the_sick_demo_has_its_two_faults_and_no_third() -> None:
    healthy = ids(diagnosed(base(BOARD)))
    assert set(ids(diagnosed(base("demo sick-h100-8")))) - set(healthy) == {
        "nvlink-down",
        "pcie-width",
    }


@pytest.mark.parametrize(
    ("before", "now", "severity"),
    [
        ({"crc_errors": 5}, {"crc_errors": 9}, NOTICE),
        ({"crc_errors": 0}, {"crc_errors": 400_000}, SLOW),
        ({"replay_errors": 7}, {"replay_errors": 8}, SLOW),
        ({"recovery_errors": 0}, {"recovery_errors": 1}, SLOW),
    ],
)
def test_added_errors_of_a_link(
    before: dict[str, int | None], now: dict[str, int | None], severity: str
) -> None:
    assert the(grown(before, now, 3600.0), "nvlink-errors").severity == severity


@pytest.mark.parametrize(
    ("before", "now", "seconds"),
    [
        ({"replay_errors": 9}, {"replay_errors": 9}, 3600.0),
        ({"replay_errors": 900}, {"replay_errors": 3}, 3600.0),
        ({"replay_errors": None}, {"replay_errors": 3}, 3600.0),
        ({"replay_errors": 1}, {"replay_errors": None}, 3600.0),
        ({"replay_errors": 1}, {"replay_errors": 5}, -60.0),
        ({"replay_errors": 1}, {"replay_errors": 5}, 0.0),
    ],
)
def test_counters_that_say_nothing(
    before: dict[str, int | None], now: dict[str, int | None], seconds: float
) -> None:
    assert "nvlink-errors" not in ids(grown(before, now, seconds))


def test_another_gpu_in_the_slot_has_no_earlier_counters() -> None:
    case = next(case for case in cases() if case.name == "nvlink-replays-grow")
    before = case.earlier
    assert before is not None
    gpus = tuple(msgspec.structs.replace(gpu, uuid="GPU-other") for gpu in before.machine.gpus)
    machine = msgspec.structs.replace(before.machine, gpus=gpus)
    found = diagnosed(case.snapshot, earlier=msgspec.structs.replace(before, machine=machine))
    assert "nvlink-errors" in found.unexamined


def test_a_site_may_bear_more_replays() -> None:
    case = next(case for case in cases() if case.name == "pcie-replays-grow")
    policy = Policy(thresholds={"pcie-replays": {"per_minute": 1e6}})
    found = diagnosed(case.snapshot, earlier=case.earlier, policy=policy)
    assert the(found, "pcie-replays").severity == NOTICE


def test_acs_names_the_bridges_and_how_to_clear_them() -> None:
    found = the(of("acs-redirect"), "acs-redirect")
    assert "0000:17:01.0" in found.evidence[0].what
    assert "ReqRedir" in found.evidence[0].value
    assert found.fix[0].command == "setpci -s 0000:17:01.0 ECAP_ACS+6.w=0000"
    assert found.fix[0].needs_root


@pytest.mark.parametrize("virtual", [True, None])
def test_without_bare_metal_acs_and_the_iommu_are_not_examined(virtual: bool | None) -> None:
    case = next(case for case in cases() if case.name == "acs-redirect-translated")
    snapshot = case.snapshot
    host = snapshot.machine.host
    assert host is not None
    odd = msgspec.structs.replace(host, hypervisor="KVM") if virtual else None
    machine = msgspec.structs.replace(snapshot.machine, host=odd)
    found = diagnosed(msgspec.structs.replace(snapshot, machine=machine))
    assert {"acs-redirect", "iommu-translated"} <= set(found.unexamined)


def test_unreadable_acs_is_not_examined() -> None:
    whole = base(CARDS)
    pci = tuple(msgspec.structs.replace(device, acs=None) for device in whole.machine.pci)
    machine = msgspec.structs.replace(whole.machine, pci=pci)
    found = diagnosed(msgspec.structs.replace(whole, machine=machine))
    assert "acs-redirect" in found.unexamined


def test_a_ring_of_bridges_ends() -> None:
    whole = base(CARDS)
    pci = tuple(
        msgspec.structs.replace(device, parent="0000:17:01.0")
        if device.kind.startswith(("switch", "root"))
        else device
        for device in whole.machine.pci
    )
    machine = msgspec.structs.replace(whole.machine, pci=pci)
    found = diagnosed(msgspec.structs.replace(whole, machine=machine))
    assert "rule-failed" not in ids(found)


@pytest.mark.parametrize(
    ("field", "value"),
    [("link_width_now", 0), ("link_width_max", 0), ("link_width_now", 32), ("kind", "other")],
)
@pytest.mark.parametrize("kind", ["gpu", "root port", "switch upstream"])
def test_odd_widths_are_no_fault(kind: str, field: str, value: Any) -> None:
    snapshot = changed(BOARD, **{f"machine.pci[kind={kind}].{field}": value})
    assert not {"pcie-width", "rule-failed"} & set(ids(diagnosed(snapshot)))


def test_a_narrow_link_says_what_is_left() -> None:
    found = the(of("pcie-x8"), "pcie-width")
    assert "x8 instead of x16" in found.title
    # Generation 5: 32 GT/s, 8 lanes, 128b/130b.
    assert "31.5 GB/s instead of 63.0 GB/s" in found.impact


def test_a_narrow_uplink_concerns_all_below_it() -> None:
    found = the(of("pcie-x8-uplink"), "pcie-width")
    assert len(found.devices) > 1
    assert "on the way to" in found.evidence[0].what


def test_islands_are_named() -> None:
    found = the(of("gpu-islands"), "gpu-islands")
    assert "{GPU0, GPU1} {GPU2, GPU3} {GPU4, GPU5} {GPU6, GPU7}" in found.title
    assert "on up to 2 GPUs" in found.impact


def test_gpus_of_one_island_have_no_islands() -> None:
    case = next(case for case in cases() if case.name == "gpu-islands")
    chosen = [gpu.address for gpu in case.snapshot.machine.gpus[:2]]
    assert "gpu-islands" not in ids(diagnosed(case.snapshot, gpus=chosen))


def test_a_guest_with_one_file_is_told_to_name_it_and_with_several_to_choose() -> None:
    one = diagnosed(changed(LIVE, **{"machine.host.topology_files": ["/opt/microsoft/a.xml"]}))
    assert the(one, "vm-flat-tree").fix[0].command == "export NCCL_TOPO_FILE=/opt/microsoft/a.xml"
    two = diagnosed(changed(LIVE, **{"machine.host.topology_files": ["/opt/a.xml", "/opt/b.xml"]}))
    fix = the(two, "vm-flat-tree").fix[0]
    assert not fix.command
    assert "/opt/a.xml, /opt/b.xml" in fix.text


def test_the_plugin_of_aws_names_its_file_by_itself() -> None:
    snapshot = changed(
        LIVE,
        **{
            "machine.host.topology_files": ["/opt/amazon/ofi-nccl/share/aws-ofi-nccl/xml/p5.xml"],
            "machine.software.nccl_plugins": ["/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so"],
        },
    )
    assert "vm-flat-tree" not in ids(diagnosed(snapshot))


def test_a_part_of_a_mesh_counts_its_links() -> None:
    found = the(of("amd-few-gpus"), "amd-few-gpus")
    assert found.title == "2 of 8 GPUs of a full mesh"
    assert "1 of 7 links" in found.impact


def test_what_is_less_harmful_explains_nothing() -> None:
    def rule(name: str, severity: Severity, implied_by: tuple[str, ...] = ()) -> Rule:
        made = Rule(
            id=name,
            title=name,
            evidence="x",
            disproof="x",
            sources=("x",),
            implied_by=implied_by,
            check=lambda case: [
                made.finding(
                    severity,
                    name,
                    evidence=[("x", "x", "x")],
                    impact="x",
                )
            ],
        )
        return made

    case = Case(Node(base(LIVE)))
    for cause, left in ((NOTICE, {"cause", "symptom"}), (SLOW, {"cause"})):
        found = diagnose(case, (rule("cause", cause), rule("symptom", SLOW, ("cause",))))
        assert {finding.id for finding in found.findings} == left
