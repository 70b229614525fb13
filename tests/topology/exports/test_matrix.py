"""AMD's tables of a node, cell by cell what AMD's own tools print.

`MI300X` is quoted: `amd-smi topology` of eight MI300X, CHANGELOG.md of ROCm/amdsmi, section "for
ROCm 6.1.0" (tables WEIGHT, HOPS, LINK TYPE and NUMA BW; KFD of that node states 50000 MB/s). The
layout is that of `rocm-smi --showtopo` of eight MI308X in the documentation of modelscope/ms-swift
(AMD GPU support, section 1.2), and of four MI210 in ARCHER2's user guide.
MI250X, eight GCDs: bandwidths are quoted from `rocm-smi --shownodesbw` in AMD's ROCm 5.0 release
notes, "Display XGMI Bandwidth Between Nodes". Of their weights the first row is quoted, as
`rocm-smi --showtopo` of a node with an EPYC 7A53 prints it in openmm/openmm#3940; the others follow
from the kernel (15 for each hop) and the bandwidths (0-0 = no link), types and hops from AMD's
answer in ROCm/rocm-systems#5763 (xGMI and 1 for every pair).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from gputop.commands.topo import command
from gputop.topology.exports.matrix import format_showtopo, has_tables
from gputop.topology.model.machine import Gpu, GpuPair, Machine
from gputop.topology.sources.collect import merge_machine
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.kfd import kfd
from gputop.topology.wiring.graph import build_graph
from gputop.topology.wiring.paths import path_between
from gputop.topology.wiring.relations import matrix
from gputop.topology.wiring.wires import WireKind
from tests.support import kfd_trees
from tests.topology.sources.kfd.test_kfd import recorded

HEADS = "       GPU0         GPU1         GPU2         GPU3"
QUOTED = """\
============================ ROCm System Management Interface ============================
================================ Weight between two GPUs =================================
       GPU0         GPU1         GPU2         GPU3         GPU4         GPU5         GPU6         GPU7
GPU0   0            15           15           15           15           15           15           15
GPU1   15           0            15           15           15           15           15           15
GPU2   15           15           0            15           15           15           15           15
GPU3   15           15           15           0            15           15           15           15
GPU4   15           15           15           15           0            15           15           15
GPU5   15           15           15           15           15           0            15           15
GPU6   15           15           15           15           15           15           0            15
GPU7   15           15           15           15           15           15           15           0

================================= Hops between two GPUs ==================================
       GPU0         GPU1         GPU2         GPU3         GPU4         GPU5         GPU6         GPU7
GPU0   0            1            1            1            1            1            1            1
GPU1   1            0            1            1            1            1            1            1
GPU2   1            1            0            1            1            1            1            1
GPU3   1            1            1            0            1            1            1            1
GPU4   1            1            1            1            0            1            1            1
GPU5   1            1            1            1            1            0            1            1
GPU6   1            1            1            1            1            1            0            1
GPU7   1            1            1            1            1            1            1            0

=============================== Link Type between two GPUs ===============================
       GPU0         GPU1         GPU2         GPU3         GPU4         GPU5         GPU6         GPU7
GPU0   0            XGMI         XGMI         XGMI         XGMI         XGMI         XGMI         XGMI
GPU1   XGMI         0            XGMI         XGMI         XGMI         XGMI         XGMI         XGMI
GPU2   XGMI         XGMI         0            XGMI         XGMI         XGMI         XGMI         XGMI
GPU3   XGMI         XGMI         XGMI         0            XGMI         XGMI         XGMI         XGMI
GPU4   XGMI         XGMI         XGMI         XGMI         0            XGMI         XGMI         XGMI
GPU5   XGMI         XGMI         XGMI         XGMI         XGMI         0            XGMI         XGMI
GPU6   XGMI         XGMI         XGMI         XGMI         XGMI         XGMI         0            XGMI
GPU7   XGMI         XGMI         XGMI         XGMI         XGMI         XGMI         XGMI         0

