"""AMD's driver fails: the stand-in for the amdsmi binding refuses one question after the other.

It stands in at the level of the module, so that it runs everywhere; test_amdsmi_library.py has the
real binding, where there is one and a C compiler.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from zlib import crc32

import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import Diagnosis, diagnose
from gputop.topology.model.machine import PciDevice, PciKind
from gputop.topology.model.part import PartialNode
from gputop.topology.model.severity import CANNOT_TELL, Verdict
from gputop.topology.node import Node
from gputop.topology.sources import load
from gputop.topology.sources.collect import merge
from tests.grid import share
from tests.support.amdsmi import fake

STATUSES = (
    "UNKNOWN_ERROR", "TIMEOUT", "BUSY", "NOT_FOUND", "IO", "DRM_ERROR", "INTERNAL_EXCEPTION",
)  # fmt: skip
SHARE = 8
"""One in so many questions is tried with a status."""
OPENING = ("amdsmi_init", "amdsmi_get_processor_handles", "amdsmi_get_gpu_device_bdf")


def diagnosed(question: str = "", status: str = "", *, one: bool = False) -> Diagnosis:
    """A node of MI300X whose library answers a question with an error, of one GPU or of all."""
    moved = fake.Binding("7")
    stays = fake.Binding("7")
    for binding in (stays, moved):
        counted = iter(range(10**6))

        def answer(key: str, given: Any, counted: Any = counted) -> Any:
            if question in (key, "*") and key not in OPENING and not (one and next(counted)):
                raise fake.AmdSmiLibraryException(f"AMDSMI_STATUS_{status} - no words")
            return given

        binding.answering = answer
    parts = [
        load("amdsmi").parse(fake.asked(stays)),
        load("amdsmi_readings").parse(fake.read(moved, thorough=True)),
    ]
    bus = tuple(
        PciDevice(address=gpu.address, parent="", kind=PciKind.GPU, vendor_id=0x1002)
        for gpu in parts[0].gpus
    )
    parts.append(PartialNode(pci=bus))
    snapshot = merge(parts, taken_at=0.0, source=("live",), gputop="0")
    return diagnose(Case(Node(snapshot)))


@cache
def questions() -> tuple[str, ...]:
    """Every question that the readers ask and that is answered."""
    asked: dict[str, None] = {}

    def answer(key: str, given: Any) -> Any:
        asked[key] = None
        return given

    for ask in (fake.asked, lambda binding: fake.read(binding, thorough=True)):
        binding = fake.Binding("7")
        binding.answering = answer
        ask(binding)
    return tuple(key for key in asked if key not in (*OPENING, "amdsmi_shut_down"))


def test_a_driver_that_answers_is_healthy() -> None:
    assert diagnosed().verdict == Verdict.HEALTHY


@pytest.mark.parametrize("status", share(STATUSES, 2))
def test_no_question_that_fails_leaves_a_node_healthy(status: str) -> None:
    picked = [key for key in questions() if crc32(f"{key} {status}".encode()) % SHARE == 0]
    assert picked
    for key in picked:
        answer = diagnosed(key, status, one=bool(crc32(key.encode()) % 2))
        assert answer.verdict != Verdict.HEALTHY, key
        assert not [one for one in answer.findings if one.id == "rule-failed"]


@pytest.mark.parametrize("status", ["NO_PERM", "NOT_SUPPORTED", "UNKNOWN_ERROR"])
def test_a_driver_that_only_lists_the_gpus_proves_nothing(status: str) -> None:
    assert diagnosed("*", status).verdict == "cannot tell"


@pytest.mark.parametrize("status", ["NO_PERM", "IO"])
def test_a_gpu_whose_address_is_kept_back_is_missed(status: str) -> None:
    binding = fake.Binding("7")

    def answer(key: str, given: Any) -> Any:
        if key == "amdsmi_get_gpu_device_bdf" and given == binding.raw["devices"][7][key]:
            raise fake.AmdSmiLibraryException(f"AMDSMI_STATUS_{status} - no words")
        return given

    binding.answering = answer
    parts = [load("amdsmi").parse(fake.asked(binding))]
    bus = tuple(
        PciDevice(address=gpu.address, parent="", kind=PciKind.GPU, vendor_id=0x1002)
        for gpu in parts[0].gpus
    )
    parts.append(PartialNode(pci=bus))
    snapshot = merge(parts, taken_at=0.0, source=("live",), gputop="0")
    (finding,) = [
        one for one in diagnose(Case(Node(snapshot))).findings if one.id == "driver-not-answering"
    ]
    assert finding.severity == CANNOT_TELL
