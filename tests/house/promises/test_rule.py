"""A rule is one file and one line."""

from __future__ import annotations

import json

from gputop.topology.model.snapshot import encode
from gputop.topology.toml import tomllib
from tests.house.promises.worked_examples import example, line
from tests.support.copied_checkout import CopiedCheckout
from tests.support.rule_cases import base, edited

RULE, NAMES = "topology/diagnosis/rules/host/root.py", "topology/diagnosis/rules/__init__.py"
SCREEN = """
import asyncio
import sys

from gputop.app import GpuTop
from gputop.messages import ReportReady
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.report import Report

async def show():
    node = Node(load([sys.argv[1]]).snapshot).decide()
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        pilot.app.post_message(ReportReady(Report(node, diagnose(Case(node)), ())))
        await pilot.press("6")
        await pilot.pause(0.2)
        lines = pilot.app.screen._compositor.render_strips(pilot.app.size)
        print("\\n".join(line.text for line in lines))

asyncio.run(show())
"""


def test_a_rule_is_one_file_and_one_line(checkout: CopiedCheckout) -> None:
    checkout.write(RULE, example(RULE))
    checkout.add_line(NAMES, '"host.limits",', line(NAMES))
    sick = tomllib.loads(example("tests/rule_cases/root-asked.toml"))
    snapshot = edited(base(sick["base"]), sick["edit"])
    checkout.write("node.json", encode(snapshot).decode())
    listed, checked = checkout.gputop("check --list", "check --quick --json --from node.json")
    assert "asked-as-root" in listed.stdout, listed.stderr
    assert checked.returncode == sick["exit"], checked.stderr
    assert set(sick["expect"]) <= {row["id"] for row in json.loads(checked.stdout)["findings"]}

    shown = checkout.python("-c", SCREEN, "node.json")
    assert "root asked" in shown.stdout, shown.stderr
