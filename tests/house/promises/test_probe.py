"""A probe is one file and one line: it appears in tables, documents, the list and the screen."""

from __future__ import annotations

import json

from tests.house.promises.worked_examples import example, line
from tests.support.copied_checkout import CopiedCheckout

PROBE, MODULES = "probes/catalog/queue.py", "probes/catalog/__init__.py"
SCREEN = """
import asyncio
import sys

from gputop.app import GpuTop
from gputop.messages import ReportReady
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.report import Report


async def look():
    report = Report(Node(load([sys.argv[1]]).snapshot).decide())
    async with GpuTop().run_test(size=(160, 48)) as pilot:
        pilot.app.post_message(ReportReady(report))
        await pilot.pause()
        await pilot.press("4", "end")
        await pilot.pause(0.06)
        await pilot.pause()
        strips = pilot.app.screen._compositor.render_strips(pilot.app.size)
    print("\\n".join(strip.text for strip in strips))


asyncio.run(look())
"""


def test_a_probe_is_one_file_and_one_line(checkout: CopiedCheckout) -> None:
    checkout.write(PROBE, example(PROBE))
    checkout.add_line(MODULES, '"nccl": "nccl.probe",', line(MODULES))

    listed = checkout.gputop("probe", "--list").stdout
    assert "queue          Made-up queue" in listed

    shown = checkout.gputop("probe", "queue", "--selftest")
    assert shown.returncode == 0, shown.stderr
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert "delay by size, us" in lines
    assert "1.0 KiB 8.00 8.00 8.00" in lines
    assert lines[-6:-2] == ["queue", "kilo/s answers", "cpu:0 123", "cpu:1 124"]

    document = json.loads(checkout.gputop("probe", "queue", "--selftest", "--json").stdout)
    kept = document["measurements"]
    assert {(one["quantity"], one["unit"]) for one in kept} == {
        ("queue_rate", "kilo/s"),
        ("queue_delay", "us"),
    }

    node = json.loads(checkout.gputop("snapshot", "--demo", "dgx-1v").stdout)
    for figure in kept:
        del figure["expected"]
    checkout.write("node.json", json.dumps({**node, "measurements": kept}))
    checkout.write("look.py", SCREEN)
    screen = checkout.python("look.py", "node.json").stdout
    assert "Made-up queue" in screen
    assert "queue answers" in screen
    assert "kilo/s" in screen
    assert "delay by size" in screen
    assert "µs" in screen
