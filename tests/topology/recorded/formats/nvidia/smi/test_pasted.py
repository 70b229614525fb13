"""What people paste of nvidia-smi, with the facts that a person reads off it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gputop.topology.model.machine import Gpu
from gputop.topology.model.readings import GpuReading
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.load import load
from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "nvidia-smi"
MIB = 2**20


def snapshot(name: str) -> NodeSnapshot:
    return load([str(FOLDER / name)]).snapshot


def first(name: str) -> tuple[Gpu, GpuReading]:
    node = snapshot(name)
    return node.machine.gpus[0], node.readings.gpus[0]


def versions(node: NodeSnapshot) -> tuple[str | None, str | None]:
    assert node.machine.software is not None
    return node.machine.software.nvidia_driver, node.machine.software.cuda_driver


def test_a_table_of_driver_590_under_load() -> None:
    gpu, now = first("h200-load-table.txt")
    assert versions(snapshot("h200-load-table.txt")) == ("590.48.01", "13.1")
    assert (gpu.address, gpu.index, gpu.name) == ("0000:83:00.0", 0, "NVIDIA H200")
    assert (gpu.memory_bytes, gpu.power_limit_watts) == (143771 * MIB, 700.0)
    assert (gpu.persistence, gpu.ecc_enabled, gpu.mig_enabled) == (True, True, False)
    assert (now.temperature_c, now.power_watts, now.performance_state) == (52, 628.0, 0)
    assert (now.utilization_percent, now.memory_used_bytes) == (100.0, 32362 * MIB)
    assert now.ecc is not None
    assert (now.ecc.uncorrected_volatile, now.ecc.corrected_volatile) == (0, None)
    assert now.processes is not None
    assert [(p.pid, p.memory_bytes) for p in now.processes] == [
        (10291, 2566 * MIB),
        (10293, 1542 * MIB),
        (10309, 28234 * MIB),
    ]
    assert gpu.uuid is None
    assert gpu.why("uuid") == "not in the table of nvidia-smi"


def test_a_table_with_mig_devices() -> None:
    gpu, now = first("h100-mig-table.txt")
    assert gpu.mig_enabled
    assert [(mig.index, mig.gpu_instance, mig.memory_bytes) for mig in gpu.mig_instances] == [
        (0, 2, 40448 * MIB),
        (1, 3, 20096 * MIB),
        (2, 9, 9984 * MIB),
        (3, 10, 9984 * MIB),
    ]
    assert now.utilization_percent is None  # N/A in MIG mode
    assert now.processes == ()


def test_a_table_of_windows_with_the_names_of_driver_610() -> None:
    gpu, now = first("rtx2080-wddm-table.txt")
    assert versions(snapshot("rtx2080-wddm-table.txt")) == ("610.62", "13.3")
    assert (gpu.memory_bytes, gpu.persistence, gpu.ecc_enabled) == (8192 * MIB, None, None)
    assert now.processes is not None
    assert {p.memory_bytes for p in now.processes} == {None}
    assert {p.kind for p in now.processes if p.pid == 2140} == {"compute", "graphics"}


def test_a_table_with_an_error_in_it() -> None:
    node = snapshot("quadro-err-table.txt")
    assert versions(node) == ("384.111", None)
    broken, well = node.readings.gpus
    assert (broken.power_watts, broken.temperature_c) == (None, 53)
    assert broken.why("power_watts") == "nvidia-smi prints ERR!"
    assert ["ERR!" in problem.text for problem in node.problems] == [True]
    assert (well.power_watts, well.processes) == (11.0, ())


def test_a_table_of_2014() -> None:
    node = snapshot("titan-325-table.txt")
    assert versions(node) == ("325.15", None)
    assert [gpu.memory_bytes for gpu in node.machine.gpus] == [6143 * MIB] * 2
    assert node.readings.gpus[0].power_watts is None
    assert node.readings.gpus[0].processes is None  # Not Supported


def test_a_page_with_a_table_and_links() -> None:
    loaded = load([str(FOLDER / "v100-4-page.md")])
    gpus = loaded.snapshot.machine.gpus
    assert [gpu.address for gpu in gpus] == [
        "0004:04:00.0", "0004:05:00.0", "0035:03:00.0", "0035:04:00.0",
    ]  # fmt: skip
    assert {gpu.name for gpu in gpus} == {"Tesla V100-SXM2-16GB"}  # the table cuts it
    assert {(link.active, link.raw_gbs) for gpu in gpus for link in gpu.nvlinks} == {(True, 25.781)}
    assert {len(gpu.nvlinks) for gpu in gpus} == {6}
    (passed,) = loaded.skipped
    assert passed[0] == "v100-4-page.md, lines 1, 33, 67, 70-71"


def test_the_query_of_a_gpu_in_mig_mode() -> None:
    gpu, now = first("h100-mig-q.txt")
    assert versions(snapshot("h100-mig-q.txt")) == ("590.48.01", "13.1")
    assert (gpu.address, gpu.index, gpu.pci_id) == ("0000:00:09.0", 0, "10de:2330")
    assert (gpu.architecture, gpu.vbios, gpu.module_id) == ("Hopper", "96.00.A5.00.01", 7)
    assert (gpu.bar1_bytes, gpu.pcie_gen_max, gpu.pcie_width_max) == (131072 * MIB, 5, 16)
    assert [mig.gpu_instance for mig in gpu.mig_instances] == [2, 3, 9, 10]
    assert gpu.virtualization == "passthrough"
    assert gpu.fabric is not None
    assert (gpu.fabric.state, gpu.fabric.status, gpu.fabric.clique_id) == (
        "completed",
        "Success",
        0,
    )
    assert gpu.temperature_slowdown_c is None
    assert "margin" in (gpu.why("temperature_slowdown_c") or "")
    assert (now.temperature_c, now.power_watts, now.utilization_percent) == (42, 72.63, None)
    assert (now.throttle_reasons, now.recovery_action) == (("gpu idle",), "none")
    assert (now.pcie_replays, now.processes) == (9, ())
    assert now.ecc is not None
    assert (now.ecc.uncorrected_volatile, now.ecc.pages_retired_single) == (0, None)


def test_the_query_of_a_gpu_under_load() -> None:
    gpu, now = first("l40s-q.txt")
    assert versions(snapshot("l40s-q.txt")) == ("595.80", "13.2")
    assert (gpu.name, gpu.power_limit_watts, gpu.clock_sm_max_mhz) == ("NVIDIA L40S", 350.0, 2520)
    assert (now.power_watts, now.utilization_percent) == (110.01, 9.0)
    assert now.processes is not None
    assert [(p.pid, p.memory_bytes) for p in now.processes] == [
        (20037, 538 * MIB),
        (20038, 681 * MIB),
    ]
    assert now.ecc is not None
    assert (now.ecc.rows_remapped_uncorrected, now.ecc.remap_failed) == (0, False)


def test_errors_in_the_layout_of_older_drivers(tmp_path_factory: pytest.TempPathFactory) -> None:
    text = (FOLDER / "l40s-q.txt").read_text()
    start, end = text.index("    ECC Errors"), text.index("    Retired Pages")
    old = (
        "    ECC Errors\n        Volatile\n            Single Bit\n"
        "                Device Memory : 3\n                Total : 4\n"
        "            Double Bit\n                Device Memory : 1\n                Total : 2\n"
    )
    path = tmp_path_factory.mktemp("old") / "q.txt"
    path.write_text(text[:start] + old + text[end:])
    ecc = load([str(path)]).snapshot.readings.gpus[0].ecc
    assert ecc is not None
    assert (ecc.corrected_volatile, ecc.uncorrected_volatile) == (4, 2)
    assert ecc.corrected_aggregate is None


@pytest.mark.parametrize("word", ["GPU is lost", "Unknown Error", "[N/A]", "ERR!"])
def test_words_in_the_place_of_values_are_no_values(
    tmp_path_factory: pytest.TempPathFactory, word: str
) -> None:
    lines = []
    for line in (FOLDER / "l40s-q.txt").read_text().splitlines():
        name, colon, _ = line.partition(" : ")
        lines.append(f"{name}{colon}{word}" if line.startswith("    ") and colon else line)
    path = tmp_path_factory.mktemp("lost") / "q.txt"
    path.write_text("\n".join(lines))
    node = load([str(path)]).snapshot
    gpu, now = node.machine.gpus[0], node.readings.gpus[0]
    numbers = (gpu.memory_bytes, gpu.power_limit_watts, now.temperature_c, now.power_watts)
    assert numbers == (None, None, None, None)
    assert (gpu.name, gpu.uuid, gpu.ecc_enabled) == (None, None, None)
    assert now.ecc is not None
    assert {v for k, v in msgspec.structs.asdict(now.ecc).items() if k != "gaps"} == {None}


def test_lists_of_gpus() -> None:
    gpus = snapshot("a100-4-list.txt").machine.gpus
    assert [gpu.index for gpu in gpus] == [0, 1, 2, 3]
    assert [len(gpu.mig_instances) for gpu in gpus] == [4, 0, 0, 0]
    assert [gpu.mig_enabled for gpu in gpus] == [True, None, None, None]
    assert gpus[0].mig_instances[1].name == "MIG 1g.20gb"
    assert gpus[3].uuid == "GPU-00000003-0000-0000-0000-000000000003"
    (gpu,) = snapshot("h100-mig-list.txt").machine.gpus
    assert [mig.name for mig in gpu.mig_instances] == [
        "MIG 3g.40gb", "MIG 2g.20gb", "MIG 1g.10gb", "MIG 1g.10gb",
    ]  # fmt: skip
    assert gpu.mig_instances[0].gpu_instance is None


def test_comma_separated_values() -> None:
    gpu, now = first("h200-csv.txt")
    assert (gpu.address, gpu.index, gpu.compute_capability) == ("0000:83:00.0", 0, "9.0")
    assert (gpu.memory_bytes, gpu.pcie_width_max, gpu.mig_enabled) == (143771 * MIB, 16, False)
    assert gpu.fabric is not None
    assert gpu.fabric.state == "completed"
    assert (now.power_watts, now.temperature_memory_c, now.pcie_gen) == (626.26, 40, 5)
    assert now.throttle_reasons is None
    assert now.ecc is not None
    assert (now.ecc.uncorrected_volatile, now.ecc.remap_failed) == (0, False)
    node = snapshot("titan-x-4-csv.txt")
    assert [gpu.address for gpu in node.machine.gpus] == [f"0000:0{n}:00.0" for n in (1, 2, 3, 4)]
    assert [now.temperature_c for now in node.readings.gpus] == [67, 50, 76, 83]
    (gpu,) = snapshot("p40-csv.md").machine.gpus
    assert (gpu.name, gpu.compute_mode) == ("Tesla P40", "exclusive process")
    assert gpu.index is None  # nothing says that these are all GPUs


def test_states_and_errors_of_links() -> None:
    (gpu,) = snapshot("v100-inactive.txt").machine.gpus
    assert (gpu.index, gpu.name, gpu.uuid) == (3, "Tesla V100-SXM2-32GB", None)
    assert [link.link for link in gpu.nvlinks if not link.active] == [3, 5]
    assert gpu.nvlinks[3].raw_gbs is None
    gpu, now = first("h100-nvlink-errors.md")
    assert [link.link for link in gpu.nvlinks] == list(range(18))
    assert [link.link for link in gpu.nvlinks if link.active] == [0, 17]
    assert {link.why("active") for link in gpu.nvlinks[1:17]} == {"left out of the text"}
    assert [link.link for link in now.nvlinks] == [0, 1, 17]
    assert {(e.replay_errors, e.recovery_errors, e.crc_errors) for e in now.nvlinks} == {(0, 0, 0)}
    assert len(snapshot("h200-nvlink.txt").machine.gpus[0].nvlinks) == 18


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("h100-mig-nvlink.txt", "not supported for Devices in MIG mode"),
        ("l40s-nvlink.txt", "does not have or support Nvlink"),
    ],
)
def test_links_that_cannot_be_asked_for(name: str, why: str) -> None:
    (gpu,) = snapshot(name).machine.gpus
    assert gpu.nvlinks == ()
    assert why in (gpu.why("nvlinks") or "")


def test_grants_of_pairs() -> None:
    loaded = load([str(FOLDER / "p2p-page.md")])
    pairs = loaded.snapshot.machine.pairs
    assert len(pairs) == 56
    assert {(pair.p2p_read, pair.p2p_write) for pair in pairs} == {("ok", None)}
    assert [why for _, why in loaded.skipped if "other GPUs" in why]  # two L4 below eight H100
    node = snapshot("rtx5060-5-topo-p2p.txt")
    assert {pair.p2p_pci for pair in node.machine.pairs} == {"ok"}
    assert {pair.ancestor for pair in node.machine.pairs} == {"node", "hostbridge"}
    (gpu, *_) = node.machine.gpus
    assert gpu.cpu_affinity == "0-63"


def test_matrices_without_affinities() -> None:
    node = snapshot("v100-8-yard.md")
    assert len(node.machine.gpus) == 8
    pair = node.machine.pair("topo:GPU0", "topo:GPU7")
    assert pair is not None
    assert pair.nvlinks_reported == 2
    assert {gpu.cpu_affinity for gpu in node.machine.gpus} == {None}
    node = snapshot("rtx8000-notes.md")  # with a remark behind a row
    assert {gpu.memory_affinity for gpu in node.machine.gpus} == {None}
    assert {pair.nvlinks_reported for pair in node.machine.pairs} == {2}
    node = snapshot("rtx5070-2-topo.txt")  # the head stands behind the command
    assert {pair.ancestor for pair in node.machine.pairs} == {"hostbridge"}


@pytest.mark.parametrize(
    ("cell", "read"),
    [("GNS", "gpu not supported"), ("DR", "disabled by registry key"), ("NS", None), ("OK", None)],
)
def test_a_p2p_matrix_without_its_command_grants_nothing(
    tmp_path: Path, cell: str, read: str | None
) -> None:
    file = tmp_path / "p2p.txt"
    file.write_text(f"\tGPU0\tGPU1\n GPU0\tX\t{cell}\n GPU1\t{cell}\tX\n")
    node = load([str(file)]).snapshot
    assert {(pair.p2p_read, pair.p2p_write) for pair in node.machine.pairs} == {(read, None)}
    (said,) = node.assumptions
    assert ("its refusals are taken for those of reads" in said) == (read is not None)
