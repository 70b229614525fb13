"""`nvidia-smi -q -x` of machines that nobody here has, as published, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.model.machine import Gpu, Machine, PciDevice, PciKind
from gputop.topology.model.readings import GpuReading, Readings
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.node import Node
from gputop.topology.recorded.formats.nvidia.smi import full_xml as smi_xml
from gputop.topology.recorded.load import load
from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "nvidia-public"
FILES = sorted(FOLDER.glob("*.xml"))


def snapshot(name: str) -> NodeSnapshot:
    return load([str(FOLDER / name)]).snapshot


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_public_machine_raises_an_alarm(path: Path) -> None:
    report = Node(load([str(path)]).snapshot)
    found = diagnose(Case(report))
    doubts = {"evidence-missing", "memory-unrepairable"}
    rest = [finding for finding in found.findings if finding.id not in doubts]
    assert {finding.severity for finding in rest} <= {"notice", "by-design"}
    assert [lack.id for lack in found.lacking] == ["bus"]
    assert predict(report.snapshot).pairs or len(report.snapshot.machine.gpus) == 1


def test_a_driver_that_renamed_its_version() -> None:
    text = (FOLDER / "rubin-4.xml").read_text()
    for tag in ("driver_version", "cuda_version"):  # as CUDA 14.0 will print it
        text = "\n".join(line for line in text.splitlines() if not line.startswith(f"\t<{tag}>"))
    software = smi_xml.FORMAT.parse(text.encode(), FOLDER).software
    assert software is not None
    assert (software.nvidia_driver, software.cuda_driver) == ("615.23", "13.4")


def test_a_gpu_that_is_in_no_table_hangs_on_its_fabric() -> None:
    prediction = predict(snapshot("rubin-4.xml"))
    assert {pair.path for pair in prediction.pairs} == {"NVL"}
    said = " ".join(prediction.assumptions)
    assert "36 are assumed, as the fabric is up" in said
    assert "10.7 is assumed, as its architecture is Rubin" in said
    assert "C2C is on; its 395 GB/s are taken from the table" in said
    assert "arm64 is assumed, as C2C is on" in said


def test_grace_is_no_x86() -> None:
    said = " ".join(predict(snapshot("gb200-4.xml")).assumptions)
    assert "arm64 is assumed" in said
    assert "C2C is on; its 224 GB/s" in said  # two GPUs share a Grace
    assert "x86_64" not in said
    assert "x86_64 is assumed" in " ".join(predict(snapshot("t4.xml")).assumptions)


@pytest.mark.parametrize("rest", [1.0, 0.4], ids=["whole", "cut"])
def test_of_many_outputs_the_last_whole_one_is_read(rest: float) -> None:
    first = (FOLDER / "t4.xml").read_bytes()
    last = first.replace(b"<gpu_util>0 %", b"<gpu_util>44 %")
    assert last != first
    part = smi_xml.FORMAT.parse(first + b"\n" + last[: int(len(last) * rest)], FOLDER)
    assert part.gpu_readings[0].utilization_percent == (44.0 if rest == 1.0 else 0.0)
    assert part.assumptions == (
        "the file holds 2 outputs of nvidia-smi, of which the last whole one is read",
    )


def resting(gen: int, gts: float, slot_gts: float | None) -> tuple[str, ...]:
    """Findings on four GPUs below root ports, of which one rests with two lanes."""
    gpus, pci, readings = [], [], []
    for number in range(4):
        lanes = 2 if number == 0 else 16
        own, port = f"0000:{number + 1:02x}:00.0", f"0000:00:{number + 1:02x}.0"
        gpus.append(Gpu(address=own, vendor="nvidia", index=number, name="X", pcie_gen_max=gen,
                        pcie_width_max=16))  # fmt: skip
        readings.append(GpuReading(address=own, pcie_gen=gen, pcie_width=lanes))
        end = PciDevice(
            address=own,
            parent=port,
            kind=PciKind.GPU,
            link_speed_max_gts=gts,
            link_width_max=16,
            link_width_now=lanes,
        )
        root = {"address": port, "parent": "pci0000:00", "kind": "root port",
                "link_speed_max_gts": slot_gts}  # fmt: skip
        pci.append(msgspec.structs.replace(end, **root))
        pci.append(end)
    machine = Machine(gpus=tuple(gpus), pci=tuple(pci))
    made = NodeSnapshot(taken_at=0.0, machine=machine, readings=Readings(gpus=tuple(readings)))
    bare = msgspec.structs.replace(made, machine=msgspec.structs.replace(machine, pci=()))
    return tuple(
        finding.id
        for one in (made, bare)
        for finding in diagnose(Case(Node(one))).findings
        if finding.id == "pcie-width"
    )


def test_lanes_that_a_link_of_generation_six_gives_up_at_rest_are_no_fault() -> None:
    assert resting(5, 32.0, 32.0) == ("pcie-width", "pcie-width")
    assert resting(6, 64.0, 64.0) == ()
    assert resting(6, 64.0, None) == ()


def test_lanes_that_a_slot_of_generation_five_misses_are_a_fault_of_a_newer_gpu_too() -> None:
    assert resting(5, 64.0, 32.0) == ("pcie-width", "pcie-width")
