"""What the app keeps does not grow with what was typed, pasted, drawn and resized."""

from __future__ import annotations

import gc
import random
from collections import Counter
from itertools import cycle, product

import pytest
from textual import events
from textual.pilot import Pilot

from gputop.app import GpuTop, MemoryTrimmer
from gputop.messages import ProbeMeasured, ReportReady
from tests.grid import share
from tests.support.app import demo_report
from tests.support.measured import one

MOST = 250
"""Objects of one class that may be added: scroll bars are made when they are first needed, and
lines are of another number in another size."""
SIZES = ("textual.box_model.BoxModel", "textual.geometry.Size")
"""Each widget keeps those of the last 16 rooms that it had."""
_OPENERS = ("slash", "ampersand", "f", "question_mark", "w", "t", "ctrl+p")
_REPORTS = 4


async def used(pilot: Pilot[int], made: random.Random, screens: str, rounds: int) -> None:
    """Each round: a paste that nobody made before, a size, a report, and a figure."""
    app = pilot.app
    for number, keys in zip(range(rounds), cycle(product(screens, _OPENERS))):
        await pilot.press(*keys)
        (app.focused or app.screen).post_message(events.Paste(f"{made.random()} [bold] é"))
        await pilot.resize_terminal(made.randrange(20, 200), made.randrange(5, 60))
        app.post_message(ReportReady(demo_report("sick-h100-8", number % _REPORTS)))
        app.post_message(ProbeMeasured(one("p2p", "copy", made.random(), "GB/s")))
        await pilot.press("escape", "escape", "escape")
    await pilot.resize_terminal(160, 50)
    await pilot.press("1")
    await pilot.pause()


def counted(app: GpuTop) -> Counter[str]:
    """Objects that are alive, by class: our own and those of the toolkit."""
    for _ in range(2):
        MemoryTrimmer(app).collect()
    kinds = Counter(f"{type(it).__module__}.{type(it).__qualname__}" for it in gc.get_objects())
    return Counter({kind: n for kind, n in kinds.items() if kind.startswith(("gputop", "textual"))})


@pytest.mark.parametrize(("screens", "rounds"), share((("15", 14), ("12345678", 300)), 2))
async def test_no_class_of_objects_grows_with_use(screens: str, rounds: int) -> None:
    app, made = GpuTop(), random.Random(32)
    async with app.run_test(size=(160, 50)) as pilot:
        await used(pilot, made, screens, rounds)
        before = counted(app)
        await used(pilot, made, screens, rounds)
        grown = counted(app) - before
    assert not {kind: n for kind, n in grown.items() if n > MOST and kind not in SIZES}
