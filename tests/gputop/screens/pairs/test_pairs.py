"""The Pairs screen: measures, cursor, explanation, and a probe that runs."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.app import GpuTop
from gputop.messages import ProbeMeasured, SuiteChanged
from gputop.topology.model.machine import GpuPair
from gputop.topology.model.quantities import WRITE
from gputop.topology.model.snapshot import DataVerdict, Measurement
from gputop.widgets.measure import Value, heats
from gputop.widgets.measures import measured_cells, measures, visible
from gputop.widgets.pair_matrix import PairMatrix
from tests.support.app import (
    StepFeed,
    app_of,
    demo_report,
    give,
    gpu,
    of_a_file,
    picture,
    press,
    report_of,
    rounds,
    settle,
    snapshot_of,
    text,
)
from tests.support.measured import with_figures
from tests.support.runs import run_of, suite_of

A, B = gpu(0).address, gpu(1).address
BY_ID = {measure.id: measure for measure in measures()}


def figure(quantity: str, src: str, dst: str, **fields: Any) -> Measurement:
    return Measurement(probe="p2p", quantity=quantity, src=src, dst=dst, **fields)


def cells(measure: str, **parts: Any) -> dict[tuple[str, str], Value]:
    return BY_ID[measure].values(report_of((gpu(0), gpu(1)), **parts), (A, B))


def test_grant_spells_what_the_driver_said() -> None:
    pairs = (
        GpuPair(src=A, dst=B, p2p_read="ok", p2p_write="ok", p2p_nvlink="not supported"),
        GpuPair(src=B, dst=A),
    )
    found = cells("grant", pairs=pairs)
    assert found[A, B].word == "rw-??"
    assert found[B, A].word == "–"


def test_measured_words_and_numbers() -> None:
    found = cells(
        WRITE,
        measurements=(
            figure("write_bandwidth", A, B, value=396.1, unit="GB/s"),
            figure("can_access", B, A, verdict=DataVerdict.NOT_GRANTED),
        ),
    )
    assert (found[A, B].number, found[A, B].word) == (396.1, "396")
    assert found[B, A] == Value(word="no P2P", ink="warn")


def test_the_speed_of_wrong_data_is_no_figure() -> None:
    wrong = figure("write_bandwidth", A, B, value=396.1, unit="GB/s", verdict="wrong-data")
    for measure in (WRITE, "share"):
        assert cells(measure, measurements=(wrong,))[A, B] == Value(word="WRONG", ink="bad")


def test_figures_of_the_self_test_are_not_shown_as_gpu_figures() -> None:
    found = cells(
        WRITE, measurements=(figure("write_bandwidth", A, B, value=9.0, device_kind="cpu"),)
    )
    assert found[A, B].number is None


def test_share_needs_an_expected_figure() -> None:
    measurements = (figure("write_bandwidth", A, B, value=75.0),)
    found = cells("share", measurements=measurements)
    expected = cells("expected")[A, B].number
    assert expected is not None
    assert found[A, B].word == f"{100 * 75.0 / expected:.0f}"
    assert found[B, A].word == "–"


def test_heat_is_for_what_falls_behind() -> None:
    values = {("a", "b"): Value(number=100.0), ("b", "a"): Value(number=10.0)}
    assert heats(values, less_is_better=False) == {("a", "b"): "heat-0", ("b", "a"): "heat-5"}
    assert heats(values, less_is_better=True) == {("a", "b"): "heat-5", ("b", "a"): "heat-0"}
    assert heats({("a", "b"): Value(number=0.0)}, less_is_better=False) == {("a", "b"): "heat-5"}


def test_heat_is_the_share_of_what_is_healthy_and_of_the_peers() -> None:
    values = {
        ("a", "b"): Value(number=380.0),
        ("b", "a"): Value(number=338.0),
        ("a", "c"): Value(number=24.0),
        ("c", "a"): Value(number=12.0),
    }
    healthy = {("a", "b"): 390.0, ("b", "a"): 390.0, ("a", "c"): 25.0}
    inks = heats(values, less_is_better=False, healthy=healthy)
    assert inks["a", "b"] == "heat-0", "97 % of what is healthy, and the best of its peers"
    assert inks["b", "a"] == "heat-1", "89 % of its peer"
    assert inks["a", "c"] == "heat-0", "a slower kind of link is not hot for that"
    assert inks["c", "a"] == "heat-0", "nothing to compare it with but itself"


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_measures_are_stepped_through_and_named(size: tuple[int, int]) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        report = demo_report("dgx-1v")
        own = report.words
        await give(pilot, report)
        await press(pilot, "3", "m")
        shown = visible(report)
        assert [measure.id for measure in shown] == [
            "relation", "grant", "expected", "nccl-path", "transport"
        ]  # fmt: skip
        assert "Measured  nothing yet" in text(pilot, "#measure")
        for measure in [*shown, shown[0]]:
            assert own.fill(measure.title) in text(pilot, "#measure")
            assert own.fill(measure.unit).split()[0] in text(pilot, "#measure")
            assert app_of(pilot).trouble == ""
            await press(pilot, "m")
        await press(pilot, "M")
        assert shown[0].title in text(pilot, "#measure")


async def test_cursor_steps_over_the_diagonal_and_explains() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, demo_report("dgx-1v"))
        await press(pilot, "3")
        matrix = pilot.app.screen.query_one("#matrix", PairMatrix)
        assert matrix.places == (0, 5)
        await press(pilot, *["left"] * 5)
        assert matrix.places == (0, 1)
        await press(pilot, "down")
        assert matrix.places == (2, 1)
        await press(pilot, "up", "up")
        assert matrix.places == (0, 1)
        await press(pilot, "down", "right")
        assert matrix.places == (2, 3)
        assert "GPU2 → GPU3" in text(pilot, "#answer")
        await press(pilot, "y")
        assert "NV2" in pilot.app.clipboard


async def test_nics_have_rows_for_the_relation_only() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "3", "m")
        assert "NIC" in text(pilot, "#matrix")
        await press(pilot, "m")
        assert "NIC" not in text(pilot, "#matrix")


async def test_sixteen_gpus_scroll_with_heads_that_stay() -> None:
    gpus = tuple(gpu(number) for number in range(16))
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, report_of(gpus))
        await press(pilot, "3", "m", "m")
        await pilot.press(*["down"] * 16, *["right"] * 16)
        await settle(pilot)
        matrix = pilot.app.screen.query_one("#matrix", PairMatrix)
        assert matrix.places == (15, 14)
        drawn = picture(pilot)
        assert "GPU15" in drawn
        assert "↓ to →" in drawn


@pytest.mark.parametrize("count", [0, 1])
async def test_without_a_pair_it_says_so(count: int) -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, report_of(tuple(gpu(number) for number in range(count))))
        await press(pilot, "3")
        assert "needs two GPUs" in picture(pilot)
        await press(pilot, "down", "w", "y", "m")
        assert app_of(pilot).trouble == ""


class FakeProbing:
    """Keeps what was asked of it."""

    def __init__(self, post: Any) -> None:
        self.post = post
        self.running = False
        self.started: list[tuple[str, tuple[str, ...], bool]] = []
        self.cancelled = self.closed = 0

    def start_suite(
        self, names: Any, addresses: tuple[str, ...], force: bool, level: str, snapshot: Any
    ) -> None:
        self.running = True
        self.started.append((names[0], addresses, force))

    def cancel(self) -> None:
        self.cancelled += 1

    def close(self) -> None:
        self.closed += 1


async def test_probe_runs_streams_and_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.live.probing.Probing", FakeProbing)
    feed = StepFeed(snapshot_of((gpu(0), gpu(1))))
    async with GpuTop(feed, 0.05).run_test(size=(160, 50)) as pilot:
        app = app_of(pilot)
        async for _ in rounds(pilot):
            if app.report is not None:
                break
        await press(pilot, "3", "p", "enter")
        probing: Any = app.probing._thread
        assert probing.started == [("p2p", (A, B), False)]
        run = run_of("p2p", "running", done=1, total=2, what="[b]GPU0[/b] to GPU1")
        app.post_message(SuiteChanged(suite_of(run)))
        app.post_message(ProbeMeasured(figure("write_bandwidth", A, B, value=123.0)))
        await settle(pilot)
        assert "1/2" in text(pilot, "#status")
        assert "[b]GPU0[/b] to GPU1" in text(pilot, "#status")
        async for _ in rounds(pilot):
            if "123" in text(pilot, "#matrix"):
                break
        assert "123" in text(pilot, "#matrix")
        await press(pilot, "a")
        assert len(probing.started) == 1
        await press(pilot, "escape")
        assert probing.cancelled == 1
        probing.running = False
        app.post_message(SuiteChanged(suite_of(run_of("p2p", "cancelled", "cancelled by you"))))
        await settle(pilot)
        assert "cancelled by you" in text(pilot, "#status")
        await press(pilot, "escape")
        assert text(pilot, "#status").strip() == ""
    assert probing.closed == 1


async def test_busy_refusal_names_the_key_that_forces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.live.probing.Probing", FakeProbing)
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        app = app_of(pilot)
        await give(pilot, report_of((gpu(0), gpu(1))))
        await press(pilot, "p", "enter")
        probing: Any = app.probing._thread
        probing.running = False
        refused = run_of("p2p", "refused", "GPU0 is busy: pid 7")
        app.post_message(SuiteChanged(suite_of(refused, forcible=True)))
        await settle(pilot)
        assert "GPU0 is busy: pid 7" in text(pilot, "#status")
        assert "P forces it" in text(pilot, "#status")
        await press(pilot, "P")
        assert probing.started[-1] == ("p2p", (), True)


async def test_files_are_not_measured() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, of_a_file(demo_report("hgx-h100-8")))
        await press(pilot, "p")
        assert app_of(pilot).probe is None
        assert app_of(pilot).probing._thread is None


async def test_a_refusal_that_force_cannot_help_offers_no_force() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, report_of((gpu(0), gpu(1))))
        refused = run_of("p2p", "refused", "p2p needs 2 GPUs, and 1 was chosen.")
        pilot.app.post_message(SuiteChanged(suite_of(refused)))
        await settle(pilot)
        assert "needs 2 GPUs" in picture(pilot)
        assert "forces it" not in picture(pilot)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_the_pattern_is_reported_beside_every_measure(size: tuple[int, int]) -> None:
    healthy = demo_report("hgx-h100-8")
    addresses = [gpu.address for gpu in healthy.snapshot.machine.gpus]
    figures = [
        figure(
            "write_bandwidth", src, dst, unit="GB/s", device_kind="gpu", engine="copy engine",
            value=150.0 if addresses[3] in (src, dst) else 380.0,
        )
        for src in addresses for dst in addresses if src != dst
    ]  # fmt: skip
    report = with_figures(healthy, *figures)
    async with GpuTop().run_test(size=size) as pilot:
        await give(pilot, report)
        await press(pilot, "3")
        assert "to and from GPU3" in text(pilot, "#pattern")
        assert "to and from GPU3" not in text(pilot, "#steps")
        assert "GPU3" in text(pilot, "#answer").splitlines()[1], "the worst pair comes first"
        assert "▼" in text(pilot, "#answer").splitlines()[1]
        # The relation was measured by nobody, but the pair is.
        await press(pilot, "M")
        shown = " ".join(text(pilot, "#steps").split())
        assert "to and from GPU3" not in text(pilot, "#pattern")
        if size[0] > 110:
            assert shown.count("Everything to and from GPU3 is low") == 1


def test_a_judged_figure_has_the_ink_of_its_verdict_and_a_sick_one_its_sign() -> None:
    values = {("a", "b"): Value(number=1.0, ink="warn reverse"), ("b", "a"): Value(number=2.0)}
    assert heats(values, less_is_better=False)["a", "b"] == "warn reverse"
    report = demo_report("sick-h100-8")
    a, b, *_, c = (gpu.address for gpu in report.snapshot.machine.gpus)
    figures = (
        Measurement(
            probe="p2p",
            quantity=WRITE,
            value=value,
            unit="GB/s",
            src=a,
            dst=dst,
            bytes_per_copy=1 << 30,
        )
        for value, dst in ((380.0, b), (90.0, c))
    )
    report = with_figures(report, *figures)
    for signs, healthy in ((False, "380"), (True, "380 ✓")):
        cells = measured_cells(WRITE, signs=signs)(report, (a, b, c))
        assert (cells[a, b].word, cells[a, b].ink) == (healthy, "heat-0 good")
        assert (cells[a, c].word, cells[a, c].ink) == ("90.0 ▼", "bad reverse")
