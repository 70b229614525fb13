"""Rules about clocks, use and settings of GPUs, on odd input: what proves nothing is silent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from gputop.topology.diagnosis.policy import Policy
from gputop.topology.model.finding import Finding
from gputop.topology.model.readings import GpuProcess, GpuUse
from gputop.topology.model.snapshot import Measurement, NodeSnapshot, Problem, ProblemKind
from tests.support.rule_cases import base
from tests.topology.diagnosis.device_rules import H100, H200, about, at, device_diagnosis


def at_work(**details: Any) -> NodeSnapshot:
    """The idle H200 with a matrix product that was measured on GPU1."""
    figure = Measurement(
        probe="gemm",
        quantity="gemm",
        src=base(H200).machine.gpus[1].address,
        value=700.0,
        unit="TFLOP/s",
        device_kind="gpu",
        details=details,
    )
    return msgspec.structs.replace(base(H200), measurements=(figure,))


def test_clocks_that_a_probe_saw() -> None:
    (found,) = about("clocks-held", at_work(throttle=[], sm_clock_mhz=1200.0, power_w=380.0))
    assert "1200 of 1980 MHz" in found.evidence[0].value
    held = at_work(throttle=["application-clocks"], sm_clock_mhz=1700.0)
    assert about("clocks-held", held) != []
    for words in (["sw-power-cap"], ["sw-thermal"], ["idle"], ["unknown (0x200)"]):
        low = at_work(throttle=words, sm_clock_mhz=1200.0, power_w=380.0)
        assert about("clocks-held", low) == []
    assert about("clocks-held", at_work(throttle=[], sm_clock_mhz=1600.0, power_w=380.0)) == []
    assert about("clocks-held", at_work(throttle=[], sm_clock_mhz=1200.0, power_w=690.0)) == []
    assert about("clocks-held", at_work(throttle=[], sm_clock_mhz=1200.0)) == []


@pytest.mark.parametrize(
    "details",
    [
        {},
        {"throttle": "hw-slowdown"},
        {"throttle": [7]},
        {"throttle": ["idle"], "sm_clock_mhz": "fast"},
        {"throttle": [], "sm_clock_mhz": None},
    ],
)
def test_odd_details_of_a_figure_prove_nothing(details: dict[str, Any]) -> None:
    found = device_diagnosis(at_work(**details)).findings
    assert not [finding for finding in found if finding.id in ("throttle-hardware", "clocks-held")]


def test_a_site_may_allow_a_low_power_limit() -> None:
    snapshot = at(H100, ("machine.gpus[*].power_limit_watts", 500.0))
    assert len(about("power-limit-low", snapshot)) == 1
    policy = Policy(thresholds={"power-limit-low": {"minimum_share": 0.7}})
    assert about("power-limit-low", snapshot, policy=policy) == []


def test_a_prolog_may_insist_on_idle_gpus() -> None:
    (found,) = about("gpu-busy", base(H100))
    assert found.severity == "notice"
    policy = Policy(thresholds={"gpu-busy": {"must_be_idle": 1}})
    (found,) = about("gpu-busy", base(H100), policy=policy)
    assert found.severity == "slow"
    idle = base(H100).machine.gpus[6].address
    assert about("gpu-busy", base(H100), policy=policy, gpus=[idle]) == []


@pytest.mark.parametrize(
    ("gpus", "free"),
    [((0,), "The only GPU is in use."), ((0, 1), "None of 2 GPUs is free."),
     ((0, 6), "1 of 2 GPUs is free."), (range(8), "2 of 8 GPUs are free.")],
)  # fmt: skip
def test_how_many_are_free_is_said_in_english(gpus: Sequence[int], free: str) -> None:
    known = base(H100)
    chosen = [known.machine.gpus[index].address for index in gpus]
    (found,) = about("gpu-busy", known, gpus=chosen)
    assert found.impact.startswith(f"{free} A job")


def unread(snapshot: NodeSnapshot, *devices: str) -> NodeSnapshot:
    """The same, where the driver failed to answer a question about these GPUs."""
    failed = Problem(source="nvml", kind=ProblemKind.ERROR, text="x", devices=devices)
    return msgspec.structs.replace(snapshot, problems=(failed,))


def test_a_gpu_that_cannot_be_read_is_neither_busy_nor_free() -> None:
    address = base(H200).machine.gpus[1].address
    works = at(H200, ("readings.gpus[1].utilization_percent", 93.0))
    (found,) = about("gpu-busy", works)
    assert found.devices == (address,)
    assert about("gpu-busy", unread(works, address)) == []


def test_a_process_proves_that_a_gpu_which_cannot_be_read_is_in_use() -> None:
    (found,) = about("gpu-busy", base(H100))
    (same,) = about("gpu-busy", unread(base(H100), *found.devices))
    assert same.devices == found.devices


def test_many_processes_are_not_all_named() -> None:
    crowd = [{"pid": pid, "kind": "compute"} for pid in range(100, 140)]
    (found,) = about("gpu-busy", at(H200, ("readings.gpus[0].processes", crowd)))
    assert found.evidence[0].value.endswith("and 24 more")


def test_long_names_of_processes_are_cut() -> None:
    snapshot = at(
        H200,
        ("readings.gpus[0].processes", [{"pid": 7, "kind": "compute"}]),
        (
            "readings.processes",
            [{"pid": 7, "user": "u" * 999, "command": "c" * 999, "job": "j" * 999}],
        ),
    )
    (found,) = about("gpu-busy", snapshot)
    assert len(found.evidence[0].value) < 200


def test_memory_without_a_process_needs_a_list_that_can_be_trusted() -> None:
    used = ("readings.gpus[6].memory_used_bytes", 60_000_000_000)
    assert about("gpu-memory-unlisted", at(H100, used)) != []
    for edit in (
        ("readings.gpus[6].processes", None),
        ("readings.gpus[6].processes", [{"pid": 900, "kind": "graphics"}]),
        ("readings.gpus[6].utilization_percent", 80.0),
        ("machine.gpus[6].mig_enabled", True),
        ("machine.host.container", None),
        ("readings.gpus[6].lost", True),
    ):
        assert about("gpu-memory-unlisted", at(H100, used, edit)) == [], edit


def shared(*owners: dict[str, Any]) -> list[Finding]:
    pids = [{"pid": 50 + n, "kind": "compute"} for n, _ in enumerate(owners)]
    known = [{"pid": 50 + n, **owner} for n, owner in enumerate(owners)]
    snapshot = at(H200, ("readings.gpus[0].processes", pids), ("readings.processes", known))
    return about("gpu-shared", snapshot)


def test_who_shares_a_gpu() -> None:
    assert shared({"job": "slurm 1", "user": "a"}, {"job": "slurm 2", "user": "a"})
    assert shared({"user": "a"}, {"user": "b"})
    assert shared({"job": "slurm 1", "user": "a"}, {"user": "b"})
    assert not shared({"job": "slurm 1", "user": "a"}, {"job": "slurm 1", "user": "root"})
    assert not shared({"job": "slurm 1", "user": "a"}, {"user": "a"})
    assert not shared({"user": "a"}, {"user": "a"})
    assert not shared({"user": "a"}, {})
    assert not shared({"job": "slurm 1"})


def test_clients_of_mps_are_reported_without_its_daemon() -> None:
    process = GpuProcess(pid=9, kind=GpuUse.MPS)
    snapshot = at(H200, ("readings.gpus[1].processes", [msgspec.to_builtins(process)]))
    (found,) = about("mps-daemon", snapshot)
    assert found.devices == (base(H200).machine.gpus[1].address,)


def test_where_half_differs_all_are_named() -> None:
    lower = [(f"machine.gpus[{n}].clock_sm_max_mhz", 1755) for n in range(4)]
    (found,) = about("gpu-settings-differ", at(H100, *lower))
    assert len(found.devices) == 8
    (found,) = about("gpu-settings-differ", at(H100, lower[0]))
    assert found.devices == (base(H100).machine.gpus[0].address,)
    assert found.impact == (
        "A job over all of them runs at the pace of 1755 MHz where others have 1980 MHz."
    )


def test_boards_with_other_part_numbers_may_have_other_firmware() -> None:
    older = ("machine.gpus[7].vbios", "96.00.74.00.01")
    assert about("gpu-firmware-mixed", at(H100, older)) != []
    part = ("machine.gpus[7].board_part_number", "692-2G520-0200-001")
    assert about("gpu-firmware-mixed", at(H100, older, part)) == []


def test_a_single_gpu_differs_from_nobody() -> None:
    alone = [base(H100).machine.gpus[0].address]
    diagnosis = device_diagnosis(at(H100, ("machine.gpus[7].vbios", "1")), gpus=alone)
    ids = {finding.id for finding in diagnosis.findings}
    assert not ids & {"gpu-settings-differ", "gpu-firmware-mixed", "gpu-models-mixed"}


def test_a_command_to_copy_holds_no_text_of_a_file() -> None:
    odd = at(
        H100,
        ("machine.gpus[7].name", "NVIDIA H200"),
        ("machine.gpus[0].uuid", "$(touch /tmp/x)"),
    )
    (found,) = about("gpu-models-mixed", odd)
    assert found.fix[0].command == "export CUDA_VISIBLE_DEVICES=UUID,UUID"
