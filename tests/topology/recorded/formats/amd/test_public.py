"""What real machines of AMD printed, as their owners quoted it (recordings/README.md)."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest

from gputop.app import GpuTop
from gputop.screens import NAMES
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.diagnosis.symptoms.explain import explain
from gputop.topology.logs.comparing.overlay import Overlay, lay
from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.report import LogReport
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.prediction import Prediction
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.xml.detect import LETTERS, LETTERS_AMD
from gputop.topology.nccl.xml.links import NO_WIRES, ONE_HOP
from gputop.topology.node import Node
from gputop.topology.recorded.load import LoadError, load
from gputop.topology.report import Report
from tests.grid import share
from tests.support.app import SIZES, app_of, give, picture, press
from tests.support.places import RECORDINGS

NODES = {
    "mi355x-8-topology.txt": 8,
    "rx7900xtx-2-topology.txt": 2,
    "mi300a-4-showtopo.txt": 4,
    "mi210-4-showtopo.txt": 4,
    "mi50-4-showtopo.txt": 4,
    "four-numa-nodes-showtopo.txt": 4,
    "mi250x-8-showtoponuma.txt": 8,
    "mi300a-tpx-showtoponuma.txt": 12,
    "mi250-rocm-smi.json": 1,
    "780m-rocm-smi.json": 1,
    "mi300a-static.json": 1,
    "strix-point-static.json": 1,
}
MESHES = {"mi355x-8-topology.txt", "mi300a-4-showtopo.txt", "mi210-4-showtopo.txt"}


def node(name: str) -> NodeSnapshot:
    return load([str(RECORDINGS / "amd-public" / name)]).snapshot


def predicted(name: str) -> Prediction:
    return predict(node(name), Settings({}))


def report(name: str) -> Report:
    return Report(Node(node(name)).decide())


def log_of(name: str) -> LogReport:
    return read_log((RECORDINGS / "rccl-logs" / f"{name}.log").read_bytes().splitlines())


@pytest.mark.parametrize(("name", "gpus"), NODES.items())
def test_every_gpu_is_found_and_nothing_is_called_ill(name: str, gpus: int) -> None:
    found = report(name)
    machine = found.snapshot.machine
    assert len(machine.gpus) == gpus
    assert {gpu.vendor for gpu in machine.gpus} == {"amd"}
    found_ill = diagnose(Case(found.node)).findings
    assert not [finding.id for finding in found_ill if finding.severity in ("broken", "slow")]
    assert not found.snapshot.problems


@pytest.mark.parametrize("name", sorted(NODES))
def test_rccl_goes_by_xgmi_where_the_tool_prints_xgmi_and_nowhere_else(name: str) -> None:
    found = predicted(name)
    paths = {pair.path for pair in found.pairs}
    assert found.library.name == "rccl"
    assert (paths == {"XGMI"}) == (name in MESHES)
    assert not any("nvidia-smi" in line for line in found.assumptions)
    addresses = "topology" in name or name.endswith(".json")
    assert (LETTERS_AMD.rstrip(".") in found.assumptions) == (not addresses)
    assert LETTERS.rstrip(".") not in found.assumptions


def test_a_driver_that_prints_zeros_still_shows_the_mesh() -> None:
    """amdgpu 6.16.13 on MI355X: weight 0 and bandwidth 0-0 for pairs that it calls XGMI."""
    machine = node("mi355x-8-topology.txt").machine
    for gpu in machine.gpus:
        assert {link.remote_address for link in gpu.xgmi} == {
            other.address for other in machine.gpus if other != gpu
        }
        for link in gpu.xgmi:
            assert (link.weight, link.hops, link.bandwidth_min_gbs, link.raw_gbs) == (None,) * 4
            assert link.why("weight") == "amd-smi prints 0"
            assert link.why("bandwidth_max_gbs") == "amd-smi prints 0-0"
    assert {(pair.p2p_atomics, pair.p2p_dma) for pair in machine.pairs} == {("ok", "ok")}
    assert ONE_HOP.rstrip(".") in predicted("mi355x-8-topology.txt").assumptions


def test_two_radeons_to_which_the_driver_grants_nothing() -> None:
    name = "rx7900xtx-2-topology.txt"
    pairs = node(name).machine.pairs
    assert {(p.link_type, p.weight, p.hops, p.p2p_read) for p in pairs} == {
        ("pcie", 40, 2, "not supported")
    }
    found = predicted(name)
    assert {pair.transport for pair in found.pairs} == {"SHM"}
    # The driver was asked, and said no.
    assert not any("peer access" in line for line in found.assumptions)
    # `amd-smi xgmi` of this machine prints the largest numbers that fit for "unknown".
    with pytest.raises(LoadError, match="text of amd-smi, of which"):
        load([str(RECORDINGS / "amd-public/rx7900xtx-2-xgmi.txt")])


def test_numa_nodes_alone_say_nothing_of_wires() -> None:
    machine = node("mi250x-8-showtoponuma.txt").machine
    assert [gpu.numa_node for gpu in machine.gpus] == [3, 3, 1, 1, 0, 0, 2, 2]
    assert NO_WIRES.rstrip(".") in predicted("mi250x-8-showtoponuma.txt").assumptions
    parts = sorted(node("mi300a-tpx-showtoponuma.txt").machine.gpus, key=lambda gpu: gpu.index or 0)
    assert [gpu.numa_node for gpu in parts] == [n for n in range(4) for _ in range(3)]
    assert NO_WIRES.rstrip(".") not in predicted("mi50-4-showtopo.txt").assumptions


def test_cards_as_rocm_smi_of_rocm_6_prints_them() -> None:
    (gpu,) = node("mi250-rocm-smi.json").machine.gpus
    assert gpu.address == "0000:29:00.0"
    assert (gpu.name, gpu.pci_id) == ("AMD INSTINCT MI250 (MCM) OAM AC MBA", "1002:740c")
    assert gpu.compute_capability == "gfx90a"  # printed as gfx9010
    assert (gpu.power_limit_watts, gpu.kfd_node) == (560.0, 2)
    (apu,) = node("780m-rocm-smi.json").machine.gpus
    assert (apu.name, apu.address, apu.serial) == ("Phoenix3", "0000:c4:00.0", None)
    assert apu.why("serial") == "rocm-smi prints N/A"


BAR = "=" * 40
ROCM_5 = f"""{BAR} ROCm System Management Interface {BAR}
GPU[0]\t\t: Card series: \t\t0x744c
GPU[0]\t\t: Card model: \t\t0x2422
GPU[0]\t\t: Card SKU: \t\tEXT84765
"""
"""Syllo/nvtop issue 236: an RX 7900 XTX whose names this rocm-smi does not know."""
MI250 = {
    "GPU ID": "0x740c",
    "PCI Bus": "0000:2F:00.0",
    "Card series": "AMD INSTINCT MI250 (MCM) OAM AC MBA",
    "Card model": "0x0b0c",
    "Card SKU": "D65209",
}
"""wandb/wandb, gpu_amd_test.go: rocm-smi of ROCm 5, where the model is that of the board."""
MI250X = {"Card Series": "AMD INSTINCT MI200", "Card Model": "0x7408", "Subsystem ID": "0x0b0c"}
"""ROCm/rocm_smi_lib issue 159."""


@pytest.mark.parametrize(
    ("text", "pci_id", "name"),
    [
        (ROCM_5, "1002:744c", None),
        (json.dumps({"card0": MI250}), "1002:740c", MI250["Card series"]),
        (json.dumps({"card0": MI250X}), "1002:7408", MI250X["Card Series"]),
        (ROCM_5.replace("0x744c", "Navi 31"), None, "Navi 31"),
    ],
)
def test_the_number_of_a_board_is_not_taken_for_that_of_the_device(
    tmp_path: Path, text: str, pci_id: str | None, name: str | None
) -> None:
    (tmp_path / "it").write_text(text)
    (gpu,) = load([str(tmp_path / "it")]).snapshot.machine.gpus
    assert (gpu.pci_id, gpu.name) == (pci_id, name)


def test_a_cut_table_of_rocm_smi_and_of_rocminfo_are_refused_in_one_line(tmp_path: Path) -> None:
    """Syllo/nvtop issue 341."""
    row = "0       2     0x74a1,   32700  39.0°C      134.0W    NPS1, SPX, 0        132Mhz  900Mhz"
    for text, line in (
        (f"{BAR} ROCm System Management Interface {BAR}\n{row}\n", "rocm-smi -a and --showtopo"),
        ("==========\nHSA Agents               \n==========\n", "no GPU among its agents"),
    ):
        (tmp_path / "it").write_text(text)
        with pytest.raises(LoadError, match=line):
            load([str(tmp_path / "it")])


def test_a_power_limit_of_0_watts_is_none() -> None:
    """AMD's guide shows an MI300A with 550 W at most and 0 W set; an APU tells of no limit."""
    (gpu,) = node("mi300a-static.json").machine.gpus
    assert (gpu.power_limit_watts, gpu.power_limit_max_watts) == (None, 550.0)
    assert gpu.power_limit_min_watts == 0.0
    assert gpu.why("power_limit_watts") == "amd-smi prints 0"
    (apu,) = node("strix-point-static.json").machine.gpus
    assert (apu.compute_capability, apu.core_count) == ("gfx1150", 16)
    assert (apu.pcie_gen_max, apu.power_limit_max_watts, apu.memory_bytes) == (None, None, 2**29)


