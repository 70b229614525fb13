"""Letters of topo -m: against nvidia-smi's own output, hand-written matrices and known rules."""

from __future__ import annotations

import json
from itertools import product

import pytest

from gputop.topology.model.machine import Fabric, Gpu, Machine, PciDevice, PciKind, ReportedRelation
from gputop.topology.model.record import NOT_ASKED, Gap
from gputop.topology.model.surroundings import RdmaDevice
from gputop.topology.sources.collect import merge_machine
from gputop.topology.sources.nvidia import nvml
from gputop.topology.wiring.relations import format_matrix, islands, matrix, relation
from tests.support.places import RECORDINGS
from tests.support.snapshots import gpu, gpus_of, hosted, link, node_of, pair, port, recorded_node

A, B = "0000:01:00.0", "0000:02:00.0"
VM = RECORDINGS / "hgx-h200-4gpu-vm"


def test_the_matrix_of_the_h200_machine_is_that_of_nvidia_smi_byte_for_byte() -> None:
    raw = json.loads((VM / "nvml.json").read_text())
    text = format_matrix(matrix(merge_machine([nvml.SOURCE.parse(raw)])))
    theirs = (
        (VM / "nvidia-smi-topo-m.txt").read_text().replace("\x1b[4m", "").replace("\x1b[0m", "")
    )
    assert text.split("\n\n")[0] == theirs.split("\n\n")[0]
    assert "\x1b" not in text


@pytest.mark.parametrize("name", ["two-socket-switches", "epyc-root-ports"])
def test_deep_trees_give_the_letters_that_were_written_by_hand(name: str) -> None:
    report = recorded_node(name)
    lines = (RECORDINGS / name / "relations.txt").read_text().splitlines()
    address = dict(item.split("=") for item in lines[0].split())
    wanted = {
        (row[0], column): letters
        for row in map(str.split, lines[1:])
        for column, letters in zip(address, row[1:], strict=True)
    }
    assert len(wanted) == len(address) ** 2
    found = {
        (a, b): relation(report.snapshot.machine, address[a], address[b]).code
        for a, b in product(address, address)
    }
    assert found == wanted
    labels = {row.label: row.address for row in report.matrix.rows}
    assert labels == address
    cells = {
        (row.label, label): cell.code
        for row in report.matrix.rows
        for label, cell in zip(report.matrix.labels, row.cells, strict=True)
    }
    assert cells == wanted


def tree(kinds: dict[str, tuple[str, str]], numa: int | None = 0) -> tuple[PciDevice, ...]:
    return tuple(port(at, parent, kind, numa) for at, (parent, kind) in kinds.items())


SWITCH = {
    "0000:00:01.0": ("pci0000:00", "root port"),
    "0000:10:00.0": ("0000:00:01.0", "switch upstream"),
    "0000:11:00.0": ("0000:10:00.0", "switch downstream"),
    "0000:11:01.0": ("0000:10:00.0", "switch downstream"),
}


def two(pci: tuple[PciDevice, ...], nodes: int = 1) -> Machine:
    return Machine(host=hosted(nodes), gpus=(gpu(0, A), gpu(1, B)), pci=pci)


def test_one_switch_is_pix_and_a_switch_below_a_switch_is_pxb() -> None:
    leaves = {A: ("0000:11:00.0", "gpu"), B: ("0000:11:01.0", "gpu")}
    assert relation(two(tree(SWITCH | leaves)), A, B).code == "PIX"
    nested = SWITCH | {
        "0000:20:00.0": ("0000:11:01.0", "switch upstream"),
        "0000:21:00.0": ("0000:20:00.0", "switch downstream"),
        A: ("0000:11:00.0", "gpu"),
        B: ("0000:21:00.0", "gpu"),
    }
    assert relation(two(tree(nested)), A, B).code == "PXB"


def test_two_functions_below_one_port_are_pix() -> None:
    below = {
        "0000:00:01.0": ("pci0000:00", "root port"),
        A: ("0000:00:01.0", "gpu"),
        B: ("0000:00:01.0", "gpu"),
    }
    assert relation(two(tree(below)), A, B).code == "PIX"


def test_devices_on_one_root_complex_are_phb_also_without_bridges() -> None:
    flat = {A: ("pci0000:00", "gpu"), B: ("pci0000:00", "gpu")}
    found = relation(two(tree(flat)), A, B)
    assert found.code == "PHB"
    assert "pci0000:00" in found.evidence[0]


def apart(left: int | None, right: int | None, nodes: int) -> Machine:
    pci = (port(A, "pci0000:00", "gpu", left), port(B, "pci0000:80", "gpu", right))
    return two(pci, nodes)


@pytest.mark.parametrize(
    ("left", "right", "nodes", "letters"),
    [
        (0, 0, 2, "NODE"),
        (0, 1, 2, "SYS"),
        (None, None, 1, "NODE"),
        (None, None, 2, "?"),
        (0, None, 2, "?"),
    ],
)
def test_across_root_complexes_numa_decides(
    left: int | None, right: int | None, nodes: int, letters: str
) -> None:
    found = relation(apart(left, right, nodes), A, B)
    assert found.code == letters
    assert found.basis == ("assumed" if letters == "?" else "read")


def test_a_device_outside_the_tree_is_unknown_not_near() -> None:
    machine = Machine(gpus=(gpu(0, A), gpu(1, B)))
    assert relation(machine, A, B).code == "?"
    assert "?    = " in format_matrix(matrix(machine))


def test_the_drivers_word_comes_before_the_tree() -> None:
    machine = Machine(
        host=hosted(1),
        gpus=(gpu(0, A), gpu(1, B)),
        pci=tree({A: ("pci0000:00", "gpu"), B: ("pci0000:00", "gpu")}),
        pairs=(pair(A, B, ancestor="node"),),
    )
    found = relation(machine, A, B)
    assert (found.code, found.evidence) == ("NODE", ("NVML common ancestor: node",))
    assert relation(machine, B, A).code == "NODE"


