"""Copies that the driver takes through the host are not shown as P2P."""

from __future__ import annotations

from gputop.app import GpuTop
from tests.gputop.screens.probes.shown import rows, show
from tests.support.app import text
from tests.support.measured import h200_report, one, with_figures

STAGED = "copy, staged through the host"


async def test_a_staged_copy_is_called_staged() -> None:
    report = h200_report()
    gpus = [gpu.address for gpu in report.snapshot.machine.gpus]
    writes = [
        one("p2p", "write_bandwidth", 20.3, "GB/s", src=a, dst=b, engine=STAGED)
        for a in gpus
        for b in gpus
        if a != b
    ]
    reads = [
        one("p2p", "read_bandwidth", 20.3, "GB/s", src=gpus[0], dst=gpus[1], engine=STAGED),
        one("p2p", "read_bandwidth", 394.0, "GB/s", src=gpus[0], dst=gpus[2]),
    ]
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await show(pilot, with_figures(report, *writes, *reads))
        shown = text(pilot, "#probe-figures")
        assert "staged write, one way ×12" in shown
        assert "read, one way, 1 staged ×2" in shown
        assert "20.3 GB/s" in rows(pilot)["p2p"]
