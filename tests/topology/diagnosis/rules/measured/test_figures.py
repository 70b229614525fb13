"""Rules of measured figures: what proves something, what does not, and the words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import Diagnosis, diagnose
from gputop.topology.expectation.judge import Judge
from gputop.topology.expectation.judgement import Expected, band
from gputop.topology.model.finding import Finding
from gputop.topology.model.machine import Machine
from gputop.topology.model.severity import NOTICE, SLOW, FigureBasis, Severity
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.prediction import P2P, SHM
from gputop.topology.node import Node
from tests.support import measured
from tests.support.expectation_made import matrix
from tests.support.rule_cases import base, cases, diagnosed, edited, ids, with_figures
from tests.support.snapshots import gpu, node_of

LIVE = "hgx-h200-4gpu-live"
OURS = {
    "p2p-data-wrong",
    "p2p-slower-than-staging",
    "pair-bandwidth-low",
    "host-link-low",
    "memory-bandwidth-low",
    "compute-low",
    "collective-low",
    "collective-fails",
    "gpu-data-wrong",
    "matmul-linear-differ",
    "shared-uplink",
    "figure-far-below",
    "links-unused",
}
"""Rules that figures alone make fire."""


def of(name: str) -> Diagnosis:
    case = next(one for one in cases() if one.name == name)
    return diagnosed(case.snapshot, earlier=case.earlier)


def the(found: Diagnosis, name: str) -> Finding:
    return next(one for one in found.findings if one.id == name)


def changed(name: str, **edits: Any) -> NodeSnapshot:
    return edited(base(name), [{"path": path, "value": value} for path, value in edits.items()])


def figured(name: str, *figures: Measurement) -> NodeSnapshot:
    return msgspec.structs.replace(base(name), measurements=figures)


def addresses(name: str) -> list[str]:
    return [gpu.address for gpu in base(name).machine.gpus]


def test_bytes_that_were_lost_name_what_redirects_them() -> None:
    found = the(of("acs-bytes-lost"), "p2p-data-wrong")
    assert any("ACS" in one.what for one in found.evidence)
    assert any(fix.command.startswith("setpci") for fix in found.fix)
    assert found.fix[-1].command == "export NCCL_P2P_DISABLE=1"


@pytest.mark.parametrize("verdict", ["failed", "not-granted", "arrived", None])
def test_only_compared_bytes_prove_a_loss(verdict: str | None) -> None:
    src, dst = addresses(LIVE)[:2]
    one = measured.one("p2p", "bytes_arrive", None, "", src=src, dst=dst, verdict=verdict)
    assert "p2p-data-wrong" not in ids(diagnosed(figured(LIVE, one)))


def test_figures_of_the_cpu_say_nothing() -> None:
    whole = with_figures(base(LIVE), ("p2p", "host", "on_device", "collectives"))
    poor = tuple(
        msgspec.structs.replace(one, value=0.001, verdict="wrong-data", device_kind="cpu")
        for one in whole.measurements
    )
    found = diagnosed(msgspec.structs.replace(whole, measurements=poor))
    assert not OURS & (set(ids(found)) | set(found.examined))


@pytest.mark.parametrize("value", [None, 0.0, -5.0, float("nan"), float("inf"), 1e300])
def test_odd_values_raise_nothing(value: float | None) -> None:
    whole = with_figures(base(LIVE), ("p2p", "host", "on_device", "collectives"))
    odd = tuple(msgspec.structs.replace(one, value=value) for one in whole.measurements)
    found = diagnosed(msgspec.structs.replace(whole, measurements=odd))
    assert "rule-failed" not in ids(found)
    if value is None:
        assert not OURS & set(ids(found))


@pytest.mark.parametrize(
    "details",
    [
        {"pcie_generation": "fast", "pcie_width": [], "ranks": {}, "entry": 3, "dtype": None},
        {"pcie_generation": -1, "pcie_width": 0, "ranks": -4, "m": "x", "wrong_bytes": "many"},
        {"pcie_generation": True, "ranks": [1, 2], "shared": [], "forced": {}},
    ],
)
def test_odd_details_raise_nothing(details: dict[str, Any]) -> None:
    whole = with_figures(base(LIVE), ("p2p", "host", "on_device", "collectives"))
    odd = tuple(msgspec.structs.replace(one, details=details) for one in whole.measurements)
    assert "rule-failed" not in ids(diagnosed(msgspec.structs.replace(whole, measurements=odd)))


@pytest.mark.parametrize("healthy", [0.0, -0.0, -1.0])
def test_a_band_of_nothing_raises_nothing(monkeypatch: pytest.MonkeyPatch, healthy: float) -> None:
    nothing = Expected(
        band=band(healthy, "GB/s", FigureBasis.TYPICAL, "a recording with odd rates")
    )
    monkeypatch.setattr(Judge, "expected", lambda self, figure: nothing)
    found = diagnosed(with_figures(base(LIVE), ("p2p", "host", "collectives")))
    assert not {"rule-failed", "host-link-low", "collective-low"} & set(ids(found))


@pytest.mark.parametrize("ends", [("src",), ("dst",), ("src", "dst")])
def test_figures_of_gpus_that_are_not_there_raise_nothing(ends: tuple[str, ...]) -> None:
    whole = with_figures(base(LIVE), ("p2p", "host", "on_device"))
    odd = tuple(
        msgspec.structs.replace(one, **dict.fromkeys(ends, "0000:ff:00.0"))
        for one in whole.measurements
    )
    found = diagnosed(msgspec.structs.replace(whole, measurements=odd))
    assert not (OURS | {"rule-failed"}) & set(ids(found))


@pytest.mark.parametrize(("parted", "said"), [((), True), ((0,), False), ((1,), False)])
def test_links_of_a_gpu_that_is_parted_are_not_asked_for(
    parted: tuple[int, ...], said: bool
) -> None:
    case = next(one for one in cases() if one.name == "links-unused")
    edits = [{"path": f"machine.gpus[{place}].mig_enabled", "value": True} for place in parted]
    found = ids(diagnosed(edited(case.snapshot, edits)))
    assert ("links-unused" in found) is said
    assert "rule-failed" not in found


@pytest.mark.parametrize(
    ("name", "rule", "words"),
    [
        ("pair-low-gpu", "pair-bandwidth-low", "Everything to and from GPU2 is low"),
        ("pair-low-one", "pair-bandwidth-low", "GPU0 and GPU1 alone are low, both ways"),
        ("host-link-low", "host-link-low", "host copy of GPU1 is low"),
        ("compute-low", "compute-low", "matrix multiplication of GPU3 is low"),
        ("pcie-generation", "pcie-generation", "GPU2 stays at gen3 under load, gen5 is possible"),
        ("shared-uplink", "shared-uplink", "GPU0 and GPU1 share one PCIe uplink"),
        ("matmul-linear-differ", "matmul-linear-differ", "matmul and F.linear differ"),
        ("p2p-slower-than-staging", "p2p-slower-than-staging", "GPU0 to GPU1"),
    ],
)
def test_what_a_figure_is_said_to_show(name: str, rule: str, words: str) -> None:
    assert words in the(of(name), rule).title


@pytest.mark.parametrize(("transport", "severity"), [(P2P, SLOW), (SHM, NOTICE)])
def test_p2p_slower_than_staging_is_slow_where_the_library_takes_p2p(
    transport: str, severity: Severity
) -> None:
    sick = next(one for one in cases() if one.name == "p2p-slower-than-staging")
    whole = predict(sick.snapshot)
    pairs = tuple(msgspec.structs.replace(pair, transport=transport) for pair in whole.pairs)
    given = msgspec.structs.replace(whole, pairs=pairs)
    found = diagnose(Case(Node(sick.snapshot), prediction=given))
    assert the(found, "p2p-slower-than-staging").severity == severity


def test_two_gpus_are_reported_without_a_pattern() -> None:
    src, dst = addresses(LIVE)[:2]
    low = [
        measured.one("p2p", "write_bandwidth", 90.0, "GB/s", src=a, dst=b, bytes_per_copy=512 << 20)
        for a, b in ((src, dst), (dst, src))
    ]
    found = the(diagnosed(figured(LIVE, *low)), "pair-bandwidth-low")
    assert found.severity == SLOW
    assert found.devices == (src, dst)
    assert "90.0 instead of about 396 GB/s" in found.impact


def test_a_gpu_behind_its_siblings_is_slow_where_no_table_has_its_model() -> None:
    names = {"machine.gpus[*].name": "NVIDIA Unheard Of", "machine.gpus[*].pci_id": "10de:ffff"}
    snapshot = changed(LIVE, **names)
    at = addresses(LIVE)
    figures = tuple(
        measured.one("memory", "memory_copy", 2000.0 if a == at[2] else 4000.0, "GB/s", src=a)
        for a in at
    )
    found = diagnosed(msgspec.structs.replace(snapshot, measurements=figures))
    assert the(found, "memory-bandwidth-low").devices == (at[2],)


def test_low_everywhere_without_a_table_proves_nothing() -> None:
    names = {"machine.gpus[*].name": "NVIDIA Unheard Of", "machine.gpus[*].pci_id": "10de:ffff"}
    snapshot = changed(LIVE, **names)
    figures = tuple(
        measured.one("memory", "memory_copy", 20.0, "GB/s", src=a) for a in addresses(LIVE)
    )
    found = diagnosed(msgspec.structs.replace(snapshot, measurements=figures))
    assert "memory-bandwidth-low" not in ids(found)


def test_a_collective_says_how_much_longer_it_takes() -> None:
    found = the(of("collective-low"), "collective-low")
    assert "over 4 GPUs reaches 24.9 instead of about" in found.title
    assert "times as long" in found.impact


def test_chosen_gpus_alone_count() -> None:
    case = next(one for one in cases() if one.name == "compute-low")
    at = addresses(LIVE)
    assert "compute-low" not in ids(diagnosed(case.snapshot, gpus=at[:3]))
    assert "compute-low" in ids(diagnosed(case.snapshot, gpus=at[3:]))


@pytest.mark.parametrize(("low", "severity"), [(84.0, SLOW), (85.0, NOTICE), (60.0, SLOW)])
def test_a_pair_nobody_can_place_is_slow_far_under_the_middle_of_the_pairs(
    low: float, severity: Severity
) -> None:
    gpus = tuple(gpu(number, f"0000:0{number}:00.0") for number in range(4))
    node = node_of(Machine(gpus=gpus)).snapshot

    def value(src: int, dst: int) -> float:
        return low if (src, dst) == (2, 3) else 120.0 if src == 0 or (src, dst) == (1, 2) else 100.0

    figures = tuple(matrix(node, value))
    found = diagnosed(msgspec.structs.replace(node, measurements=figures))
    assert the(found, "pair-bandwidth-low").severity is severity
