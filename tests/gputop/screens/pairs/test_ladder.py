"""The five questions of P2P, each answered by itself."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.screens.pairs.ladder import ladder_lines, rung_line
from gputop.topology.explain.ladder import ASSUMED, LESS, NO, OPEN, YES, ladder
from gputop.topology.model.machine import GpuPair
from gputop.topology.model.snapshot import DataVerdict, Measurement
from gputop.widgets.spans import text_of, width_of
from tests.support.app import demo_report, gpu, report_of
from tests.support.expectation_made import collective

A, B, C = (gpu(number) for number in range(3))


def fact(quantity: str, verdict: str, src: str | None = A.address, dst: str | None = B.address,
         probe: str = "p2p", **more: Any) -> Measurement:  # fmt: skip
    return Measurement(
        probe=probe,
        quantity=quantity,
        src=src,
        dst=dst,
        verdict=DataVerdict(verdict),
        device_kind="gpu",
        **more,
    )


def states(*figures: Measurement, **parts: Any) -> list[tuple[str, str]]:
    report = report_of((A, B, C), measurements=figures, **parts)
    return [(rung.state, rung.answer) for rung in ladder(report.node, A.address, B.address)]


def test_nothing_asked_is_nothing_known() -> None:
    could, *rest = states()
    assert could == (YES, "NV6")
    untested = (OPEN, "not tested yet")
    assert rest == [(OPEN, "not asked"), (OPEN, "not known"), untested, untested]


def test_all_well() -> None:
    pairs = (GpuPair(src=A.address, dst=B.address, p2p_read="ok", p2p_write="ok"),)
    found = states(
        fact("bytes_arrive", "arrived"),
        fact("collective_finishes", "finished", None, None, "nccl"),
        fact("send_receive", "verified", probe="nccl"),
        pairs=pairs,
    )
    assert [state for state, _ in found] == [YES, YES, OPEN, YES, YES]


def test_what_nobody_asked_is_assumed_and_has_no_tick() -> None:
    report = demo_report("mi300x-8")
    src, dst = (one.address for one in report.snapshot.machine.gpus[:2])
    rungs = ladder(report.node, src, dst)
    assert [rung.state for rung in rungs] == [YES, YES, ASSUMED, OPEN, OPEN]
    assert rungs[2].answer == "P2P, if HIP grants it: not asked"
    assert "RCCL ~" in text_of(rung_line(report, src, dst, True))


def test_a_link_that_is_down_takes_the_tick_from_the_path() -> None:
    report = demo_report("sick-h100-8")
    gpus = [one.address for one in report.snapshot.machine.gpus]
    assert ladder(report.node, gpus[0], gpus[3])[0].state == LESS
    assert ladder(report.node, gpus[0], gpus[1])[0].state == YES


@pytest.mark.parametrize(
    ("figure", "rung", "answer"),
    [
        (fact("can_access", "not-granted"), 1, "not by CUDA"),
        (fact("bytes_arrive", "wrong-bytes"), 3, "wrong bytes"),
        (fact("write_bandwidth", "wrong-data", value=300.0), 3, "wrong bytes"),
        (fact("bytes_arrive", "failed", why_none="CUDA error 719"), 3, "failed"),
        (fact("collective_finishes", "timed-out", None, None, "nccl"), 4, "timed out"),
        (fact("send_receive", "failed", probe="nccl"), 4, "failed"),
    ],
)
def test_each_rung_says_no_by_itself(figure: Measurement, rung: int, answer: str) -> None:
    found = states(figure)
    assert found[rung] == (NO, answer)
    assert [state for index, (state, _) in enumerate(found) if index != rung].count(NO) == 0


def test_the_way_back_counts() -> None:
    back = fact("bytes_arrive", "wrong-bytes", B.address, A.address)
    assert states(fact("bytes_arrive", "arrived"), back)[3] == (NO, "back: wrong bytes")


def test_the_self_test_and_other_gpus_prove_nothing() -> None:
    from msgspec.structs import replace

    arrived = fact("bytes_arrive", "arrived")
    assert states(replace(arrived, device_kind="cpu"))[3][0] == OPEN
    others = (
        fact("collective_finishes", "finished", None, None, "nccl"),
        fact("send_receive", "verified", B.address, C.address, "nccl"),
    )
    assert states(*others)[4] == (OPEN, "not tested yet")
    assert states(others[0])[4] == (YES, "finishes")


def test_an_all_reduce_that_was_measured_is_an_all_reduce_that_ran() -> None:
    def ran(**facts: Any) -> tuple[str, str]:
        return states(collective(354.0, device_kind="gpu", **facts))[-1]

    assert ran() == ran(ranks=2) == (YES, "finishes")
    untested = (OPEN, "not tested yet")
    assert ran(ranks=[A.address, C.address]) == untested, "of other GPUs"
    assert ran(verdict=DataVerdict.WRONG_DATA) == untested
    cpu = collective(354.0, device_kind="cpu")
    assert states(cpu)[-1] == untested


def test_mig_and_refusals_are_reported_with_a_reason() -> None:
    parted = gpu(0, mig_enabled=True)
    report = report_of((parted, B))
    first = ladder(report.node, parted.address, B.address)[0]
    assert (first.state, first.answer) == (NO, "MIG is on")
    pairs = (GpuPair(src=A.address, dst=B.address, p2p_read="gpu not supported"),)
    report = report_of((A, B), pairs=pairs)
    lines = [text_of(line) for line in ladder_lines(report, A.address, B.address, 60)]
    assert "✗ gpu not supported" in lines[1]
    assert "by design of the model" in " ".join(" ".join(lines).split())


def test_nics_have_no_ladder() -> None:
    report = demo_report("hgx-h100-8")
    gpu_ = report.snapshot.machine.gpus[0].address
    nic = report.snapshot.machine.rdma[0].address or ""
    assert ladder(report.node, gpu_, nic) == ()
    assert ladder(report.node, gpu_, gpu_) == ()
    assert ladder_lines(report, gpu_, nic, 60) == ()


@pytest.mark.parametrize("width", [20, 44, 59, 79, 120])
def test_it_fits(width: int) -> None:
    report = report_of((A, B), measurements=(fact("bytes_arrive", "wrong-bytes", value=None),))
    lines = ladder_lines(report, A.address, B.address, width)
    assert all(width_of(line) <= max(width, 20) for line in lines)
    if width >= 59:
        assert "4 data       ✗ wrong bytes" in text_of(lines[3])


def test_what_precedes_a_no_is_no_good_news() -> None:
    report = demo_report("pcie-l40s-8")
    one, other = (report.snapshot.machine.gpus[number].address for number in (0, 5))
    line = rung_line(report, one, other, False)
    assert text_of(line).split("▸")[0].split() == [
        "path", "✓", "driver", "✓", "NCCL", "○", "data", "–", "all-reduce", "–"
    ]  # fmt: skip
    assert not [ink for text, ink in line if ink == "good"]
    assert [ink for text, ink in line if text == "○"] == ["muted"]
