"""A question is one file and one line: command, options, JSON, text and screen follow."""

from __future__ import annotations

import json

from tests.house.promises.worked_examples import example, line
from tests.support.copied_checkout import CopiedCheckout

MODULE, NAMES = "gputop/answers/heat.py", "gputop/answers/__init__.py"

LOOK = """
import asyncio, json
from gputop.app import GpuTop
from gputop.messages import ReportReady
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.report import Report
from gputop.widgets.board import Board

async def look():
    seen = {}
    app = GpuTop()
    async with app.run_test(size=(120, 40)) as pilot:
        async def settle():
            await app.workers.wait_for_complete()
            await pilot.pause(0.2)
        app.post_message(ReportReady(Report(Node(DemoFeed("dgx-1v").at(7)))))
        await settle()
        commands = {command.title: command for command in app.get_system_commands(app.screen)}
        seen["about"] = commands["Heat"].help
        commands["Heat"].callback()
        await pilot.pause(0.2)
        await settle()
        seen["rows"] = app.screen.query_one("#listing-rows", Board).text().splitlines()
        await pilot.press("down")
        await settle()
        seen["panel"] = app.screen.query_one("#listing-detail", Board).text()
        seen["copied"] = app.screen.selected_text()
        await pilot.press("1")
        await settle()
        seen["back"] = app.view.name
    print(json.dumps(seen))

asyncio.run(look())
"""


def test_a_question_is_one_file_and_one_line(checkout: CopiedCheckout) -> None:
    checkout.write(MODULE, example(MODULE))
    checkout.add_line(
        NAMES,
        after='"doctor": "Say what gputop found on this machine, for a bug report.",',
        line=line(NAMES),
    )
    text, document, hot, helped, listed = checkout.gputop(
        "heat --demo dgx-1v",
        "heat --demo dgx-1v --json",
        "heat --demo dgx-1v --least 1000 --json",
        "heat --help",
        "--help",
    )
    assert text.returncode == 0, text.stderr
    assert len(text.stdout.splitlines()) == 9
    found = json.loads(document.stdout)
    assert list(found) == ["schema", "gputop", "source", "assumptions", "degrees"]
    assert found["schema"] == "gputop.heat/1"
    assert len(found["degrees"]) == 8
    assert json.loads(hot.stdout)["degrees"] == {}
    assert "--least" in helped.stdout
    assert "--from" in helped.stdout
    assert "heat" in listed.stdout
    shown = checkout.python("-c", LOOK)
    assert shown.returncode == 0, shown.stderr
    seen = json.loads(shown.stdout)
    assert seen["about"] == "Say how warm each GPU is"
    rows = [line.removeprefix("›").split() for line in seen["rows"]]
    assert rows[0] == ["GPU", "C"]
    assert {gpu for gpu, _ in rows[1:]} == set(found["degrees"])
    address, heat = rows[2]
    assert address in seen["panel"]
    assert seen["copied"].split() == [address, heat]
    assert seen["back"] == "node"
