"""The budget of the wire, of which a fifth has to be spare; bytes depend on no clock."""

from __future__ import annotations

import pytest

from gputop.app import GpuTop
from tests.harness.bench.wire import DEMO, IDLE_BUDGET, NAMED, ROOM, START_BUDGET, STEPS
from tests.support.app import demo_report, give, press
from tests.support.painting.judge import Watched

pytestmark = pytest.mark.usefixtures("every_picture")

GATE = 3
"""Steps that every run takes; `python -m tests.harness.bench.wire` takes all."""


async def test_the_budget_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    app = GpuTop()
    judged = Watched(monkeypatch, counts_only=True).of(app)
    sent, budgets = {}, {"start": START_BUDGET, "idle": IDLE_BUDGET}
    async with app.run_test(size=(120, 40)) as pilot:
        await give(pilot, demo_report(DEMO))
        sent["start"] = judged.ours_bytes()
        for tick in (8, 9, 10):
            await give(pilot, demo_report(DEMO, tick))
            sent["idle"] = max(judged.ours_bytes(), sent.get("idle", 0))
        assert sent["idle"] > 0
        for step in STEPS[:GATE]:
            await press(pilot, step.before)
            judged.ours_bytes()
            await press(pilot, NAMED.get(step.key, step.key))
            sent[step.name], budgets[step.name] = judged.ours_bytes(), step.budget
            assert sent[step.name] > 0
    over = {name: count for name, count in sent.items() if count > ROOM * budgets[name]}
    assert over == {}