======================================= Numa Nodes =======================================
"""  # noqa: E501
BANDWIDTHS = """\
GPU0 N/A 50000-200000 50000-50000 0-0 0-0 0-0 50000-100000 0-0
GPU1 50000-200000 N/A 0-0 50000-50000 0-0 50000-50000 0-0 0-0
GPU2 50000-50000 0-0 N/A 50000-200000 50000-100000 0-0 0-0 0-0
GPU3 0-0 50000-50000 50000-200000 N/A 0-0 0-0 0-0 50000-50000
GPU4 0-0 0-0 50000-100000 0-0 N/A 50000-200000 50000-50000 0-0
GPU5 0-0 50000-50000 0-0 0-0 50000-200000 N/A 0-0 50000-50000
GPU6 50000-100000 0-0 0-0 0-0 50000-50000 0-0 N/A 50000-200000
GPU7 0-0 0-0 0-0 50000-50000 0-0 50000-50000 50000-200000 N/A
"""
MI300X_BANDWIDTHS = "\n".join(
    f"GPU{a} " + " ".join("N/A" if a == b else "50000-50000" for b in range(8)) for a in range(8)
)


def of_folder(root: Path) -> Machine:
    """Make the machine that a copied /sys shows."""
    return merge_machine([kfd.SOURCE.parse(kfd.read(FolderTree(root)))])


def numbers(text: str, title: str) -> list[list[str]]:
    """Read the cells of one table back."""
    lines = text.split(f" {title} ")[1].splitlines()[2:]
    rows = [line.split() for line in lines]
    return [row[1:] for row in rows[: next(n for n, row in enumerate(rows) if not row)]]


def bandwidths(text: str) -> str:
    """Read the table of bandwidths back, one blank between cells as AMD's page has it."""
    lines = text.split(" Bandwidth ")[1].splitlines()[2:]
    rows = lines[: lines.index("Format: min-max; Units: mps")]
    return "\n".join(" ".join(row.split()) for row in rows)


def test_eight_mi300x_as_rocm_smi_prints_them(tmp_path: Path) -> None:
    kfd_trees.mi300x(tmp_path)
    text = format_showtopo(of_folder(tmp_path))
    assert text.startswith(QUOTED)
    numa = text.removeprefix(QUOTED).splitlines()
    assert numa[0] == "GPU[0]\t\t: (Topology) Numa Node: N/A"
    assert f"{' End of ROCm SMI Log ':=^90}" in numa
    assert bandwidths(text) == MI300X_BANDWIDTHS


def test_numa_nodes_are_printed_where_they_are_known(tmp_path: Path) -> None:
    gpus = tuple(Gpu(address=f"0000:0{n}:00.0", vendor="amd", numa_node=n) for n in (1, 2))
    text = format_showtopo(Machine(gpus=gpus))
    assert "GPU[1]\t\t: (Topology) Numa Node: 2\nGPU[1]\t\t: (Topology) Numa Affinity: 2\n" in text


def test_eight_gcds_of_mi250x(tmp_path: Path) -> None:
    kfd_trees.mi250x(tmp_path)
    machine = of_folder(tmp_path)
    text = format_showtopo(machine)
    for a, row in enumerate(numbers(text, "Weight between two GPUs")):
        assert row == [
            "0" if a == b else "15" if (min(a, b), max(a, b)) in kfd_trees.GCD_LINKS else "30"
            for b in range(8)
        ]
    for a, row in enumerate(numbers(text, "Hops between two GPUs")):
        assert row == ["0" if a == b else "1" for b in range(8)]
    for a, row in enumerate(numbers(text, "Link Type between two GPUs")):
        assert row == ["0" if a == b else "XGMI" for b in range(8)]
    assert bandwidths(text) == BANDWIDTHS.strip()
    # What the column of hops hides is said below.
    assert "GPU0-GPU3 2" in text
    assert "GPU0-GPU1 2" not in text


def test_two_hives_of_mi210_over_pcie() -> None:
    """Weights of the recorded node's own p2p_links: 20 + 32 + 20 between sockets."""
    text = format_showtopo(merge_machine([recorded("mi210-8")]))
    weight = numbers(text, "Weight between two GPUs")
    assert weight[0] == ["0", "15", "15", "15", "72", "72", "72", "72"]
    assert numbers(text, "Hops between two GPUs")[0] == ["0", *["1"] * 3, *["3"] * 4]
    assert numbers(text, "Link Type between two GPUs")[4] == [*["PCIE"] * 4, "0", *["XGMI"] * 3]


