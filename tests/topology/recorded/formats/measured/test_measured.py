"""What people paste of programs that measure: figures, held against the expectation."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.rules.measured.pair_bandwidth import PAIRS
from gputop.topology.diagnosis.rules.measured.results import COLLECTIVE_FAILS, LAUNCH
from gputop.topology.expectation.judge import judge
from gputop.topology.model import quantities
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.recorded.load import LoadError, load
from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "pasted"


def snapshot(name: str | Path) -> NodeSnapshot:
    return load([str(FOLDER / name)]).snapshot


def figures(node: NodeSnapshot, quantity: str) -> list[Measurement]:
    return [figure for figure in node.measurements if figure.quantity == quantity]


def written(tmp_path: Path, text: str) -> NodeSnapshot:
    path = tmp_path / "paste.txt"
    path.write_text(text)
    return snapshot(path)


def test_a_run_of_nccl_tests() -> None:
    node = snapshot("a100-2-nccl-tests.txt")
    assert [(g.address, g.name) for g in node.machine.gpus] == [
        ("0000:07:00.0", "NVIDIA A100-SXM4-80GB"),
        ("0000:0f:00.0", "NVIDIA A100-SXM4-80GB"),
    ]
    found = figures(node, quantities.ALL_REDUCE)
    assert [(f.bytes_per_copy, f.value, f.low, f.verdict) for f in found] == [
        (8388608, 20.45, 20.41, None),
        (134217728, 21.0, 20.96, None),
        (2147483648, 21.05, 21.01, "wrong-data"),
    ]
    assert found[0].details["ranks"] == 2
    assert {f.source for f in found} == {"pasted output of nccl-tests"}


def test_wrong_results_of_nccl_tests_are_found() -> None:
    (finding,) = COLLECTIVE_FAILS.answer(Case(Node(snapshot("a100-2-nccl-tests.txt")))) or ()
    assert finding.severity == "broken"
    assert "3 wrong values at 2147483648 bytes" in finding.evidence[0].value
    assert finding.evidence[0].source == "pasted output of nccl-tests"


def test_a_low_busbw_is_held_against_the_model(tmp_path: Path) -> None:
    text = (
        (FOLDER / "a100-2-nccl-tests.txt").read_text().replace("A100-SXM4-80GB", "H100 80GB HBM3")
    )
    ranks = "".join(
        f"#  Rank  {n} Group  0 Pid  {n} on node-a device  {n} [0x{n + 16}] NVIDIA H100 80GB HBM3\n"
        for n in range(2, 8)
    )
    head, _, table = text.partition("node-a:12574")
    node = written(tmp_path, head + ranks + "node-a:12574" + table)
    assert len(node.machine.gpus) == 8
    small, medium, wrong = judge(node, figures(node, quantities.ALL_REDUCE))
    assert (small.verdict, medium.verdict, wrong.verdict) == ("no reference", "low", "no reference")
    assert medium.band is not None
    assert medium.band.healthy > 250


def test_ranks_of_two_hosts_are_not_held_against_one_node() -> None:
    node = snapshot("two-hosts-nccl-tests.txt")
    (figure,) = figures(node, quantities.ALL_GATHER)
    assert (figure.details["hosts"], figure.details["ranks"]) == (2, 4)
    assert len(node.machine.gpus) == 2
    (judgement,) = judge(node, [figure])
    assert judgement.band is None


@pytest.mark.parametrize(
    ("change", "quantity"),
    [
        (lambda text: text.replace("all_reduce_perf", "x"), quantities.ALL_REDUCE),
        (
            lambda text: text.replace("all_reduce_perf", "x")
            .replace("20.45   20.45", "20.45   10.22")
            .replace("21.00   21.00", "21.00   10.50")
            .replace("21.05   21.05", "21.05   10.52"),
            quantities.REDUCE_SCATTER,
        ),
        (lambda text: text.replace("all_reduce", "reduce_scatter"), quantities.REDUCE_SCATTER),
        (lambda text: "".join(f"[1,0]<stdout>:{li}\n" for li in text.split("\n")),
         quantities.ALL_REDUCE),
        (lambda text: "".join(f"> {li}\n" for li in text.split("\n")), quantities.ALL_REDUCE),
    ],
    ids=["factor", "other-factor", "name", "mpirun", "quoted"],
)  # fmt: skip
def test_the_collective_of_a_table(tmp_path: Path, change: object, quantity: str) -> None:
    assert callable(change)
    node = written(tmp_path, change((FOLDER / "a100-2-nccl-tests.txt").read_text()))
    assert {f.quantity for f in node.measurements} == {quantity}
    assert len(node.machine.gpus) == 2


def test_processes_that_do_not_know_of_each_other() -> None:
    node = snapshot("no-mpi-nccl-tests.txt")
    assert not figures(node, quantities.ALL_REDUCE)  # a busbw of 0 says nothing of the links
    (finding,) = LAUNCH.answer(Case(Node(node))) or ()
    assert finding.title == "2 processes of the test each ran alone"


def test_ranks_that_share_a_gpu_and_their_twin(tmp_path: Path) -> None:
    text = (FOLDER / "a100-2-nccl-tests.txt").read_text()
    same = text.replace("device  1 [0x0f]", "device  0 [0x07]")
    (finding,) = LAUNCH.answer(Case(Node(written(tmp_path, same)))) or ()
    assert finding.evidence[0].value == "device 0 of node-a"
    assert LAUNCH.answer(Case(Node(written(tmp_path, text)))) == ()


def test_a_command_alone_says_what_to_paste(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"nccl-tests proves nothing here: .* whole output"):
        written(tmp_path, "$ ./build/all_reduce_perf -b 8 -e 128M -f 2 -g 8\n# Using devices\n")


def test_buses_that_repeat_name_no_gpu(tmp_path: Path) -> None:
    text = (FOLDER / "a100-2-nccl-tests.txt").read_text()
    node = written(tmp_path, text.replace("[0x07]", "[0x00]").replace("[0x0f]", "[0x00]"))
    assert [g.address for g in node.machine.gpus] == ["topo:GPU0", "topo:GPU1"]


def test_p2p_bandwidth(tmp_path: Path) -> None:
    path = tmp_path / "paste.txt"
    matrix = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-7\nGPU1\tNV18\t X \t0-7\n\n"
    path.write_text(matrix + (FOLDER / "h100-2-p2p.txt").read_text())
    node = snapshot(path)
    assert [g.address for g in node.machine.gpus] == ["0000:1b:00.0", "0000:43:00.0"]
    assert {f.verdict for f in figures(node, quantities.CAN_ACCESS)} == {"granted"}
    assert [f.value for f in figures(node, quantities.WRITE)] == [371.02, 120.5]
    assert [f.value for f in figures(node, quantities.TOGETHER)] == [741.2, 741.2]
    assert [f.value for f in figures(node, quantities.STAGED)] == [37.19, 37.19]
    assert [f.value for f in figures(node, quantities.LATENCY)] == [2.56, 2.52]
    low = [j.verdict for j in judge(node, figures(node, quantities.WRITE))]
    assert low == ["healthy", "low"]
    (finding,) = PAIRS.answer(Case(Node(node).decide())) or ()
    assert "120" in finding.impact


def test_a_copy_without_access_is_staged(tmp_path: Path) -> None:
    text = (FOLDER / "h100-2-p2p.txt").read_text()
    refused = text.replace("CAN Access", "CANNOT Access").replace("1     1\n", "1     0\n", 1)
    node = written(tmp_path, refused)
    assert not figures(node, quantities.WRITE)
    assert {f.verdict for f in figures(node, quantities.CAN_ACCESS)} == {"not-granted"}
    table = text[text.index("Unidirectional P2P=Enabled") : text.index("Bidirectional P2P=Dis")]
    alone = written(tmp_path, table)  # whether it is P2P at all is not said
    (one, other) = judge(alone, figures(alone, quantities.WRITE))
    assert (one.verdict, other.verdict) == ("no reference", "no reference")


def test_nvbandwidth() -> None:
    node = snapshot("h800-2-nvbandwidth.txt")
    assert [(g.address, g.name) for g in node.machine.gpus] == [
        ("topo:GPU0", "NVIDIA H800"),
        ("topo:GPU1", "NVIDIA H800"),
    ]
    assert node.machine.software is not None
    assert node.machine.software.nvidia_driver == "525.105.17"
    assert [f.value for f in figures(node, quantities.HOST_TO_DEVICE)] == [55.28, 25.3]
    assert [f.value for f in figures(node, quantities.READ)] == [172.16, 171.99]
    assert [(f.src, f.dst, f.value) for f in figures(node, quantities.WRITE)] == [
        ("topo:GPU0", "topo:GPU1", 176.08),
        ("topo:GPU1", "topo:GPU0", 176.14),
    ]
    assert [f.value for f in figures(node, quantities.BOTH_WAYS)] == [170.54, 170.54]


def test_tables_of_both_directions_and_their_sum(tmp_path: Path) -> None:
    tables = "".join(
        f"memcpy CE GPU(row) <-> GPU(column) {name} bandwidth (GB/s)\n          0         1\n"
        f"0       N/A    {a}\n1    {b}       N/A\n\n"
        for name, a, b in (("{0}1", 190.5, 191.5), ("{0}2", 180.5, 181.5), ("Total", 371.0, 373.0))
    )
    read = "Running device_to_device_bidirectional_memcpy_read_ce.\n" + tables.format("Read")
    node = written(tmp_path, read)
    assert [(f.src, f.dst, f.value) for f in figures(node, quantities.BOTH_WAYS)] == [
        ("topo:GPU1", "topo:GPU0", 190.5),
        ("topo:GPU0", "topo:GPU1", 191.5),
    ]
    assert [f.value for f in figures(node, quantities.TOGETHER)] == [371.0, 373.0]
    write = "Running device_to_device_bidirectional_memcpy_write_ce.\n" + tables.format("Write")
    node = written(tmp_path, read + write.replace("190.5", "200.5"))
    assert [(f.src, f.value) for f in figures(node, quantities.BOTH_WAYS)] == [
        ("topo:GPU0", 200.5),
        ("topo:GPU1", 191.5),
    ]


def test_figures_and_addresses_of_two_texts_are_joined(tmp_path: Path) -> None:
    kind = "3D controller: NVIDIA Corporation GH100"
    listed = f"18:00.0 {kind}\n2a:00.0 {kind}\n"
    node = written(tmp_path, listed + (FOLDER / "h800-2-nvbandwidth.txt").read_text())
    assert {f.src for f in node.measurements} == {"0000:18:00.0", "0000:2a:00.0"}


def test_tests_that_cannot_be_compared_say_what_to_run(tmp_path: Path) -> None:
    text = (
        "Running device_to_device_latency_sm.\nDevice to Device Latency SM GPU(row) (ns)\n"
        "          0         1\n0    772.58    768.63\n"
    )
    with pytest.raises(LoadError, match="run nvbandwidth -t device_to_device_memcpy_write_ce"):
        written(tmp_path, text)


def test_a_row_that_is_cut_is_named(tmp_path: Path) -> None:
    text = (FOLDER / "h100-2-p2p.txt").read_text().replace("120.50 2494.76", "120.50")
    with pytest.raises(LoadError, match=r"paste\.txt:\d+: broken p2pBandwidthLatencyTest: row 1"):
        written(tmp_path, text)