def overlaid(log: LogReport) -> Overlay:
    return lay(log, None)


def test_a_log_without_a_version_is_known_as_rccls_and_agrees() -> None:
    """RCCL on two RX 7900 XTX, each behind the switch on its own board: PHB at 6 GB/s."""
    log = log_of("rx7900xtx-2")
    assert (log.versions.library, log.versions.version) == ("rccl", None)
    found = overlaid(log)
    assert found.prediction is not None
    assert found.prediction.library.name == "rccl"
    assert {(p.path, p.bandwidth_gbs, p.label) for p in found.prediction.pairs} == {
        ("PHB", 6.0, "P2P/IPC")
    }
    assert found.agreement.comparable
    assert not found.agreement.differing
    assert not log.unread
    assert not log.unknown


def test_a_ring_of_four_dies_goes_over_a_third_one_by_xgmi_since_2_30() -> None:
    """Four Vega 20, each wired to two others; one process. RCCL: XGMI at 24 GB/s for all pairs."""
    log = log_of("vega20-4")
    found = overlaid(log)
    assert found.prediction is not None
    assert found.agreement.library == "rccl-2.30.4"  # no line says so: its System block has devices
    assert found.agreement.comparable
    assert not found.agreement.differing
    assert len(found.agreement.pairs) == 12
    assert {(p.path, p.bandwidth_gbs, p.via) for p in found.prediction.pairs} == {
        ("XGMI", 24.0, None)
    }
    assert {pair.predicted for pair in found.agreement.pairs if pair.logged} == {
        ("P2P/direct pointer",)
    }
    older = lay(log, None, library="rccl-2.21.5").prediction
    assert older is not None
    assert {pair.path for pair in older.pairs} == {"XGMI", "PHB"}
    assert not log.unread
    assert not log.unknown


