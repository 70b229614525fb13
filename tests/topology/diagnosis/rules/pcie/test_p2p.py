"""Rules of P2P: which refusals are faults, and what a forced grant is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gputop.topology.diagnosis.engine import Diagnosis
from gputop.topology.model.finding import Finding
from gputop.topology.model.severity import BROKEN, BY_DESIGN, NOTICE, SLOW
from gputop.topology.model.snapshot import NodeSnapshot
from tests.support import measured
from tests.support.rule_cases import base, cases, diagnosed, edited, ids

LIVE = "hgx-h200-4gpu-live"
CARDS = "demo pcie-l40s-8"
MESH = "demo dgx-1v"


def of(name: str) -> Diagnosis:
    case = next(one for one in cases() if one.name == name)
    return diagnosed(case.snapshot, earlier=case.earlier)


def the(found: Diagnosis, name: str) -> Finding:
    return next(one for one in found.findings if one.id == name)


def changed(name: str, **edits: Any) -> NodeSnapshot:
    return edited(base(name), [{"path": path, "value": value} for path, value in edits.items()])


def addresses(name: str) -> list[str]:
    return [gpu.address for gpu in base(name).machine.gpus]


def test_a_refusal_on_nvlink_is_broken_and_a_grant_over_pcie_slow() -> None:
    refused = the(of("nvlink-p2p-refused"), "nvlink-p2p-refused")
    assert refused.severity == BROKEN
    assert refused.title.endswith("GPU0-GPU1")
    assert "NCCL stops" in refused.impact
    over_pcie = the(of("nvlink-p2p-over-pcie"), "nvlink-p2p-refused")
    assert over_pcie.severity == SLOW


def asked(name: str, verdict: str, *, nvml: bool) -> Diagnosis:
    """A node on which a probe asked the runtime, with or without words of NVML."""
    whole = base(name)
    src, dst = addresses(name)[:2]
    answers = tuple(
        measured.one("p2p", "can_access", None, "", src=a, dst=b, verdict=verdict)
        for a, b in ((src, dst), (dst, src))
    )
    machine = whole.machine if nvml else msgspec.structs.replace(whole.machine, pairs=())
    return diagnosed(msgspec.structs.replace(whole, machine=machine, measurements=answers))


@pytest.mark.parametrize("nvml", [True, False])
@pytest.mark.parametrize(
    ("name", "rule", "severity"),
    [(LIVE, "nvlink-p2p-refused", BROKEN), (MESH, "nvlink-p2p-refused", BROKEN)],
)
def test_what_the_runtime_refuses_counts_too(
    name: str, rule: str, severity: str, nvml: bool
) -> None:
    found = the(asked(name, "not-granted", nvml=nvml), rule)
    assert found.severity == severity
    assert found.evidence[0].source.startswith("probe p2p")


@pytest.mark.parametrize("name", [LIVE, CARDS, "demo mi300x-8"])
def test_what_the_runtime_grants_is_no_refusal(name: str) -> None:
    found = asked(name, "granted", nvml=False)
    assert not {"nvlink-p2p-refused", "p2p-refused", "rule-failed"} & set(ids(found))


@pytest.mark.parametrize(
    "edits",
    [
        {"machine.gpus[*].mig_enabled": True},
        {"machine.software.confidential_computing": "on"},
        {"machine.gpus[*].virtualization": "vgpu"},
    ],
)
def test_where_p2p_is_off_for_another_reason_its_refusal_is_no_fault(edits: dict[str, Any]) -> None:
    words = {
        f"machine.pairs[*].p2p_{what}": "not supported" for what in ("read", "write", "nvlink")
    }
    found = diagnosed(changed(LIVE, **words, **edits))
    assert not {"nvlink-p2p-refused", "p2p-refused"} & set(ids(found))


@pytest.mark.parametrize("name", [LIVE, CARDS])
def test_unknown_words_of_the_driver_are_no_refusal(name: str) -> None:
    whole = base(name)
    pairs = tuple(
        type(pair)(src=pair.src, dst=pair.dst, ancestor=pair.ancestor)
        for pair in whole.machine.pairs
    )
    machine = msgspec.structs.replace(whole.machine, pairs=pairs)
    found = diagnosed(msgspec.structs.replace(whole, machine=machine))
    assert {"nvlink-p2p-refused", "p2p-refused", "p2p-refused-by-product"} <= set(found.unexamined)


def test_sockets_of_an_old_host_have_no_p2p_by_design() -> None:
    found = the(diagnosed(base(MESH)), "p2p-refused")
    assert found.severity == BY_DESIGN
    assert "topology not supported" in found.title


def test_a_refusal_by_the_product_names_what_was_measured_instead() -> None:
    case = next(one for one in cases() if one.name == "p2p-refused-by-product")
    src, dst = addresses(CARDS)[:2]
    staged = measured.one("p2p", "staged_bandwidth", 21.5, "GB/s", src=src, dst=dst)
    found = diagnosed(msgspec.structs.replace(case.snapshot, measurements=(staged,)))
    assert "21.5 GB/s" in the(found, "p2p-refused-by-product").impact


DOCUMENTED = ("RMForceStaticBar1=0x1", "RmForceDisableIomapWC=1", "PeerMappingOverride=1")


@pytest.mark.parametrize("key", DOCUMENTED)
def test_a_key_that_nvidia_documents_for_another_end_forces_nothing(key: str) -> None:
    alone = changed(CARDS, **{"machine.host.nvidia_registry": [key]})
    assert "p2p-forced" not in {finding.id for finding in diagnosed(alone).findings}
    both = changed(CARDS, **{"machine.host.nvidia_registry": [key, "ForceP2P=17"]})
    assert the(diagnosed(both), "p2p-forced").severity == NOTICE


def test_a_registry_key_is_a_notice_until_the_bytes_were_seen() -> None:
    snapshot = changed(CARDS, **{"machine.host.nvidia_registry": ["ForceP2P=17"]})
    assert the(diagnosed(snapshot), "p2p-forced").severity == NOTICE
    src, dst = addresses(CARDS)[:2]
    seen = measured.one("p2p", "bytes_arrive", None, "", src=src, dst=dst, verdict="arrived")
    found = diagnosed(msgspec.structs.replace(snapshot, measurements=(seen,)))
    assert the(found, "p2p-forced").severity == BY_DESIGN