def test_what_no_driver_reports_is_not_made_up() -> None:
    gpus = tuple(Gpu(address=f"0000:0{n}:00.0", vendor="amd", index=n) for n in range(3))
    pair = GpuPair(src="0000:00:00.0", dst="0000:01:00.0", link_type="pcie", weight=40, hops=2)
    machine = Machine(gpus=gpus, pairs=(pair,))
    assert has_tables(machine)
    text = format_showtopo(machine)
    assert numbers(text, "Weight between two GPUs")[0] == ["0", "40", "N/A"]
    assert numbers(text, "Weight between two GPUs")[1] == ["40", "0", "N/A"]
    assert numbers(text, "Link Type between two GPUs")[2] == ["N/A", "N/A", "0"]
    assert not has_tables(Machine(gpus=gpus))
    mixed = (*gpus, Gpu(address="0000:09:00.0", vendor="nvidia"))
    assert not has_tables(Machine(gpus=mixed, pairs=(pair,)))


@pytest.mark.parametrize("make", [kfd_trees.mi300x, kfd_trees.mi250x])
def test_the_command_prints_them_for_a_copied_sys(tmp_path: Path, make: object) -> None:
    make(tmp_path)  # type: ignore[operator]
    result = CliRunner().invoke(command, ["--from", str(tmp_path), "--format", "matrix"])
    assert result.exit_code == 0
    assert result.stdout == format_showtopo(of_folder(tmp_path))


def test_a_mesh_is_drawn_with_the_rate_of_the_data_sheet_where_kfd_has_a_constant(
    tmp_path: Path,
) -> None:
    kfd_trees.mi300x(tmp_path)
    machine = of_folder(tmp_path)
    graph = build_graph(machine)
    wires = [e["wire"] for _, _, e in graph.edges(data=True) if e["wire"].kind is WireKind.XGMI]
    assert len(wires) == 28
    assert {(wire.payload_gbs, wire.count, wire.assumed) for wire in wires} == {(64.0, 1, True)}
    assert "64.0 GB/s a link is the data sheet's" in wires[0].source


def test_what_kfd_states_is_read_where_it_can_be_true(tmp_path: Path) -> None:
    kfd_trees.mi300x(tmp_path, mbs=64_000)
    graph = build_graph(of_folder(tmp_path))
    wire = graph.edges["0000:0c:00.0", "0000:22:00.0"]["wire"]
    assert (wire.payload_gbs, wire.count, wire.assumed) == (64.0, 1, False)


def test_gcds_have_one_two_or_four_links(tmp_path: Path) -> None:
    kfd_trees.mi250x(tmp_path)
    machine = of_folder(tmp_path)
    graph = build_graph(machine)
    addresses = [gpu.address for gpu in machine.gpus]
    for (a, b), links in kfd_trees.GCD_LINKS.items():
        wire = graph.edges[addresses[a], addresses[b]]["wire"]
        assert (wire.count, wire.payload_gbs) == (links, 50.0 * links)
    assert sum(1 for *_, e in graph.edges(data=True) if e["wire"].kind is WireKind.XGMI) == 12
    # Over another GPU nobody draws a wire, but the bytes stay in the hive.
    path = path_between(graph, addresses[0], addresses[3])
    assert path is not None
    assert (path.kind, path.relayed) == ("xgmi", True)


def test_parts_of_one_package_are_joined_inside_it_and_share_its_link_to_others() -> None:
    machine = merge_machine([recorded("mi300x-8-cpx")])
    graph = build_graph(machine)
    inside = graph.edges["0000:05:00.0", "0000:05:00.3"]["wire"]
    assert (inside.kind, inside.inside, inside.payload_gbs) == ("xgmi", True, None)
    assert inside.name() == "inside a GPU package"
    outside = graph.edges["0000:05:00.3", "0000:27:00.5"]["wire"]
    assert (outside.count, outside.payload_gbs, outside.assumed) == (1, 64.0, True)
    assert "all their parts share" in outside.source
    rows = matrix(machine).rows
    assert len(rows) == 63
    assert rows[0].cells[1].code == "XGMI"


def test_the_demo_of_mi250x_prints_the_same_bandwidths() -> None:
    result = CliRunner().invoke(command, ["--demo", "mi250x-8"])
    assert bandwidths(result.stdout) == BANDWIDTHS.strip()


@pytest.mark.parametrize("source", ["demo", "kernel"])
def test_the_weights_of_mi250x_are_those_of_a_real_blade(source: str, tmp_path: Path) -> None:
    given = ["--demo", "mi250x-8"]
    if source == "kernel":
        kfd_trees.mi250x(tmp_path)
        given = ["--from", str(tmp_path)]
    result = CliRunner().invoke(command, [*given, "--format", "matrix"])
    weights = result.stdout.partition("Weight between two GPUs")[2].splitlines()
    quoted = "GPU0   0            15           15           30           30           30           "
    assert weights[2].rstrip() == f"{quoted}15           30"
