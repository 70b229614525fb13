"""A driver that fails, lies, loses GPUs or hangs: the real binding over a library that stands in.

The matrix as a whole is printed by tests/support/faults/matrix.py; here is a share of it.
"""

from __future__ import annotations

import time
from zlib import crc32

import pytest

from gputop.reading import SETTLE_SECONDS
from gputop.topology.diagnosis import engine
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import Diagnosis, diagnose
from gputop.topology.model.severity import Verdict
from gputop.topology.node import Node
from gputop.topology.sources.live import LiveFeed, load_sources
from tests.grid import turns
from tests.support.faults.cells import BLOCKS, Cell
from tests.support.faults.facts import answer
from tests.support.faults.machine import diagnosed, read, settled, sources
from tests.support.faults.nvml_cells import ANSWERS, CODES, MINIMUM, NVML
from tests.support.faults.plan import Fault, release

SHARES = {"errors": 180, "lies": 75}
"""One in so many cells of the matrix is tried."""
BLOCKED_SHARE = 10
LIMIT_SECONDS = 13
"""Promised for a plain command on a machine whose driver never answers."""
PATIENCE_SECONDS = 2.0
"""How long a machine with a source that blocks is waited for."""
START_AND_RULES_SECONDS = 3
OPEN = ("nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetPciInfo_v3")
WELL = ("h100-8", "h100-1", "h200-2", "a100-8", "v100-8", "l40s-2", "l40s-8", "laptop")
DEADLINE_SECONDS = 0.05
"""After so long a source counts as not answering; those that answer may take longer."""


def getters(code: int, gpus: tuple[int, ...] | None = None) -> Fault:
    """All functions fail but those that find the GPUs."""
    return Fault(function="nvmlDeviceGet*", but=OPEN, code=code, gpus=gpus)


def found(diagnosis: Diagnosis) -> dict[str, str]:
    return {finding.id: finding.title for finding in diagnosis.findings}


@pytest.mark.parametrize("profile", WELL)
def test_a_machine_without_a_fault_is_healthy(profile: str) -> None:
    assert diagnosed(profile).verdict == Verdict.HEALTHY


@pytest.mark.parametrize("profile", WELL)
def test_a_machine_whose_pci_nobody_saw_proves_nothing(profile: str) -> None:
    blind = diagnosed(profile, bare=True)
    assert blind.verdict == Verdict.CANNOT_TELL
    assert "what the PCI bus shows" in found(blind)["evidence-missing"]


def test_a_board_that_lacks_a_gpu_is_not_healthy_where_no_pci_bus_shows_it() -> None:
    assert found(diagnosed("h100-8-one-gone"))["gpu-without-driver"]
    hidden = diagnosed("h100-8-one-gone", bare=True)
    assert hidden.verdict == "cannot tell"
    (finding,) = [one for one in hidden.findings if one.id == "board-incomplete"]
    assert "text" not in finding.impact


def share(kind: str, one_in: int) -> list[Cell]:
    """Some cells of a kind, the same ones each time."""
    return [cell for cell in NVML.cells(kind) if crc32(repr(cell).encode()) % one_in == 0]


@pytest.mark.parametrize("kind", SHARES)
def test_a_share_of_the_matrix_has_no_false_all_clear(kind: str) -> None:
    picked = share(kind, SHARES[kind])
    assert len(picked) > 20
    assert [cell for cell in picked if NVML.wrong(cell, NVML.diagnose(cell))] == []


def test_a_source_that_blocks_is_named_before_a_plain_command_gives_up() -> None:
    assert all(source.deadline_seconds < SETTLE_SECONDS for source in load_sources())
    assert SETTLE_SECONDS + START_AND_RULES_SECONDS <= LIMIT_SECONDS


def test_a_share_of_the_calls_that_block_ends_in_time_and_proves_nothing() -> None:
    picked = share(BLOCKS, BLOCKED_SHARE)
    assert len(picked) > 8
    for cell in picked:
        fault = NVML.fault(cell)
        seconds = 4 * DEADLINE_SECONDS
        snapshot = settled(NVML.profile, [fault], deadline=DEADLINE_SECONDS, seconds=seconds)
        release()
        assert not NVML.wrong(cell, answer(snapshot)), cell


@pytest.mark.parametrize(("one", "error", "function"), turns([True, False], ANSWERS, MINIMUM))
def test_the_least_that_has_to_be_known_is_missed(function: str, error: str, one: bool) -> None:
    said = NVML.diagnose(Cell(function, error, one)).diagnosis.verdict
    # Links that one GPU lacks and its siblings have are a fault of their own.
    assert said == "cannot tell" or (said == "slow" and function == "nvmlDeviceGetNvLinkState")


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("code", [CODES["unknown"], CODES["timeout"], CODES["no permission"]])
def test_a_driver_that_only_counts_proves_nothing(code: int, bare: bool) -> None:
    assert diagnosed("h200-2", [getters(code)], bare=bare).verdict == "cannot tell"
    assert diagnosed("h200-2", [getters(code, (1,))], bare=bare).verdict == "cannot tell"


@pytest.mark.parametrize("bare", [False, True])
def test_a_gpu_that_wants_a_reset_is_broken_and_named(bare: bool) -> None:
    answer = diagnosed("h200-2", [getters(CODES["reset required"], (1,))], bare=bare)
    assert answer.verdict == "broken"
    (finding,) = [one for one in answer.findings if one.id == "gpu-reset-required"]
    assert finding.title.endswith("GPU1")
    assert finding.fix[0].command == "nvidia-smi --gpu-reset -i 1"


