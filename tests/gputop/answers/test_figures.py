"""What people read of a run: tables within 80 columns, verdicts beside figures, causes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gputop.answers.figures import WIDTH, table
from gputop.answers.measured import MeasuredAnswer
from gputop.measuring.expected import Expectations, Expecting, main_figures
from gputop.printing.render import texts
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from gputop.topology.recorded.feeds import DemoFeed
from tests.support.runs import figures_text, run_of


def node() -> NodeSnapshot:
    return DemoFeed("hgx-h100-8").at(0)


def gpus(count: int) -> dict[str, str]:
    return {f"0000:{number + 16:02x}:00.0": f"GPU{number}" for number in range(count)}


def figure(quantity: str, value: float | None, **more: Any) -> Measurement:
    given: dict[str, Any] = {
        "probe": "p2p", "unit": "GB/s", "device_kind": "gpu", "method": "made/1",
        "engine": "copy engine", "bytes_per_copy": 512 << 20,
    }  # fmt: skip
    return Measurement(quantity=quantity, value=value, **(given | more))


def everything(names: dict[str, str], writes: float = 396.0) -> list[Measurement]:
    """Figures of every kind, for every GPU and pair."""
    found = []
    for src in names:
        for dst in names:
            if src != dst:
                ends = {"src": src, "dst": dst}
                found.append(figure("can_access", None, verdict="granted", **ends))
                found.append(figure("write_bandwidth", writes, **ends))
                found.append(figure("concurrent_bandwidth", 390.0, variant="ring shift", **ends))
                found.append(figure("write_sweep", 10.0, **{**ends, "bytes_per_copy": 4096}))
        found += [
            figure("h2d_bandwidth", 55.0, probe="host", src=src, variant=variant)
            for variant in ("pinned", "pageable", "pinned, both ways", "pinned, NUMA node 0")
        ]
        found += [
            figure(
                "gemm", 700.0 + shape, probe="gemm", unit="TFLOP/s", src=src,
                variant=f"bf16 M16384 K{8192 + shape} N1280 matmul",
                counted="2MNK floating point operations",
            )
            for shape in range(14)
        ]  # fmt: skip
        found.append(figure("train_step", 400.0, probe="train-step", unit="TFLOP/s", src=src,
                            variant="one GPU"))  # fmt: skip
    found.append(
        figure("first_use", 3.2, probe="launch", unit="s", variant="first matmul",
               details={"steady_us": 12.5})
    )  # fmt: skip
    found += [
        figure(
            operation, 300.0, probe="collectives", engine="NCCL", variant="out of place",
            bytes_per_copy=size, details={"ranks": len(names)},
        )
        for operation in ("all_reduce_busbw", "all_gather_busbw", "send_receive_busbw")
        for size in (1 << 10, 1 << 20, 1 << 30)
    ]  # fmt: skip
    found.append(figure("concurrent_total", 3000.0, variant="ring shift"))
    found.append(figure("something_new", 1.0, variant="x" * 60, src="0000:10:00.0"))
    return found


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_everything_fits_80_columns(count: int) -> None:
    names = gpus(count)
    text = figures_text(Expectations(tuple(everything(names))), names)
    assert max(len(line) for line in text.splitlines()) <= 80
    for word in ("55.0", "NUMA", "713", "all reduce", "1.0 GiB", "first matmul", "256,000 x"):
        assert word in text, word
    if count == 2:
        assert "bf16 M16384 K8192 N1280 matmul" in text
        assert "ring shift" in text
    if count == 16:
        assert "granted for all 240 pairs" in " ".join(text.split())


def test_a_wide_matrix_goes_on_below() -> None:
    block = table([f"GPU{n}" for n in range(30)], [["GPU0", *(str(n) for n in range(30))]])
    text = "\n".join(texts((block,), WIDTH))
    assert max(len(line) for line in text.splitlines()) <= 80
    assert text.count("GPU0") > 1
    assert all(f"GPU{n}" in text.split() for n in range(30))


def judged(writes: float) -> tuple[Expectations, dict[str, str]]:
    snapshot = node()
    names = {gpu.address: f"GPU{gpu.index}" for gpu in snapshot.machine.gpus}
    return Expecting(snapshot, names).of(everything(names, writes)), names


def test_a_low_figure_is_named_with_what_it_should_be() -> None:
    known, names = judged(150.0)
    assert known.low
    text = figures_text(known, names)
    assert "▼ low: write bandwidth, GPU0 -> GPU1" in text
    assert "▼ low; healthy is about" in text
    assert any(main.text.startswith("write bandwidth GPU") for main in known.main)
    assert "data sheet 900 both ways" in " ".join(text.split())
    assert any("All pairs are low" in pattern.text for pattern in known.patterns)
    assert max(len(line) for line in text.splitlines()) <= 80


def test_a_healthy_figure_is_not_low() -> None:
    known, names = judged(396.0)
    writes = [one for f, one in known.pairs() if f.quantity == "write_bandwidth" and one]
    assert {judgement.verdict for judgement in writes} == {"healthy"}
    assert "▼ low: write bandwidth" not in figures_text(known, names)


def test_the_document_says_what_was_expected() -> None:
    known, _ = judged(150.0)
    run = run_of("p2p", measurements=known.figures)
    answer = MeasuredAnswer.of(run, known)
    one = msgspec.to_builtins(answer.document())
    low = next(m for m in one["measurements"] if m["quantity"] == "write_bandwidth")
    assert set(low["expected"]) == {
        "verdict", "healthy", "low", "high", "unit", "basis", "source", "scaled", "share",
        "cause", "explained", "note",
    }  # fmt: skip
    assert low["expected"]["verdict"] == "low"
    assert low["expected"]["healthy"] > 300
    assert low["expected"]["source"]
    assert one["four_numbers"]
    assert answer.exit_code == 1
    wrong = figure("bytes_arrive", None, verdict="wrong-bytes")
    broken = run_of("p2p", measurements=(wrong,))
    assert MeasuredAnswer.of(broken, known).exit_code == 2
    assert MeasuredAnswer.of(run_of(status="died"), known).exit_code == 3
    assert MeasuredAnswer.of(run_of(status="skipped")).exit_code == 0


def test_the_self_test_is_not_judged() -> None:
    figures = [figure("write_bandwidth", 1.0, device_kind="cpu", src="cpu:0", dst="cpu:1")]
    known = Expecting(node(), {}).of(figures)
    assert known.judgements == ()
    assert not known.low
    assert known.pairs() == [(figures[0], None)]


def test_the_best_of_each_main_kind_is_reported() -> None:
    figures = [
        figure("write_bandwidth", 100.0, src="a", dst="b"),
        figure("write_bandwidth", 200.0, src="b", dst="a"),
        figure("h2d_bandwidth", 90.0, src="a", variant="pageable"),
        figure("h2d_bandwidth", 50.0, src="a", variant="pinned"),
        figure("all_reduce_busbw", 999.0, probe="nccl"),
    ]
    assert [main.value for main in main_figures(figures)] == [200.0, 50.0]


def test_hostile_words_stay_words() -> None:
    figures = [
        figure("something", 1.0, variant="\x1b[31m" * 9, unit="\x1b[2J", src="\x07"),
        figure("gemm", 1.0, variant="\x1b]0;x\x07", src="cpu:0"),
        figure("quantity\x1b[3m" + "x" * 300, 1e300),
        figure("write_bandwidth", None, verdict="\x1b[1m", src="a", dst="b", why_none="\x1b[5m"),
    ]
    assert "\x1b" not in figures_text(Expectations(tuple(figures)), {})
    assert "\x07" not in figures_text(Expectations(tuple(figures)), {})
    assert (
        max(len(line) for line in figures_text(Expectations(tuple(figures)), {}).splitlines()) <= 80
    )
