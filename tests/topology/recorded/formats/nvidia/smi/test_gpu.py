"""One GPU of `nvidia-smi -q -x`, as published outputs print it."""

from __future__ import annotations

import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.recorded.formats.nvidia.smi import full_xml as smi_xml
from gputop.topology.recorded.load import load
from gputop.topology.sources.collect import merge
from gputop.topology.sources.nvidia.words import fabric_health
from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "nvidia-public"
VGPU = b"""<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu id="00000000:00:0B.0">
<product_name>GRID P4-1Q</product_name><gpu_virtualization_mode>
<virtualization_mode>VGPU</virtualization_mode></gpu_virtualization_mode>
<pci><pci_device_id>000000DE</pci_device_id></pci><clocks_throttle_reasons>N/A
</clocks_throttle_reasons><temperature><gpu_temp>0 C</gpu_temp></temperature>
<max_clocks><sm_clock>0 MHz</sm_clock></max_clocks></gpu></nvidia_smi_log>"""


def snapshot(name: str) -> NodeSnapshot:
    return load([str(FOLDER / name)]).snapshot


def test_the_health_of_a_fabric_reads_as_in_nvml() -> None:
    text = (FOLDER / "rubin-4.xml").read_text()
    fabric = snapshot("rubin-4.xml").machine.gpus[0].fabric
    assert fabric is not None
    assert dict(fabric.health) == {
        "summary": "healthy",
        **dict(fabric_health(0b01_01_0001_10_10_10_10)),
    }
    bad = text.replace("<bandwidth>Full", "<bandwidth>Degraded", 1)
    part = smi_xml.FORMAT.parse(bad.encode(), FOLDER)
    node = merge([part], taken_at=0.0, source=("text",), gputop="")
    found = diagnose(Case(Node(node))).findings
    assert [(one.id, one.severity) for one in found] == [
        ("fabric-health", "slow"),
        ("memory-unrepairable", "cannot-tell"),
        ("evidence-missing", "cannot-tell"),
    ]


def test_memory_that_cannot_be_repaired_is_proven_by_errors_alone() -> None:
    text = (FOLDER / "rubin-4.xml").read_text()
    clean, row = "<remapped_row_unc>0", "<remapped_row_unc>1"
    for worn, severity in ((text, "cannot-tell"), (text.replace(clean, row, 1), "broken")):
        part = smi_xml.FORMAT.parse(worn.encode(), FOLDER)
        node = merge([part], taken_at=0.0, source=("text",), gputop="")
        found = {one.id: one for one in diagnose(Case(Node(node))).findings}
        assert found["memory-unrepairable"].severity == severity


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("nvidia-public/gb200-4.xml", False),
        ("nvidia-public/rubin-4.xml", True),
        ("nvidia-smi/h100-mig-q.txt", False),
        ("nvidia-smi/l40s-q.txt", None),
    ],
)
def test_memory_beyond_repair_is_a_flag_of_every_output(name: str, word: bool | None) -> None:
    read = load([str(RECORDINGS / name)]).snapshot
    (ecc, *_) = (one.ecc for one in read.readings.gpus)
    assert ecc is not None
    assert ecc.unrepairable is word
    if word is None:
        assert ecc.why("unrepairable") == "nvidia-smi prints N/A", "No is healthy, N/A is not known"
    found = diagnose(Case(Node(read)))
    assert ("memory-unrepairable" in found.examined) == (word is not None)
    assert ("memory-unrepairable" in {one.id for one in found.findings}) == (word is True)


def test_a_reason_for_slow_clocks_that_is_new_is_not_lost() -> None:
    text = (FOLDER / "rubin-4.xml").read_text()
    old = "<clocks_event_reason_board_limit>Not Active"
    part = smi_xml.FORMAT.parse(text.replace(old, old.replace("Not ", ""), 1).encode(), FOLDER)
    assert part.gpu_readings[0].throttle_reasons == ("gpu idle", "board limit")
    assert part.gpu_readings[1].throttle_reasons == ("gpu idle",)


def test_parts_of_an_a100_without_uuid() -> None:
    (gpu,) = snapshot("a100-mig.xml").machine.gpus
    assert gpu.mig_enabled is True
    assert [one.gpu_instance for one in gpu.mig_instances] == [3, 4, 5, 6]


def test_what_a_virtual_gpu_prints_as_zero_is_unknown() -> None:
    part = smi_xml.FORMAT.parse(VGPU, FOLDER)
    (gpu,), (reading,) = part.gpus, part.gpu_readings
    assert (gpu.clock_sm_max_mhz, gpu.why("clock_sm_max_mhz")) == (None, "nvidia-smi prints 0")
    assert (reading.temperature_c, reading.why("temperature_c")) == (None, "nvidia-smi prints 0")
    cold = VGPU.replace(b"VGPU", b"None")
    assert smi_xml.FORMAT.parse(cold, FOLDER).gpu_readings[0].temperature_c == 0


def test_an_id_of_another_maker_is_none_of_nvidias() -> None:
    (gpu,) = smi_xml.FORMAT.parse(VGPU, FOLDER).gpus
    assert (gpu.pci_id, gpu.why("pci_id")) == (None, "no device of NVIDIA's: 000000de")
