"""Which GPU CUDA makes of a list of visible devices."""

from __future__ import annotations

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.rules.jobs import device_order as devices
from gputop.topology.model.severity import BY_DESIGN, NOTICE
from gputop.topology.model.snapshot import EnvironmentVariable, NodeSnapshot
from gputop.topology.node import Node
from tests.support.rule_cases import base

H200 = "hgx-h200-4gpu-live"


def seen(snapshot: NodeSnapshot | None = None, **variables: str) -> Case:
    given = tuple(
        EnvironmentVariable(name=name, value=value, origin="environment")
        for name, value in variables.items()
    )
    return Case(Node(msgspec.structs.replace(snapshot or base(H200), environment=given)))


def said_of(case: Case) -> list[str] | None:
    found = devices.DEVICE_ORDER.answer(case)
    return None if found is None else [finding.severity for finding in found]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("0,1,2,3", []),
        ("GPU-00000000-0000-4000-8000-00000000000", [NOTICE]),  # fits more than one
        ("0", [BY_DESIGN]),
        (" 1 , 0", [BY_DESIGN]),
        ("0,1,9", [NOTICE]),
        ("0,,1", [NOTICE]),
        ("", [NOTICE]),
        ("-1", [NOTICE]),
        ("NoDevFiles", [NOTICE]),
        ("9" * 5000, [NOTICE]),
        ("0,0", None),
    ],
)
def test_lists_of_visible_devices(value: str, said: list[str] | None) -> None:
    case = seen(CUDA_VISIBLE_DEVICES=value)
    assert said_of(case) == said


def test_a_uuid_names_its_gpu() -> None:
    gpus = base(H200).machine.gpus
    case = seen(CUDA_VISIBLE_DEVICES=gpus[2].uuid or "")
    (found,) = devices.DEVICE_ORDER.answer(case) or ()
    assert "cuda:0 is GPU2" in found.impact


@pytest.mark.parametrize(("order", "said"), [("", [NOTICE]), ("PCI_BUS_ID", [])])
def test_several_models_are_not_in_the_order_of_the_bus(order: str, said: list[str]) -> None:
    whole = base(H200)
    first, *rest = whole.machine.gpus
    gpus = (msgspec.structs.replace(first, name="NVIDIA H100 NVL"), *rest)
    machine = msgspec.structs.replace(whole.machine, gpus=gpus)
    mixed = msgspec.structs.replace(whole, machine=machine)
    case = seen(mixed, CUDA_DEVICE_ORDER=order) if order else seen(mixed)
    assert said_of(case) == said


@pytest.mark.parametrize("field", ["vendor", "mig_enabled"])
def test_the_order_of_other_vendors_and_of_parts_is_not_judged(field: str) -> None:
    whole = base(H200)
    value = {"vendor": "amd", "mig_enabled": True}[field]
    first, *rest = whole.machine.gpus
    gpus = (msgspec.structs.replace(first, **{field: value}), *rest)
    machine = msgspec.structs.replace(whole.machine, gpus=gpus)
    given = msgspec.structs.replace(whole, machine=machine)
    assert said_of(seen(given, CUDA_VISIBLE_DEVICES="")) is None
