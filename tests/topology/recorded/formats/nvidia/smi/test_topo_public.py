"""Matrices of `nvidia-smi topo -m` as their owners pasted them in public, and what follows."""

from __future__ import annotations

import bz2
import codecs
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.model.format import FormatError
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.node import Node
from gputop.topology.recorded.formats.nvidia.smi import topo as smi_topo
from gputop.topology.recorded.load import LoadError, load
from gputop.topology.sources.collect import merge
from gputop.topology.wiring.relations import format_matrix, matrix
from gputop.topology.wiring.reported import capability_of_links, reported_nvlinks, to_switches
from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "nvidia-public"
PAIR = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
PCIE = PAIR + "GPU0\t X \tPHB\t0-63\t0\t\tN/A\nGPU1\tPHB\t X \t0-63\t0\t\tN/A\n"
LEGEND = "\nLegend:\n\n  X    = Self\n  PIX  = one bridge\n  NV#  = Connection of # NVLinks\n"
GRANTS = " \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n\nLegend:\n\n  OK   = Status Ok\n"


def snapshot(name: str) -> NodeSnapshot:
    return load([str(FOLDER / name)]).snapshot


def of_text(text: str) -> NodeSnapshot:
    part = smi_topo.FORMAT.parse(text.encode(), FOLDER)
    return merge([part], taken_at=0.0, source=("text",), gputop="")


def all_to_all(gpus: int, links: int) -> str:
    """A matrix in which all GPUs have so many NVLinks to each other."""
    names = [f"GPU{n}" for n in range(gpus)]
    rows = ["\t".join(["", *names, "CPU Affinity"])]
    for row in names:
        cells = [" X " if row == column else f"NV{links}" for column in names]
        rows.append("\t".join([row, *cells, "0-63"]))
    return "\n".join(rows) + "\n"


def test_a_page_that_dropped_the_escape_byte() -> None:
    node = snapshot("b300-8-topo.txt")
    assert len(node.machine.gpus) == 8
    assert [nic.name for nic in node.machine.rdma][-1] == "mlx5_bond_0"
    printed = (FOLDER / "b300-8-topo.txt").read_text().splitlines()
    ours = format_matrix(matrix(node.machine)).splitlines()
    assert ours[1:18] == printed[2:19]  # cell for cell, the NICs too
    assert "  NIC0: mlx5_10" in ours


def test_a_head_without_its_tabs() -> None:
    node = snapshot("p100-8-topo.txt")
    assert [gpu.index for gpu in node.machine.gpus] == list(range(8))
    assert {nic.name for nic in node.machine.rdma} == {f"mlx5_{n}" for n in range(4)}
    found = matrix(node.machine)
    cell = found.cell("topo:GPU0", "mlx5_1")
    assert cell is not None
    assert cell.code == "PHB"


def test_numa_nodes_of_a_grace_are_printed_as_ranges() -> None:
    node = snapshot("gb200-4-topo.txt")
    first, *_, last = node.machine.gpus
    assert first.memory_affinity == (0, *range(3, 10), *range(11, 18))
    assert (first.gpu_numa_id, last.gpu_numa_id) == (2, 26)
    rows = matrix(node.machine).rows
    assert [row.numa_affinity for row in rows[:4]] == ["0,3-9,11-17"] * 2 + ["1,19-25,27-33"] * 2
    # GPUs 0 and 1 are on one socket, 2 and 3 on the other.
    assert "NUMA" not in " ".join(predict(node).assumptions)


def test_the_matrix_of_pcie_alone_proves_no_missing_nvlink() -> None:
    node = snapshot("h100-8-topo-mp.txt")
    cell = matrix(node.machine).cell("topo:GPU0", "topo:GPU7")
    assert cell is not None
    assert (cell.code, cell.basis) == ("SYS", "assumed")
    assert {pair.nvlinks_reported for pair in node.machine.pairs} == {None}
    said = [text for text in predict(node).assumptions if "-mp" in text]
    assert said == ["nvidia-smi topo -mp shows PCIe alone: NVLinks are not in it"]


def test_a_cpu_list_that_is_cut_short_is_not_taken_for_whole() -> None:
    gpu = snapshot("h100-8-topo-mp.txt").machine.gpus[0]
    assert gpu.cpu_affinity is None
    assert gpu.why("cpu_affinity") == "nvidia-smi prints the first 6 pieces of it: 0,2,4,6,8,10"


@pytest.mark.parametrize("before", ["\t", "    ", "  \t"])
def test_a_matrix_that_is_pushed_in_keeps_its_columns(before: str) -> None:
    node = of_text("".join(f"{before}{line}\n" for line in PCIE.splitlines()))
    for gpu in node.machine.gpus:
        assert (gpu.cpu_affinity, gpu.memory_affinity, gpu.gpu_numa_id) == ("0-63", (0,), None)


