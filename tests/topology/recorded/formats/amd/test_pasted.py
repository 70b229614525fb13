"""What people paste of rocminfo and of rocm-smi without options."""

from __future__ import annotations

from pathlib import Path

from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.load import load
from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "pasted"


def snapshot(name: str | Path) -> NodeSnapshot:
    return load([str(FOLDER / name)]).snapshot


def test_rocminfo() -> None:
    node = snapshot("mi300x-rocminfo.txt")
    assert [(g.address, g.kfd_node, g.name) for g in node.machine.gpus] == [
        ("0000:05:00.0", 2, "AMD Instinct MI300X"),
        ("0000:2e:00.0", 3, "AMD Instinct MI300X"),
    ]
    gpu = node.machine.gpus[0]
    assert (gpu.compute_capability, gpu.pci_id, gpu.core_count) == ("gfx942", "1002:74a1", 304)
    assert gpu.memory_bytes == 201310208 << 10
    assert gpu.why("uuid") == "not in rocminfo"
    assert node.machine.software is not None
    assert node.machine.software.amd_driver == "6.10.5"


def test_addresses_that_repeat_name_no_gpu(tmp_path: Path) -> None:
    path = tmp_path / "rocminfo.txt"
    path.write_text((FOLDER / "mi300x-rocminfo.txt").read_text().replace("11776", "1280"))
    assert [g.address for g in snapshot(path).machine.gpus] == ["topo:AMD0", "topo:AMD1"]


def test_the_table_of_rocm_7() -> None:
    node = snapshot("mi350-concise.txt")
    whole, part = node.machine.gpus
    assert (whole.index, whole.pci_id, whole.kfd_node) == (0, "1002:75a0", 2)
    assert (whole.power_limit_watts, whole.compute_partition) == (1000.0, "SPX")
    assert (part.power_limit_watts, part.compute_partition) == (None, None)
    now = node.readings.gpus[0]
    assert (now.temperature_c, now.power_watts, now.utilization_percent) == (60, 319.0, 97.0)
    assert now.clock_graphics_mhz == 2203


def test_the_table_of_rocm_5() -> None:
    node = snapshot("mi250-concise.txt")
    assert [gpu.power_limit_watts for gpu in node.machine.gpus] == [560.0, None]
    assert [now.utilization_percent for now in node.readings.gpus] == [0.0, 3.0]


def test_texts_of_one_node_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "paste.txt"
    texts = [(FOLDER / name).read_text() for name in ("mi250-concise.txt", "epyc-lscpu.txt")]
    path.write_text("It is slow\n\n" + "\n".join(texts))
    node = snapshot(path)
    assert len(node.machine.gpus) == 2
    assert node.machine.host is not None
    assert node.machine.host.cpu_vendor == "AuthenticAMD"
