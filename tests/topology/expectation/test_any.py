"""Whatever is measured: a verdict of four words, and never an exception."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.expectation.four_numbers import four_numbers
from gputop.topology.expectation.judge import Judge
from gputop.topology.expectation.judgement import WORDS
from gputop.topology.expectation.patterns import patterns
from gputop.topology.model.machine import Machine
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from tests.support.expectation_made import addresses, demo, h200

NODES: dict[str, NodeSnapshot] = {
    "h200": h200(),
    "bare": NodeSnapshot(taken_at=0.0, machine=Machine()),
    **{name: demo(name) for name in ("sick-h100-8", "mi300x-8", "pcie-l40s-8", "dgx-1v")},
}
JUDGES = {name: Judge(snapshot) for name, snapshot in NODES.items()}
ENDS = sorted({key for snapshot in NODES.values() for key in addresses(snapshot)})
QUANTITIES = (
    "write_bandwidth", "read_bandwidth", "kernel_write_bandwidth", "kernel_read_bandwidth",
    "both_ways_bandwidth", "together_bandwidth", "write_sweep", "concurrent_bandwidth",
    "concurrent_total", "staged_bandwidth", "kernel_latency", "latency", "h2d_bandwidth",
    "d2h_bandwidth", "memory_copy", "memory_read", "memory_write", "memory_triad", "gemm",
    "all_reduce_busbw", "all_gather_busbw", "reduce_scatter_busbw", "all_to_all_busbw",
    "broadcast_busbw", "send_receive_busbw", "train_step", "first_use", "can_access", "odd",
)  # fmt: skip
VARIANTS = (
    "pinned", "pageable", "pinned, NUMA node 0", "pinned, NUMA node 99999", "ring shift",
    "all to one (x)", "bf16 M8192 K8192 N8192 matmul", "fp8 M1 K1 N1 scaled_mm", "M K N",
    "out of place", "tf32 M999999999 K999999999 N999999999 matmul",
)  # fmt: skip
scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)
)
details = st.dictionaries(
    st.sampled_from(
        ["m", "k", "n", "dtype", "throttle", "pcie_generation", "pcie_width", "ranks", "devices",
         "gpus", "shared", "forced"]
    ),
    st.one_of(scalars, st.integers(-3, 20), st.lists(st.one_of(scalars, st.sampled_from(ENDS)))),
)  # fmt: skip
key = st.one_of(st.none(), st.sampled_from(ENDS), st.just("cpu:0"), st.text(max_size=12))
measurements = st.builds(
    Measurement,
    probe=st.just("made"),
    quantity=st.sampled_from(QUANTITIES),
    src=key,
    dst=key,
    value=st.one_of(st.none(), st.floats(), st.floats(0.1, 5000.0)),
    unit=st.sampled_from(["GB/s", "TFLOP/s", "us", "s", "", None]),
    bytes_per_copy=st.one_of(st.none(), st.integers(-1, 1 << 40)),
    engine=st.one_of(st.none(), st.sampled_from(["copy engine", "staged"])),
    verdict=st.one_of(st.none(), st.sampled_from(["verified", "wrong-data"])),
    device_kind=st.sampled_from(["gpu", "cpu", None]),
    variant=st.one_of(st.none(), st.sampled_from(VARIANTS), st.text(max_size=12)),
    counted=st.one_of(st.none(), st.text(max_size=12), st.just("bytes copied, once")),
    details=details,
)


@given(name=st.sampled_from(sorted(NODES)), figures=st.lists(measurements, max_size=12))
def test_every_figure_gets_one_of_four_words(name: str, figures: list[Measurement]) -> None:
    judge = JUDGES[name]
    found = judge.judge(figures)
    assert len(found) == len(figures)
    for item, judgement in zip(figures, found, strict=True):
        assert judgement.verdict in WORDS
        if judgement.band is None:
            assert judgement.verdict == "no reference"
            assert judgement.note
        elif judgement.band.basis == "estimate" and judgement.verdict != "no reference":
            assert judgement.verdict == "low"
            assert judgement.cause
        if judgement.explained:
            assert judgement.cause
        if judgement.verdict == "no reference" and item.value is None:
            assert judgement.share is None
        msgspec.json.encode(judgement)
        numbers = four_numbers(NODES[name], item, judge)
        assert numbers is None or numbers.line.startswith("data sheet ")
    for pattern in patterns(figures, {}, NODES[name], judgements=found):
        assert pattern.text.endswith(".")


@given(
    figures=st.lists(measurements, max_size=20),
    variables=st.dictionaries(
        st.sampled_from(["NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_ALGO", "NCCL_TOPO_FILE", "X"]),
        st.one_of(st.sampled_from(["0", "1", "LOC", "Ring", ""]), st.text(max_size=6)),
        max_size=3,
    ),
)
def test_any_variables_are_borne(figures: list[Measurement], variables: dict[str, str]) -> None:
    given_ = [
        msgspec.structs.replace(item, details={**item.details, "variables": variables})
        for item in figures
    ]
    assert {judgement.verdict for judgement in JUDGES["h200"].judge(given_)} <= set(WORDS)
