"""amd-smi and rocm-smi as text: tables of pairs, lines of cards."""

from __future__ import annotations

import json
from pathlib import Path

from gputop.topology.recorded.formats.amd import amd_smi_text, rocm_smi_text
from gputop.topology.recorded.load import load
from tests.support.command import gputop
from tests.topology.recorded.formats.amd.printed import MESH, MI300X, MI300X_7, peers, read


def test_the_tables_of_the_change_log() -> None:
    part = read(amd_smi_text.FORMAT, (MI300X / "topology.txt").read_text())
    assert [gpu.address for gpu in part.gpus] == MESH
    assert len(part.pairs) == 56
    assert {(p.link_type, p.hops, p.weight, p.p2p_read) for p in part.pairs} == {
        ("xgmi", 1, 15, "ok")
    }
    (link, *_) = part.gpus[0].xgmi
    # 50000-50000: one link at what the driver assumes for all models, which is no rate.
    assert (link.links, link.bandwidth_min_gbs, link.raw_gbs) == (1, 50.0, None)
    assert part.pairs[0].why("p2p_dma") == "not in this output of amd-smi"


def showtopo(weight: int, hops: int, kind: str) -> str:
    """`rocm-smi --showtopo` of four GPUs, as ROCm/rocm_smi_lib issue 108 shows it."""
    tables = (
        ("Weight between two GPUs", weight),
        ("Hops between two GPUs", hops),
        ("Link Type between two GPUs", kind),
    )
    text = f"\n\n{'=' * 23} ROCm System Management Interface {'=' * 23}\n"
    for title, cell in tables:
        text += (
            f"{'=' * 27} {title} {'=' * 28}\n       GPU0         GPU1         GPU2         GPU3\n"
        )
        for row in range(4):
            cells = ["0" if row == column else str(cell) for column in range(4)]
            text += f"GPU{row}   " + "".join(word.ljust(13) for word in cells) + "\n"
        text += "\n"
    text += f"{'=' * 34} Numa Nodes {'=' * 34}\n"
    for row in range(4):
        text += f"GPU[{row}]\t\t: (Topology) Numa Node: {row // 2}\n"
        text += f"GPU[{row}]\t\t: (Topology) Numa Affinity: -1\n"
    return text + f"{'=' * 29} End of ROCm SMI Log {'=' * 30}\n"


def test_showtopo_as_text() -> None:
    part = read(rocm_smi_text.FORMAT, showtopo(52, 3, "PCIE"))
    assert [(gpu.address, gpu.index, gpu.numa_node) for gpu in part.gpus] == [
        (f"topo:AMD{n}", n, n // 2) for n in range(4)
    ]
    assert {(p.link_type, p.hops, p.weight) for p in part.pairs} == {("pcie", 3, 52)}
    assert len(part.pairs) == 12
    assert not any(gpu.xgmi for gpu in part.gpus)
    mesh = read(rocm_smi_text.FORMAT, showtopo(15, 1, "XGMI"))
    assert [len(gpu.xgmi) for gpu in mesh.gpus] == [3] * 4


def test_a_text_without_addresses_finds_its_cards(tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_text(showtopo(15, 1, "XGMI"))
    bus = "".join(f"GPU[{n}]\t\t: PCI Bus: 0000:{n + 1:X}3:00.0\n" for n in range(4))
    banner = "======= ROCm System Management Interface =======\n"
    (tmp_path / "bus.txt").write_text(banner + bus)
    (tmp_path / "topo-m.txt").write_text(
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\t0\t0\nGPU1\tNV4\t X \t0\t0\n"
    )
    machine = load([str(tmp_path)]).snapshot.machine
    assert [(gpu.vendor, gpu.address) for gpu in machine.gpus] == [
        ("amd", "0000:13:00.0"), ("amd", "0000:23:00.0"), ("amd", "0000:33:00.0"),
        ("amd", "0000:43:00.0"), ("nvidia", "topo:GPU0"), ("nvidia", "topo:GPU1"),
    ]  # fmt: skip
    assert peers(machine.gpus[0]) == ["0000:23:00.0", "0000:33:00.0", "0000:43:00.0"]
    assert machine.pair("0000:13:00.0", "0000:43:00.0") is not None
    assert machine.pair("topo:GPU0", "topo:GPU1") is not None


def test_a_node_with_gpus_of_two_vendors() -> None:
    own = str(MI300X_7.parent / "hgx-h200-4gpu-vm")
    machine = load([own, str(MI300X_7)]).snapshot.machine
    assert [(gpu.vendor, gpu.index) for gpu in machine.gpus] == [
        *(("nvidia", n) for n in range(4)), *(("amd", n) for n in range(8)),
    ]  # fmt: skip
    # Both count from 0: the pairs and links of one vendor never end at a GPU of the other.
    vendors = {gpu.address: gpu.vendor for gpu in machine.gpus}
    assert all(vendors[pair.src] == vendors[pair.dst] for pair in machine.pairs)
    assert [len(gpu.xgmi) for gpu in machine.gpus] == [0] * 4 + [7] * 8
    checked = gputop("check", "--json", "--from", own, "--from", str(MI300X_7))
    found = {row["id"] for row in json.loads(checked.stdout)["findings"]}
    assert {"xgmi-link-down", "pcie-width"} <= found
    assert "nvlink-missing" not in found  # AMD has none to miss
