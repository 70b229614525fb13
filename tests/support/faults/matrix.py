"""Every function of NVML and amdsmi that is asked, with all that can go wrong, as a table.

`python -m tests.support.faults.matrix` prints the verdicts. It needs a C compiler and the wheel of
amdsmi for `--library amdsmi`: `--wheel FILE`, or one that pip can fetch.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from gputop.app import GpuTop
from gputop.reading import SETTLE_SECONDS
from gputop.topology.sources.live import LiveFeed
from tests.support.amdsmi.wheels import Shelf
from tests.support.faults import amdsmi_library
from tests.support.faults.amdsmi_cells import AMDSMI
from tests.support.faults.cells import BLOCKS, KINDS, Cell, Said, faulty, lines, totals
from tests.support.faults.facts import answer
from tests.support.faults.machine import settled, sources
from tests.support.faults.nvml_cells import NVML

TABLES = {"nvml": NVML, "amdsmi": AMDSMI}
AMDSMI_VERSION = "7.0.2"
LIMIT_SECONDS = 13.0
"""What a plain command may take on a machine whose driver never answers."""
AT_ONCE = 12
"""How many machines that block wait at the same time."""
DEADLINE_SECONDS = 0.2
PATIENCE_SECONDS = 60.0
SCREEN = "screen"
"""What the app is asked while a function blocks; it is no cell of a verdict."""


def _judged(library: str, cell: Cell) -> Said:
    table = TABLES[library]
    said = table.diagnose(cell)
    return Said(cell, said.diagnosis.verdict, _broken() or table.wrong(cell, said))


def _blocked(library: str, cell: Cell) -> Said:
    """What a plain command says, and after how long; in a process that ends with its threads."""
    table = TABLES[library]
    began, used = time.monotonic(), time.process_time()
    said = answer(settled(table.profile, [table.fault(cell)]))
    seconds, used = time.monotonic() - began, time.process_time() - used
    wrong = _broken() or table.wrong(cell, said)
    # Many cells share the cores: what this one waits and computes is its own, wall time is not.
    if SETTLE_SECONDS + used > LIMIT_SECONDS or seconds > PATIENCE_SECONDS:
        wrong = wrong or f"{used:.1f} s of CPU, {seconds:.1f} s in all"
    return Said(cell, said.diagnosis.verdict, wrong, seconds)


def _shown(library: str, cell: Cell) -> Said:
    """Whether the app answers its keys."""
    table = TABLES[library]
    feed = LiveFeed(sources(table.profile, [table.fault(cell)], deadline=DEADLINE_SECONDS))
    wrong = asyncio.run(_keys(feed))
    return Said(cell, "dead" if wrong else "alive", _broken() or wrong)


async def _keys(feed: LiveFeed) -> str:
    """Open the help, close it, and go to another screen; what was not answered."""
    app = GpuTop(feed)
    async with app.run_test(size=(160, 50)) as pilot:
        for key in ("?", "escape", "2", "1"):
            give_up = time.monotonic() + PATIENCE_SECONDS
            before = app.screen
            await pilot.press(key)
            while app.screen is before:
                if time.monotonic() > give_up:
                    return f"no answer to {key}"
                await pilot.pause(0.05)
    feed.close()
    return ""


def _broken() -> str:
    library = amdsmi_library.LOADED
    return library.broken[0] if library is not None and library.broken else ""


def _asked(library: str, kind: str, processes: int) -> Iterable[Said]:
    table = TABLES[library]
    blocks = kind in (BLOCKS, SCREEN)
    cells = list(table.cells(BLOCKS if blocks else kind))
    if kind == SCREEN:
        cells = [cell for cell in cells if not cell.one]
    ask = {BLOCKS: _blocked, SCREEN: _shown}.get(kind, _judged)
    context = multiprocessing.get_context("fork")
    # A thread that is blocked, and the locks that it holds, end with the process.
    with context.Pool(
        AT_ONCE if kind == BLOCKS else processes, maxtasksperchild=1 if blocks else None
    ) as pool:
        yield from pool.imap(partial(ask, library), cells, chunksize=1 if blocks else 20)


def main() -> int:
    """Print a table for each library and kind."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.faults.matrix")
    parser.add_argument("--library", choices=sorted(TABLES), action="append")
    parser.add_argument("--kind", choices=(*KINDS, SCREEN), action="append")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--wheel", type=Path, help="a wheel of amdsmi")
    options = parser.parse_args()
    libraries = options.library or sorted(TABLES, reverse=True)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        if "amdsmi" in libraries:
            wheel = options.wheel or Shelf(Path(folder)).wheel(AMDSMI_VERSION)
            amdsmi_library.load(amdsmi_library.build(wheel, Path(folder)))
        for library in libraries:
            for kind in options.kind or (*KINDS, SCREEN):
                answers = list(_asked(library, kind, options.processes))
                bad = [said for said in answers if said.wrong]
                wrong += len(bad)
                print(f"\n{library}, {kind}")  # noqa: T201 - a script
                print("\n".join((*lines(answers), *faulty(answers))))  # noqa: T201
                slowest = max(said.seconds for said in answers)
                after = f", the slowest after {slowest:.1f} s" if slowest else ""
                print(  # noqa: T201
                    f"{library}, {kind}: {len(answers)} cells, {totals(answers)}, "
                    f"{len(bad)} wrong{after}",
                    flush=True,
                )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