@pytest.mark.parametrize(
    ("function", "gone", "bare"),
    turns(
        ["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGet*"],
        [(3,), (0, 5), tuple(range(8))],
        [False, True],
    ),
)
def test_every_lost_gpu_is_named(function: str, gone: tuple[int, ...], bare: bool) -> None:
    but = () if "Handle" in function else OPEN[:2]
    fault = Fault(function=function, but=but, code=CODES["gpu is lost"], gpus=gone)
    answer = diagnosed("h100-8", [fault], bare=bare)
    assert answer.verdict == "broken"
    (finding,) = [one for one in answer.findings if one.id == "gpu-lost"]
    assert f"{8 - len(gone)} of 8 GPUs are left" in finding.impact
    addresses = [gpu.address for gpu in read("h100-8").machine.gpus]
    if bare:
        assert all(f"NVML's GPU {number}" in finding.title for number in gone)
    else:
        assert finding.devices == tuple(addresses[number] for number in gone)


@pytest.mark.parametrize(
    "function", ["nvmlDeviceGetSerial", "nvmlDeviceGetEccMode", "nvmlDeviceGetUtilizationRates"]
)
def test_a_gpu_that_is_lost_to_one_question_is_lost(function: str) -> None:
    fault = Fault(function=function, code=CODES["gpu is lost"], gpus=(1,))
    answer = diagnosed("h200-2", [fault])
    assert answer.verdict == "broken"
    assert found(answer)["gpu-lost"] == "fallen off the bus: GPU1"


FILLED = (
    "nvmlDeviceGetNvLinkState", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetNvLinkCapability",
    "nvmlDeviceGetP2PStatus", "nvmlDeviceGetEccMode", "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetTotalEccErrors",
)  # fmt: skip


@pytest.mark.parametrize(
    ("function", "fills"), turns(FILLED, ["ff", "7f", "80", "c328f09d5ae7b114"])
)
def test_nonsense_about_all_gpus_is_no_health(function: str, fills: str) -> None:
    answer = diagnosed("h200-2", [Fault(function=function, fills=fills)])
    assert answer.verdict in ("cannot tell", "broken")


def test_links_that_may_not_do_p2p_are_slow() -> None:
    for gpus in (None, (1,)):
        fault = Fault(function="nvmlDeviceGetNvLinkCapability", answer=0, gpus=gpus)
        answer = diagnosed("h200-2", [fault])
        assert answer.verdict == "slow"
        assert "nvlink-p2p-refused" in found(answer)


COUNTS_OF_A_READING = 4
"""How often a single reading has the GPUs counted: two sources, each before and behind it."""


@pytest.mark.parametrize(("count", "after"), turns([0, 1, 3, 5], range(COUNTS_OF_A_READING)))
def test_a_count_that_changes_while_it_is_read_is_not_healthy(count: int, after: int) -> None:
    fault = Fault(function="nvmlDeviceGetCount_v2", answer=count, after=after)
    answer = diagnosed("gb200-4", [fault])
    assert answer.verdict in ("broken", "cannot tell")
    assert diagnosed("gb200-4", [Fault(function="nvmlDeviceGetCount_v2", answer=4)]).verdict == (
        "healthy"
    )


@pytest.mark.parametrize("code", [CODES["gpu is lost"], CODES["unknown"]])
def test_a_driver_that_does_not_count_is_not_healthy(code: int) -> None:
    fault = Fault(function="nvmlDeviceGetCount_v2", code=code)
    lost = code == CODES["gpu is lost"]
    for bare in (False, True):
        answer = diagnosed("h100-8", [fault], bare=bare)
        assert answer.verdict == ("broken" if lost else "cannot tell")
        assert ("gpu-lost" if lost else "driver-not-answering") in found(answer)


def test_a_guest_with_a_whole_board_and_no_link_is_slow() -> None:
    answer = diagnosed("b200-8-vm-dark")
    assert answer.verdict == "slow"
    assert "nvlink-down" in found(answer)


@pytest.mark.parametrize(
    ("function", "gpus", "known"),
    [
        ("nvmlInitWithFlags", None, 0),
        ("nvmlDeviceGetCount_v2", None, 0),
        ("nvmlDeviceGetHandleByIndex_v2", (3,), 3),
        ("nvmlDeviceGetName", None, 8),
        ("nvmlDeviceGetNvLinkState", (7,), 8),
        ("nvmlDeviceGetUtilizationRates", (3,), 8),
    ],
)
def test_a_call_that_never_returns_leaves_what_is_known(
    function: str, gpus: tuple[int, ...] | None, known: int
) -> None:
    fault = Fault(function=function, gpus=gpus, blocks=True)
    feed = LiveFeed(sources("h100-8", [fault], bare=True, deadline=DEADLINE_SECONDS), thorough=True)
    try:
        give_up = time.monotonic() + 60
        while True:
            snapshot = feed.snapshot()
            silent = [one for one in snapshot.problems if one.kind == "not answering"]
            if silent and len(snapshot.machine.gpus) == known:
                answer = engine.diagnose(
                    Case(Node(snapshot))
                )  # kept by nobody: it goes by the clock
                if "driver-not-answering" in found(answer):
                    break
            assert time.monotonic() < give_up
            feed.wait(0.05)
    finally:
        feed.close()
        release()
    assert answer.verdict == "cannot tell"
    assert "nothing-to-examine" not in found(answer)


@pytest.mark.parametrize("function", OPEN[1:])
def test_a_gpu_that_the_driver_hangs_over_is_not_called_without_driver(function: str) -> None:
    fault = Fault(function=function, gpus=(1,), blocks=True)
    snapshot = settled("h200-2", [fault], deadline=DEADLINE_SECONDS, seconds=PATIENCE_SECONDS)
    release()
    answer = diagnose(Case(Node(snapshot)))
    assert "gpu-without-driver" not in found(answer)
    assert answer.verdict == "cannot tell"
