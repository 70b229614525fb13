"""A rule is one file and one line."""

from __future__ import annotations

import json

from tests.support.copied_checkout import CopiedCheckout

RULE = '''"""Warm boards."""

from __future__ import annotations

from collections.abc import Iterable

from ...case import Case
from ...finding import NOTICE, Evidence, Finding
from ...rule import Rule


def _check(case: Case) -> Iterable[Finding] | None:
    return [
        WARM.finding(
            NOTICE,
            f"{len(case.gpus)} boards are warm",
            evidence=[Evidence(what="a hand", value="warm", source="touch")],
            consequence="The room is warm too.",
        )
    ]


WARM = Rule(
    id="boards-warm",
    title="warm boards",
    evidence="a hand",
    disproof="a cold hand",
    sources=("a test",),
    check=_check,
)

RULES = (WARM,)
'''
SCREEN = """
import asyncio
from gputop.app import GpuTop
from gputop.messages import ReportReady
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.report import Report

async def show():
    node = Node(DemoFeed("hgx-h100-8").at(7)).decide()
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        pilot.app.post_message(ReportReady(Report(node, diagnose(Case(node)), ())))
        await pilot.press("6")
        await pilot.pause(0.2)
        lines = pilot.app.screen._compositor.render_strips(pilot.app.size)
        print("\\n".join(line.text for line in lines))

asyncio.run(show())
"""


def test_a_rule_is_one_file_and_one_line(checkout: CopiedCheckout) -> None:
    checkout.write("topology/diagnosis/rules/devices/warm.py", RULE)
    checkout.add_line(
        "topology/diagnosis/rules/__init__.py", '"devices.presence",', '"devices.warm",'
    )
    listed = checkout.gputop("check", "--list")
    assert "boards-warm" in listed.stdout, listed.stderr
    checked = checkout.gputop("check", "--quick", "--json", "--demo", "hgx-h100-8")
    document = json.loads(checked.stdout)
    (found,) = (one for one in document["findings"] if one["id"] == "boards-warm")
    assert found["title"] == "8 boards are warm"
    assert checked.returncode == 0
    shown = checkout.python("-c", SCREEN)
    assert "8 boards are warm" in shown.stdout, shown.stderr
