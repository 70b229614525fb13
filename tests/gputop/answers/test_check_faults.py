"""The whole program over a driver's library that stands in: exit codes, and a driver that hangs."""

from __future__ import annotations

import json

import pytest

from tests.support.command import gputop
from tests.support.faults.machine import of_process
from tests.support.faults.plan import Fault

OPENING = ("nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetPciInfo_v3")


@pytest.mark.parametrize(
    ("faults", "code", "finding"),
    [
        ((Fault(function="nvmlDeviceGet*", but=OPENING, code=999),), 3, "driver-fails"),
        ((Fault(function="nvmlDeviceGet*", but=OPENING, code=16),), 2, "gpu-reset-required"),
        ((Fault(function="nvmlDeviceGet*", but=OPENING, code=4),), 3, "evidence-missing"),
        ((Fault(function="nvmlDeviceGetHandleByIndex_v2", code=15),), 2, "gpu-lost"),
        ((Fault(function="nvmlDeviceGetName", blocks=True),), 3, "driver-not-answering"),
    ],
    ids=["unknown error", "reset required", "no permission", "all lost", "blocks"],
)
def test_a_faulty_driver_is_never_healthy(
    faults: tuple[Fault, ...], code: int, finding: str
) -> None:
    done = gputop("check", "--quick", "--json", seconds=60, **of_process("h200-2", *faults))
    assert "Traceback" not in done.stderr
    assert done.returncode == code, done.stderr
    document = json.loads(done.stdout)
    assert finding in [one["id"] for one in document["findings"]]
    assert document["counts"]["examined"] == len(document["examined"])


def test_what_was_not_examined_is_counted_in_the_first_line() -> None:
    done = gputop("check", "--quick", seconds=60, **of_process("h200-2"))
    assert done.returncode == 3, done.stderr  # the bus of this host has no such GPUs
    first = done.stdout.splitlines()[0]
    assert " checks done, " in first
    assert " skipped (data unavailable), nothing measured" in first