def test_a_cpu_list_of_more_pieces_was_not_cut_there() -> None:
    gpu = of_text(PCIE.replace("0-63", "0,2,4,6,8,10,12,14")).machine.gpus[0]
    assert gpu.cpu_affinity == "0,2,4,6,8,10,12,14"


@pytest.mark.parametrize(
    "text",
    [PCIE + LEGEND + "\n" + GRANTS, GRANTS + "\n" + PCIE, PCIE + "\n" + PCIE,
     PCIE.replace("\tCPU", "\tNIC0\tCPU").replace("\t0-63", "\tPIX\t0-63") + "\nGPU0\tX\tOK\n",
     "\n".join(f"{line} | |" for line in PCIE.splitlines())],
    ids=["grants behind it", "grants before it", "twice", "rows of GPUs alone", "pipes"],
)  # fmt: skip
def test_what_stands_beside_the_matrix_is_passed_over(text: str) -> None:
    node = of_text(text)
    assert {pair.ancestor for pair in node.machine.pairs} == {"hostbridge"}
    assert len(node.machine.gpus) == 2


def test_an_empty_field_shifts_no_other() -> None:
    tabs = of_text(PCIE.replace("\t0-63\t", "\t\t"))
    assert {(gpu.cpu_affinity, gpu.memory_affinity) for gpu in tabs.machine.gpus} == {(None, (0,))}
    blanks = of_text(PCIE.replace("\t0-63\t0\t\t", "      0       ").replace("\t", "    "))
    assert {gpu.memory_affinity for gpu in blanks.machine.gpus} == {None}


@pytest.mark.parametrize("name", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_what_windows_writes(tmp_path: Path, name: str) -> None:
    file = tmp_path / "topo.txt"
    mark = codecs.BOM_UTF16_BE if name == "utf-16-be" else b""
    file.write_bytes(mark + PCIE.replace("\n", "\r\n").encode(name))
    assert len(load([str(file)]).snapshot.machine.gpus) == 2
    file.write_bytes(mark + "<nvidia_smi_log><gpu id='0:1:0.0'/></nvidia_smi_log>".encode(name))
    assert len(load([str(file)]).snapshot.machine.gpus) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# Collective test starting: all_reduce_perf\n", "whole output"),
        ("a log line\n[0] NCCL INFO comm 0x1 rank 0\n", "gputop log"),
    ],
)
def test_other_outputs_are_named_with_what_to_bring_instead(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "output.txt"
    file.write_text(text)
    with pytest.raises(LoadError, match=words) as caught:
        load([str(file)])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("gpus", "links", "switches", "sm"),
    [(16, 6, True, 70), (8, 12, True, 80), (8, 18, True, 90), (2, 18, True, 90),
     (4, 4, False, 80), (2, 4, False, None), (2, 12, False, None), (4, 2, False, 70)],
)  # fmt: skip
def test_so_many_links_say_where_they_lead_and_how_old_the_gpu_is(
    gpus: int, links: int, switches: bool, sm: int | None
) -> None:
    counts = reported_nvlinks(of_text(all_to_all(gpus, links)).machine)
    assert to_switches(counts) is switches
    concluded = capability_of_links(counts)
    assert (concluded[0] if concluded is not None else None) == sm


def test_no_multicast_is_promised_to_sixteen_v100() -> None:
    prediction = predict(of_text(all_to_all(16, 6)))
    assert prediction.graphs.nvls is None or prediction.graphs.nvls.channels == 0
    assert any("7.0 is assumed, as 6 NVLinks" in text for text in prediction.assumptions)
    old = predict(snapshot("p100-8-topo.txt"))
    assert any("6.0 is assumed, as 4 single NVLinks" in text for text in old.assumptions)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*topo*.txt")), ids=lambda path: path.stem)
def test_no_public_matrix_raises_an_alarm(path: Path) -> None:
    found = diagnose(Case(Node(load([str(path)]).snapshot))).findings
    alarms = {finding.id for finding in found if finding.severity not in ("notice", "by-design")}
    assert alarms == {"evidence-missing"}


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress])
def test_another_packing_is_named(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    file = tmp_path / "sys.tar"
    file.write_bytes(pack(b"sys/" * 1000))
    with pytest.raises(LoadError, match="packed with "):
        load([str(file)])


def test_two_ports_of_one_nic_are_the_same_device() -> None:
    text = (
        "\tGPU0\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\n"
        "GPU0\t X \tPIX\tPIX\t0-31\t0\n"
        "NIC0\tPIX\t X \tX\t\t\nNIC1\tPIX\tX\t X \t\t\n"
    )
    rows = matrix(of_text(text).machine).rows
    assert [cell.code for cell in rows[1].cells] == ["PIX", "X", "X"]
    for wrong in (
        text.replace("PIX\tX\t X", "X\tX\t X"),
        text.replace("NIC0\tPIX\t X ", "NIC0\tPIX\tPIX"),
    ):
        with pytest.raises(FormatError, match="cell"):
            of_text(wrong)
