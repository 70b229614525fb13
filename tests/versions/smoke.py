"""What every Python has to do: load all modules, answer commands, draw all screens.

No test_*.py: under the Python of the gate other tests do all of it.
"""

from __future__ import annotations

import json
from importlib import import_module

import pytest

from gputop.__main__ import run
from gputop.app import GpuTop
from gputop.screens import NAMES
from gputop.topology.recorded.feeds import DemoFeed
from tests.house.late_imports import modules


def test_every_module_is_imported() -> None:
    for name in modules():
        import_module(name)


@pytest.mark.parametrize(
    ("command", "schema", "code"),
    [
        ("snapshot --demo mi300x-8", "gputop.snapshot/1", 0),
        ("topo --demo hgx-h100-8", "gputop.topo/1", 0),
        ("explain --demo dgx-1v --nodes 2", "gputop.explain/1", 0),
        ("flags NCCL_P2P_LEVEL --demo hgx-a100-8", "gputop.flags/1", 0),
        ("probe p2p memory --quick --demo dgx-1v", "gputop.probe/1", 0),
        ("check --quick --demo sick-h100-8", "gputop.check/1", 1),
    ],
)
def test_commands_answer(
    capsys: pytest.CaptureFixture[str], command: str, schema: str, code: int
) -> None:
    assert run([*command.split(), "--json"]) == code
    assert json.loads(capsys.readouterr().out)["schema"] == schema


async def test_every_screen_is_drawn() -> None:
    feed = DemoFeed("sick-h100-8")
    app = GpuTop(feed, 1.0)
    async with app.run_test(size=(120, 40)) as pilot:
        for number in range(1, len(NAMES) + 1):
            await pilot.press(str(number))
            await pilot.pause()
        assert app.is_running
