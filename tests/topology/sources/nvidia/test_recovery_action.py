"""What the driver asks for to clear a fault: read rarely, named rightly, reported with its harm."""

from __future__ import annotations

from xml.etree.ElementTree import fromstring

import pytest

from gputop.screens.node.detail import detail_lines
from gputop.topology.diagnosis.events import Watcher
from gputop.topology.model.readings import GpuReading
from gputop.topology.model.severity import BROKEN, SLOW
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.formats.nvidia.smi import gpu as smi_gpu
from gputop.topology.recorded.load import load
from gputop.topology.sources.nvidia import recovery
from gputop.topology.sources.nvidia.answers import RECOVERY_FIELDS
from gputop.topology.sources.nvidia.parse_readings import parse
from gputop.widgets.gpu_cells import Row
from tests.support.places import RECORDINGS

from ....support import nvml_fake as fake
from ....support.rule_cases import base
from ...diagnosis.device_rules import H100, MI300X, about, at, device_diagnosis
from .test_read import moving_reader

RULE = "gpu-recovery-action"
ACTION = "readings.gpus[2].recovery_action"
FIELD_NUMBER = 230


def asking(action: str, driver: str = "580.95.05") -> NodeSnapshot:
    return at(H100, (ACTION, action), ("machine.software.nvidia_driver", driver))


def test_the_driver_is_asked_in_every_tenth_reading_alone() -> None:
    binding = fake.Binding(gpus=2)
    setattr(binding, recovery.FIELD, FIELD_NUMBER)
    asked: list[tuple[int, int]] = []

    def field(handle: int, number: int, scope: int) -> int:
        asked.append((handle, number))
        return {FIELD_NUMBER: handle}.get(number, 0)

    binding.fields = field
    reader = moving_reader(binding)
    for _ in range(20):
        actions = [reading.recovery_action for reading in parse(reader()).gpu_readings]
        assert actions == ["none", "reset"]
    for gpu in range(2):
        assert 2 <= asked.count((gpu, FIELD_NUMBER)) <= 3


def test_a_driver_or_binding_that_does_not_know_it_says_so() -> None:
    assert parse(moving_reader(fake.Binding(gpus=1))()).gpu_readings[0].recovery_action is None
    raw = {"nvmlDeviceGetPciInfo": {"busId": "00000000:01:00.0"}}
    for answer, why in (
        ({"ret": 3}, "Not Supported"),
        ({"value": 2**32 - 1}, "the driver says unknown"),
        ({"value": "1"}, "not understood: str"),
        (None, "not asked"),
    ):
        device = raw | {RECOVERY_FIELDS: {recovery.FIELD: answer}}
        reading = parse({"devices": [device]}).gpu_readings[0]
        assert reading.recovery_action is None
        assert reading.why("recovery_action") == why


@pytest.mark.parametrize(
    ("printed", "action"),
    [
        ("None", "none"),
        ("Reset", "reset"),
        (" GPU  Reset ", "reset"),
        ("Reboot", "reboot"),
        ("Drain P2P", "drain P2P"),
        ("Drain and Reset", "drain and reset"),
        ("Recover IMEX Domain", "recover IMEX domain"),
        ("Dance", "unknown (Dance)"),
        ("N/A", None),
        ("", None),
    ],
)
def test_nvidia_smi_s_words(printed: str, action: str | None) -> None:
    element = fromstring(f"<gpu><gpu_recovery_action>{printed}</gpu_recovery_action></gpu>")
    reading = smi_gpu.reading(element, "0000:01:00.0")
    assert reading.recovery_action == action
    assert (reading.why("recovery_action") is None) == (action is not None)


def test_a_recording_says_none() -> None:
    path = RECORDINGS / "hgx-h200-4gpu-vm/nvidia-smi-q.xml"
    loaded = load([str(path)]).snapshot
    assert {gpu.recovery_action for gpu in loaded.readings.gpus} == {"none"}
    assert RULE in device_diagnosis(loaded).examined


@pytest.mark.parametrize(
    ("action", "harm", "words"),
    [
        ("reset", BROKEN, "asks for a reset of GPU2"),
        ("reboot", BROKEN, "restart of the node because of GPU2"),
        ("system reboot", BROKEN, "restart of the node because of GPU2"),
        ("bus reset", BROKEN, "PCIe bus of GPU2"),
        ("drain P2P", BROKEN, "traffic between GPUs ends because of GPU2"),
        ("drain and reset", SLOW, "once the jobs have ended, of GPU2"),
        ("recover IMEX domain", SLOW, "IMEX domain is recovered, on GPU2"),
        ("unknown (99)", SLOW, "does not know"),
    ],
)
def test_each_action_has_its_own_harm(action: str, harm: str, words: str) -> None:
    (found,) = about(RULE, asking(action))
    assert found.severity == harm
    assert words in found.title
    assert found.evidence[0].value == action
    resets = [fix.command for fix in found.fix if "--gpu-reset" in fix.command]
    assert resets == (["nvidia-smi --gpu-reset -i 2"] if action.endswith("d reset") or
                      action == "reset" else [])  # fmt: skip


def test_the_number_of_two_meanings_is_reported_by_the_driver() -> None:
    both = recovery.ACTIONS[5]
    assert "PCIe bus" in about(RULE, asking(both, "580.95.05"))[0].title
    assert "IMEX" in about(RULE, asking(both, "610.10"))[0].title
    (unknown,) = about(RULE, asking(both, "odd"))
    assert (unknown.severity, unknown.evidence[0].value) == (BROKEN, both)


def test_gpus_that_ask_for_the_same_are_told_together() -> None:
    sick = at(H100, *((f"readings.gpus[{n}].recovery_action", "reset") for n in (1, 3)))
    (found,) = about(RULE, sick)
    assert "GPU1 and GPU3" in found.title
    assert found.fix[0].command == "nvidia-smi --gpu-reset -i 1,3"


def test_no_number_no_command_that_would_reset_all() -> None:
    sick = at(H100, (ACTION, "reset"), ("machine.gpus[2].index", None))
    assert about(RULE, sick)[0].fix[0].command == ""


def test_unread_is_not_well() -> None:
    unread = at(H100, ("readings.gpus[*].recovery_action", None))
    assert RULE in device_diagnosis(unread).unexamined
    assert RULE in device_diagnosis(base(MI300X)).elsewhere
    assert not about(RULE, base(H100))


def test_it_is_news_when_the_driver_begins_to_ask() -> None:
    watcher = Watcher()
    assert not watcher.see(base(H100))
    assert watcher.see(asking("drain P2P"))
    assert not watcher.see(asking("reset"))  # the same fault, one step on
    (event,) = watcher.events
    assert (event.harm, event.lasting) == (BROKEN, True)
    assert event.text == "GPU2: waits for what the driver asks for"


@pytest.mark.parametrize(
    ("action", "words"), [("none", "no action needed"), ("reset", "reset"), (None, "")]
)
def test_the_details_of_a_gpu_say_it(action: str | None, words: str) -> None:
    gpu = base(H100).machine.gpus[0]
    reading = GpuReading(address=gpu.address, recovery_action=action)
    shown = detail_lines(Row(gpu=gpu, reading=reading, processes={}), 60)
    lines = ["".join(part for part, _ in line).split() for line in shown]
    asks = [" ".join(line[1:]) for line in lines if line[:1] == ["Recovery"]]
    assert asks == ([words] if words else [])
