"""A probe is one file and one line: it appears in tables, documents, the list and the screen."""

from __future__ import annotations

import json

from tests.support.copied_checkout import CopiedCheckout

PROBE = '''"""How fast a made-up queue of each device answers."""

from ..devices.opened import Emit
from ..protocol.messages import MeasuredValue, Request
from ..protocol.quantity import Quantity
from ..protocol.spec import ProbeSpec

RATE = Quantity("queue_rate", "queue answers", unit="kilo/s", counted="answers")
DELAY = Quantity(
    "queue_delay", "delay by size", unit="us", over_sizes=True, more_is_better=False
)
SPEC = ProbeSpec(
    name="queue",
    title="Made-up queue",
    measures="Answers of a queue that does not exist.",
    method="queue/1",
    minimum_gpus=1,
    memory_bytes_per_gpu=0,
    start_seconds=0.1,
    seconds_per_gpu=0.1,
    seconds_per_pair=0.0,
    quantities=(RATE, DELAY),
)


def run(request: Request, emit: Emit) -> None:
    """Emit figures that are known beforehand."""
    for device in (0, 1):
        _figure(emit, RATE, device, 123.0 + device, None)
        for shift in range(4):
            _figure(emit, DELAY, device, 8.0 + shift, 1024 << shift)


def _figure(emit: Emit, quantity: Quantity, device: int, value: float, size: "int | None") -> None:
    emit(
        MeasuredValue(
            quantity.key, f"cpu:{device}", "", SPEC.method, "cpu", "none", "made up",
            value=value, unit=quantity.unit, counted=quantity.counted, bytes_per_copy=size,
        )
    )
'''
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
    checkout.write("probes/catalog/made_up.py", PROBE)
    checkout.add_line("probes/catalog/__init__.py", '"nccl": "nccl.probe",', '"queue": "made_up",')

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