def test_a_warning_names_its_source_file_without_the_path_of_the_build() -> None:
    log = log_of("mi250x-4x2")
    assert log.versions.library == "rccl"
    places = {note.where for note in log.notes if note.level == "WARN"}
    assert {"init.cpp:122", "misc/socket.cpp:57", "proxy.cpp:912"} <= places
    assert {"rccl-iommu", "rccl-fine-grain", "peer-gone"} <= {
        finding.id for finding in explain(log)
    }
    assert settings(log) == {"NCCL_P2P_LEVEL": "XGMI"}


def settings(log: LogReport) -> dict[str, str]:
    return {variable.name: variable.value for variable in log.environment}


@pytest.mark.parametrize(
    ("name", "size"),
    share(
        [
            ("mi355x-8-topology.txt", SIZES[0]),
            ("rx7900xtx-2-topology.txt", SIZES[1]),
            ("mi300a-tpx-showtoponuma.txt", SIZES[0]),
            ("mi300a-tpx-showtoponuma.txt", SIZES[1]),
            ("780m-rocm-smi.json", SIZES[1]),
        ],
        2,
    ),
)
async def test_every_screen_bears_such_a_machine(name: str, size: tuple[int, int]) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        await give(pilot, report(name))
        for number, screen in enumerate(NAMES, start=1):
            await press(pilot, str(number))
            assert app_of(pilot).trouble == ""
            if screen != "flags":  # the catalogue explains NVIDIA's variables too
                assert "NVLink" not in picture(pilot), screen


@pytest.mark.parametrize("name", sorted(MESHES))
def test_a_mesh_is_one_island(name: str) -> None:
    machine = node(name).machine
    joined = {
        frozenset((gpu.address, link.remote_address)) for gpu in machine.gpus for link in gpu.xgmi
    }
    assert joined == {
        frozenset(pair) for pair in combinations([g.address for g in machine.gpus], 2)
    }


def test_the_tables_of_amd_smi_hide_no_other_output(tmp_path: Path) -> None:
    tables = (RECORDINGS / "amd-public" / "mi355x-8-topology.txt").read_text()
    cpus = (RECORDINGS / "pasted" / "epyc-lscpu.txt").read_text()
    alone = node("mi355x-8-topology.txt")
    for text in (f"{tables}\n{cpus}", f"hello\n{cpus}\n$ amd-smi topology\n{tables}"):
        file = tmp_path / "paste.txt"
        file.write_text(text)
        found = load([str(file)]).snapshot
        assert found.machine.host is not None
        assert found.machine.host.numa
        assert [gpu.address for gpu in found.machine.gpus] == [
            gpu.address for gpu in alone.machine.gpus
        ]
        assert found.machine.pairs == alone.machine.pairs
        assert not found.assumptions