def test_links_that_are_down_do_not_count_and_the_poorer_end_decides() -> None:
    left = tuple(link(n, None, kind="nvswitch", active=n != 3) for n in range(18))
    right = tuple(link(n, None, kind="nvswitch", active=n > 3) for n in range(18))
    machine = Machine(gpus=(gpu(0, A, left), gpu(1, B, right)))
    assert relation(machine, A, B).code == "NV14"


def test_direct_links_count_to_their_own_end_only() -> None:
    third = "0000:03:00.0"
    links = (link(0, B), link(1, B), link(2, third))
    machine = Machine(gpus=(gpu(0, A, links), gpu(1, B), gpu(2, third)))
    assert relation(machine, A, B).code == "NV2"
    assert relation(machine, A, third).code == "NV1"
    assert relation(machine, B, third).code == "?"


def test_links_join_over_switches_whatever_the_clique() -> None:
    """NCCL and `nvidia-smi topo -m` go by the links: a clique counts between hosts alone."""
    links = tuple(link(n, None, kind="nvswitch") for n in range(4))

    def with_clique(clique: int) -> Fabric:
        return Fabric(state="completed", cluster_uuid="x", clique_id=clique)

    machine = Machine(
        gpus=(gpu(0, A, links, fabric=with_clique(1)), gpu(1, B, links, fabric=with_clique(2)))
    )
    assert relation(machine, A, B).code == "NV4"


def test_a_tree_alone_says_nothing_about_nvlink() -> None:
    pci = tree({A: ("pci0000:00", "gpu"), B: ("pci0000:00", "gpu")})
    found = relation(Machine(gpus=(gpu(0, A, uuid=None), gpu(1, B)), pci=pci), A, B)
    assert (found.code, found.basis) == ("PHB", "assumed")
    assert "no driver told of NVLinks" in found.evidence[-1]


def test_somebody_elses_matrix_counts_where_nothing_was_read() -> None:
    machine = Machine(
        gpus=(gpu(0, "topo:GPU0"), gpu(1, "topo:GPU1")),
        relations=(ReportedRelation(a="topo:GPU0", b="topo:GPU1", code="PXB"),),
    )
    found = relation(machine, "topo:GPU0", "topo:GPU1")
    assert (found.code, found.evidence) == ("PXB", ("nvidia-smi topo -m: PXB",))


def test_nics_come_in_the_order_of_their_numbers_with_a_legend() -> None:
    names = ["mlx5_10", "mlx5_2", "mlx5_bond_0"]
    rdma = tuple(
        RdmaDevice(name=name, address=f"0000:0{n}:00.0") for n, name in enumerate(names, start=1)
    )
    found = matrix(Machine(rdma=rdma))
    assert found.nics == (("NIC0", "mlx5_2"), ("NIC1", "mlx5_10"), ("NIC2", "mlx5_bond_0"))
    text = format_matrix(found)
    assert "NIC Legend:\n\n  NIC0: mlx5_2\n" in text
    assert text.splitlines()[1].endswith("\t\t\t\t")


def test_islands_are_groups_that_links_join() -> None:
    c, d, e = "0000:03:00.0", "0000:04:00.0", "0000:05:00.0"
    machine = Machine(
        gpus=(
            gpu(0, A, (link(0, B),)),
            gpu(1, B, (link(0, A), link(1, c))),
            gpu(2, c),
            gpu(3, d, (link(0, e),)),
            gpu(4, e),
            gpu(5, "0000:06:00.0"),
        )
    )
    assert islands(matrix(machine)) == ((A, B, c), (d, e))


def test_no_device_gives_an_empty_matrix() -> None:
    text = format_matrix(node_of(Machine()).matrix)
    assert text.startswith("\tCPU Affinity\t")
    assert gpus_of(node_of(Machine())) == []


def test_affinity_falls_back_to_sysfs_and_says_so() -> None:
    device = PciDevice(
        address=A, parent="pci0000:00", kind=PciKind.GPU, local_cpus="0-7", numa_node=1
    )
    row = matrix(Machine(gpus=(gpu(0, A, numa_node=1),), pci=(device,))).rows[0]
    assert (row.cpu_affinity, row.numa_affinity, row.affinity_basis) == ("0-7", "1", "sysfs")


def test_a_gpu_whose_links_were_not_asked_for_yet_has_no_letters() -> None:
    gaps = (Gap("nvlinks", NOT_ASKED),)
    gpus = tuple(
        Gpu(address=f"0000:0{n}:00.0", vendor="nvidia", uuid=f"GPU-{n}", gaps=gaps) for n in (1, 2)
    )
    devices = tuple(
        PciDevice(address=gpu.address, parent="pci0000:00", kind=PciKind.GPU) for gpu in gpus
    )
    found = relation(Machine(gpus=gpus, pci=devices), gpus[0].address, gpus[1].address)
    assert (found.code, found.basis) == ("?", "assumed")


def test_escape_sequences_of_a_file_do_not_reach_the_terminal() -> None:
    evil = "\x1b]0;evil\x07"
    machine = Machine(
        gpus=(gpu(0, A, cpu_affinity=evil), gpu(1, B)),
        rdma=(RdmaDevice(name=f"mlx5_0{evil}\nGPU9", address="0000:09:00.0"),),
        relations=(ReportedRelation(a=A, b=B, code=f"SYS{evil}"),),
    )
    text = format_matrix(matrix(machine))
    assert all(char.isprintable() or char in "\n\t" for char in text)
    assert "\nGPU9" not in text
