"""A walk over a sick demo, recorded: `python -m tests.pictures.walk` writes docs/walk.svg.

The probes are simulated, which every frame says. The same state of the program gives the same file.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.live import probing
from gputop.messages import ProbeMeasured
from gputop.simulating import suite
from gputop.topology.recorded.feeds import DemoFeed
from tests.support.app import StepFeed, press, settle
from tests.support.places import ROOT

from .cells import rows_of
from .moving import Frame, moving
from .scenes import INTERVAL, PATIENCE_SECONDS, TICKS, until_judged

DEMO, SIZE = "sick-h100-8", (120, 34)
SHARES = (0.06, 0.12, 0.2, 0.28, 0.36, 0.44)
"""How far the run is in the frames that show it."""
MEASURE, PROBE = "One way", "p2p"
MOST_BYTES = 500_000


class _Kept(probing.Probing):
    """Runs a suite at once and keeps its messages, so that each frame has those it should have."""

    def __init__(self, post: Callable[[Any], object]) -> None:
        self.waiting: list[Any] = []
        self.send = post
        super().__init__(self.waiting.append)

    def start_suite(self, *given: Any) -> None:
        super().start_suite(*given)
        assert self._thread is not None
        self._thread.join()

    def go_on(self, share: float) -> int:
        """Send the messages up to this share of PROBE's figures; how many figures that are in all.

        What comes before them goes with the first, what comes after them with the last.
        """
        figures = [n for n, one in enumerate(self.waiting) if isinstance(one, ProbeMeasured)]
        own = [n for n in figures if self.waiting[n].measurement.probe == PROBE]
        place = max(1, int(share * len(own)))
        end = own[place - 1] + 1 if share < 1 else len(self.waiting)
        count = sum(n < end for n in figures)
        for message in self.waiting[len(self.sent) : end]:
            self.sent.append(message)
            self.send(message)
        return count

    @property
    def sent(self) -> list[Any]:
        """What was sent so far."""
        self.__dict__.setdefault("_sent", [])
        found: list[Any] = self.__dict__["_sent"]
        return found


async def frames() -> list[Frame]:
    """The walk: the node, a probe of it, its pairs, curves and findings, and at last its map.

    The last frame is what shows where nothing moves.
    """
    made = DemoFeed(DEMO)
    feed = StepFeed(made.at(0))
    found: list[Frame] = []
    async with GpuTop(feed, INTERVAL).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, GpuTop)

        def take(seconds: float, key: str = "", said: str = "") -> None:
            before = found[-1] if found else Frame((), 0)
            key, said = (key, said) if said else (before.key, before.said)
            found.append(Frame(rows_of(app), seconds, key, said))

        await until_judged(pilot)
        for tick in range(1, TICKS + 1):
            feed.put(made.at(tick))
            await asyncio.sleep(INTERVAL)
        await settle(pilot)
        take(3.5, "gputop --demo sick-h100-8", "the node: GPU3 stands out")
        await press(pilot, "p")
        kept: Any = app.probing._thread
        await _measured(pilot, kept, SHARES[0])
        take(0.8, "p", "measure it; on a demo that is simulated")
        await press(pilot, "3")
        await _until(pilot, lambda: _shows(app, MEASURE), "m")
        for share in SHARES[1:]:
            await _measured(pilot, kept, share)
            take(0.45, "3", "which pairs are slow: everything to and from GPU3")
        await _measured(pilot, kept, 1.0)
        take(1.0)
        take(3.0)
        await press(pilot, "4")
        take(3.5, "4", "by how much: simulated figures against the healthy band")
        await press(pilot, "6")
        take(4.0, "6", "what it costs, how to rule it out, what to do")
        await press(pilot, "2")
        take(5.0, "2", "where: GPU3 has 16 of 18 NVLinks, and PCIe x8 of x16")
    return found


async def _measured(pilot: Pilot[int], kept: _Kept, share: float) -> None:
    """Let the run go on to that share and wait until the report has its figures."""
    count = kept.go_on(share)
    app: Any = pilot.app
    await _until(pilot, lambda: len(app.report.snapshot.measurements) >= count)
    await _until(pilot, lambda: share < 1 or _judged(app))


def _judged(app: Any) -> bool:
    """Whether the findings know the figures."""
    found = app.report.diagnosis.findings
    return any("simulated" in finding.impact for finding in found)


def _shows(app: Any, title: str) -> bool:
    return any(
        run.ink.underline and run.text.strip() == title for row in rows_of(app) for run in row
    )


async def _until(pilot: Pilot[int], done: Callable[[], bool], key: str = "") -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not done():
        assert time.monotonic() < give_up, "what the walk waits for never came"
        if key:
            await press(pilot, key)
        await asyncio.sleep(INTERVAL)
        await settle(pilot)
    await settle(pilot)


def main() -> int:
    """Write the walk."""
    parser = argparse.ArgumentParser(prog="python -m tests.pictures.walk")
    parser.add_argument("--file", type=Path, default=ROOT / "docs" / "walk.svg")
    given = parser.parse_args()
    with (
        mock.patch.object(probing, "Probing", _Kept),
        mock.patch.object(suite, "FASTER", float("inf")),
        mock.patch.object(suite, "_LEAST_SECONDS", 0.0),
    ):
        text = moving(asyncio.run(frames()), f"gputop --demo {DEMO}: which link is slow, and why")
    if len(text.encode()) > MOST_BYTES:
        print(f"{len(text.encode())} bytes are too many for a README", file=sys.stderr)
        return 1
    given.file.parent.mkdir(parents=True, exist_ok=True)
    given.file.write_text(text, "utf-8")
    print(f"{given.file}: {len(text.encode())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
