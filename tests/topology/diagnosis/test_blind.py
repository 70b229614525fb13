"""GPUs of which nothing is known but where they are: nothing of them is called healthy."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import NOTHING, Diagnosis, diagnose
from gputop.topology.model.machine import Gpu, ReportedRelation
from gputop.topology.model.readings import GpuReading, Readings
from gputop.topology.node import Node
from tests.support.snapshots import demo_node

PLACES = ("0000:01:00.0", "0000:02:00.0")


def verdict_on(readings: Readings | None = None, **facts: Any) -> Diagnosis:
    """The verdict on a host with two GPUs of which these facts are known."""
    snapshot = demo_node("hgx-h100-8").snapshot
    machine = msgspec.structs.replace(
        snapshot.machine,
        **{
            "gpus": tuple(Gpu(address=place, vendor="nvidia", index=0) for place in PLACES),
            **{"pairs": (), "relations": (), "pci": (), "nccl_topology": None},
            **facts,
        },
    )
    changed = msgspec.structs.replace(snapshot, machine=machine, readings=readings or Readings())
    return diagnose(Case(Node(changed)))


def test_addresses_alone_are_no_proof_of_health() -> None:
    found = verdict_on()
    assert found.examined  # the rules about flags and the driver's answer
    assert found.verdict == "cannot tell"
    (nothing,) = [finding for finding in found.findings if finding.id == NOTHING]
    assert nothing.title == "nothing is known of the GPUs"


@pytest.mark.parametrize(
    "known",
    [
        {"gpus": tuple(Gpu(address=place, vendor="nvidia", name="H100") for place in PLACES)},
        {"relations": (ReportedRelation(a=PLACES[0], b=PLACES[1], code="SYS"),)},
        {"readings": Readings(gpus=(GpuReading(address=PLACES[0], temperature_c=40),))},
    ],
)
def test_whatever_was_read_of_them_is_examined(known: dict[str, Any]) -> None:
    found = verdict_on(**known)
    assert not [finding for finding in found.findings if finding.id == NOTHING]
