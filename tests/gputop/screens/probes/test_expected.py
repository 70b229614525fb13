"""Before a probe ran, its screen shows what a healthy node like this would give."""

from __future__ import annotations

from gputop.app import GpuTop
from gputop.measuring.judged import Judged
from gputop.screens.probes.sweeps import sweeps
from gputop.simulating.probes import expected_figures
from tests.gputop.screens.probes.shown import show
from tests.support.app import app_of, demo_report, press, text


async def test_bands_and_the_expected_curve_fill_the_room() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await show(pilot, demo_report("sick-h100-8"))
        said = text(pilot, "#probe-figures")
        assert "nothing measured yet" in said
        assert "write, one way" in said
        assert "380 (323–437) GB/s" in said
        scale = next(line for line in said.splitlines() if line.startswith(" expected"))
        assert scale.split()[:4] == ["expected", "0", "861", "GB/s"]
        ends = [line.index("┤") for line in said.splitlines() if "├" in line and "┤" in line]
        assert len(set(ends)) > 1
        assert "in range is not yet healthy" in said
        assert "typical" in said
        assert "expected" in text(pilot, "#probe-legend")
        assert app_of(pilot).trouble == ""
        await press(pilot, "l", "h")
        assert "level normal" in text(pilot, "#probe-list")


def test_what_is_expected_has_no_fault_and_no_noise() -> None:
    sick, well = (demo_report(name) for name in ("sick-h100-8", "hgx-h100-8"))
    for probe in ("p2p", "host", "collectives"):
        mine, theirs = (expected_figures(report, probe) for report in (sick, well))
        # Below 16 MiB no reference is of collectives: the model of this node gives the shape.
        pairs = [
            (one.value, other.value)
            for one, other in zip(mine, theirs, strict=True)
            if probe != "collectives" or (one.bytes_per_copy or 0) >= 16 << 20
        ]
        assert pairs
        assert all(one == other for one, other in pairs)
    assert expected_figures(well, "launch") == ()


def test_the_curve_says_that_it_is_expected() -> None:
    report = demo_report("hgx-h100-8")
    (found,) = sweeps(expected_figures(report, "p2p"), Judged(report), {}, expected=True)
    assert found.basis == "expected"
    assert [series.name for series in found.series] == ["expected"]
