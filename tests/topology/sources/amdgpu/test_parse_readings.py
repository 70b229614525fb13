"""What moves on AMD GPUs by sysfs alone, and whether it tells a GPU that is in use."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given

from gputop.measuring.busy import judge
from gputop.topology.model.readings import GpuReading
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.kfd import amdgpu_readings
from tests.support import kfd_trees
from tests.topology.sources.kfd.test_kfd import JSON

ONE, OTHER = "0000:0c:00.0", "0000:22:00.0"
TOTAL = 206_141_652_992
HWMON = {
    "name": "amdgpu", "power1_input": "142000000", "temp1_label": "edge", "temp1_input": "40000",
    "temp2_label": "junction", "temp2_input": "43000", "temp3_label": "mem",
    "temp3_input": "36000", "freq1_label": "sclk", "freq1_input": "132000000",
    "freq2_label": "mclk", "freq2_input": "900000000",
}  # fmt: skip


def machine(root: Path, used: str = "297611264", busy: str = "0") -> kfd_trees.Tree:
    """Make two MI300X."""
    tree = kfd_trees.Tree(root)
    for node, address in ((2, ONE), (3, OTHER)):
        tree.gpu(node, address, 0x74A1, 90402, cpu=0)
        tree.device(
            address, gpu_busy_percent=busy, mem_busy_percent="3", mem_info_vram_used=used,
            mem_info_vram_total=str(TOTAL), current_link_speed="32.0 GT/s PCIe",
            current_link_width="16", pcie_replay_count="7",
            **{f"hwmon__hwmon4__{name}": text for name, text in HWMON.items()},
        )  # fmt: skip
    return tree


def process(tree: kfd_trees.Tree, pid: int, held: dict[int, int], *, here: bool = True) -> None:
    """Let KFD list a process; `held` is bytes by KFD's number of the GPU."""
    for number, size in held.items():
        tree.file(tree.root / f"sys/class/kfd/kfd/proc/{pid}/vram_{number}", str(size))
    (tree.root / "proc").mkdir(exist_ok=True)
    if here:
        tree.file(tree.root / f"proc/{pid}/stat", str(pid))


def readings(root: Path) -> tuple[GpuReading, ...]:
    """Read a folder as the live source does."""
    return amdgpu_readings.SOURCE.parse(amdgpu_readings.read(FolderTree(root))).gpu_readings


def test_figures_of_a_gpu(tmp_path: Path) -> None:
    machine(tmp_path)
    first, second = readings(tmp_path)
    assert (first.address, second.address) == (ONE, OTHER)
    assert (first.utilization_percent, first.memory_utilization_percent) == (0.0, 3.0)
    assert first.memory_used_bytes == 297_611_264
    assert first.memory_free_bytes == TOTAL - 297_611_264
    assert (first.power_watts, first.temperature_c, first.temperature_memory_c) == (142.0, 43, 36)
    assert (first.clock_graphics_mhz, first.clock_memory_mhz) == (132, 900)
    assert (first.pcie_gen, first.pcie_width, first.pcie_replays) == (5, 16, 7)
    assert first.throttle_reasons is None


def test_a_process_belongs_to_the_gpus_whose_memory_it_holds(tmp_path: Path) -> None:
    tree = machine(tmp_path)
    process(tree, 4711, {1002: 5_000_000_000, 1003: 0})
    first, second = readings(tmp_path)
    assert [(process.pid, process.memory_bytes) for process in first.processes or ()] == [
        (4711, 5 * 10**9)
    ]
    assert second.processes == ()
    verdict = judge([(first, second)], [ONE, OTHER])
    assert verdict.busy == (f"{ONE} is in use by process 4711 (4.7 GiB, 2 % of its memory)",)
    assert judge([(first,)], [ONE], own_pids=[4711]).busy == ()


def test_numbers_of_another_pid_namespace_name_nobody(tmp_path: Path) -> None:
    tree = machine(tmp_path, used=str(TOTAL // 2))
    process(tree, 990_001, {1002: 5_000_000_000}, here=False)
    first, _ = readings(tmp_path)
    assert (first.processes, first.why("processes")) == (None, amdgpu_readings.OTHER_PIDS)
    (busy,) = judge([(first,)], [ONE]).busy
    assert "50 % of its memory is held by a process that the driver does not list" in busy


def test_utilisation_alone_shows_that_a_gpu_works(tmp_path: Path) -> None:
    machine(tmp_path, busy="97")
    sample = readings(tmp_path)
    assert judge([sample] * 3, [ONE]).busy == (f"{ONE} works: 97 % utilisation",)


def test_a_sleeping_gpu_has_no_figures(tmp_path: Path) -> None:
    tree = machine(tmp_path)
    tree.file(tmp_path / f"sys/bus/pci/devices/{ONE}/power/runtime_status", "suspended")
    first, _ = readings(tmp_path)
    assert first.power_watts is None
    assert first.why("power_watts") == "the GPU sleeps, and asking would wake it"


def test_figures_that_cannot_be_are_none(tmp_path: Path) -> None:
    tree = machine(tmp_path, used="-1", busy="255")
    tree.file(tmp_path / f"sys/bus/pci/devices/{ONE}/current_link_speed", "Unknown")
    first, _ = readings(tmp_path)
    assert first.utilization_percent is None
    assert first.why("utilization_percent") == "the driver says 255 %"
    assert (first.memory_used_bytes, first.memory_free_bytes, first.pcie_gen) == (None, None, None)


def test_without_a_gpu_it_answers_nothing_and_looks_again_later(tmp_path: Path) -> None:
    reader = amdgpu_readings.AmdgpuReadingsReader(FolderTree(tmp_path))
    assert amdgpu_readings.SOURCE.parse(reader()).gpu_readings == ()
    assert reader.again_seconds == amdgpu_readings.LOOK_AGAIN_SECONDS


@given(JSON)
def test_no_answer_makes_the_parser_raise(raw: object) -> None:
    found = amdgpu_readings.SOURCE.parse(raw).gpu_readings
    assert len({reading.address for reading in found}) == len(found)
    assert all((reading.memory_used_bytes or 0) >= 0 for reading in found)
