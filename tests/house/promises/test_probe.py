"""A probe is one file and one line: tables, documents, history and the screens show it."""

from __future__ import annotations

import json

from tests.house.promises.worked_examples import example, line
from tests.support.copied_checkout import CopiedCheckout

PROBE, MODULES = "probes/catalog/queue.py", "probes/catalog/__init__.py"
GPUS = {"cpu:0": "0000:05:00.0", "cpu:1": "0000:06:00.0"}
"""Devices of the self-test, which no matrix of pairs shows -> GPUs of the demo."""
SCREENS = """
import asyncio
import json
import sys
import time

from gputop.app import GpuTop
from gputop.messages import ReportReady
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.report import Report


async def look():
    report = Report(Node(load([sys.argv[1]]).snapshot).decide())
    seen = {}
    async with GpuTop().run_test(size=(160, 48)) as pilot:
        app = pilot.app

        async def keep(name, *words):
            end = time.monotonic() + 60
            while not all(word in seen.get(name, "") for word in words) and time.monotonic() < end:
                await pilot.pause()
                strips = app.screen._compositor.render_strips(app.size)
                seen[name] = "\\n".join(strip.text for strip in strips)

        app.post_message(ReportReady(report))
        await pilot.press("4", "end")
        await keep("probes", "Made-up queue", "queue answers", "kilo/s", "delay by size", "µs")
        await pilot.press("m")
        await keep("plot", "hops between queues, hops", "rows send", "[3.00]", "4.00")
        await pilot.press("3")
        await keep("pairs", "Driver grant")
        commands = {command.title: command for command in app.get_system_commands(app.screen)}
        commands["Measure: Hops between queues"].callback()
        await keep("hops", "Hops between queues", "3.00", "4.00")
    print(json.dumps(seen))


asyncio.run(look())
"""
HISTORY = """
import sys

from gputop.answers import probe_history as command
from gputop.measuring.history import SavedFigure, SavedRun, keep, node_key
from gputop.topology.recorded.load import load

snapshot = load([sys.argv[1]]).snapshot
command.live_snapshot = lambda: snapshot
for factor in (1, 2):
    figures = tuple(
        SavedFigure(
            quantity=figure.quantity,
            src=figure.src,
            dst=figure.dst,
            bytes_per_copy=figure.bytes_per_copy,
            value=factor * figure.value,
            unit=figure.unit,
        )
        for figure in snapshot.measurements
    )
    run = SavedRun(probe="queue", taken_at=1e9 + factor, figures=figures)
    assert keep(run, node_key(snapshot.machine)) == ""
command.COMPARED.ask(command.HistoryRequest(names=("queue",)))
"""
"""`gputop probe --history` without a GPU, on a node with two runs."""


def test_a_probe_is_one_file_and_one_line(checkout: CopiedCheckout) -> None:
    checkout.write(PROBE, example(PROBE))
    checkout.add_line(MODULES, '"nccl": "nccl.probe",', line(MODULES))

    listed, shown, asked, demo = checkout.gputop(
        "probe --list",
        "probe queue --selftest",
        "probe queue --selftest --json",
        "snapshot --demo dgx-1v",
    )
    assert "queue          Made-up queue" in listed.stdout
    assert shown.returncode == 0, shown.stderr
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert "delay by size, us" in lines
    assert "1.0 KiB 8.00 8.00 8.00" in lines
    assert lines[:4] == [
        "hops between queues, hops (none)",
        "cpu:0 cpu:1",
        "cpu:0 · 3.00",
        "cpu:1 4.00 ·",
    ]
    table = lines.index("queue")
    assert lines[table : table + 4] == ["queue", "kilo/s answers", "cpu:0 123", "cpu:1 124"]

    kept = json.loads(asked.stdout)["measurements"]
    assert {(figure["quantity"], figure["unit"]) for figure in kept} == {
        ("queue_rate", "kilo/s"),
        ("queue_delay", "us"),
        ("queue_hops", "hops"),
    }

    node = json.loads(demo.stdout)
    for figure in kept:
        del figure["expected"]
        figure.update(device_kind="gpu", src=GPUS[figure["src"]], dst=GPUS.get(figure.get("dst")))
    checkout.write("node.json", json.dumps({**node, "measurements": kept}))

    checkout.write("look.py", SCREENS)
    looked = checkout.python("look.py", "node.json")
    assert looked.returncode == 0, looked.stderr
    seen = json.loads(looked.stdout)
    for words in ("Made-up queue", "queue answers", "kilo/s", "delay by size", "µs"):
        assert words in seen["probes"]
    for words in ("hops between queues, hops", "[3.00]", "4.00"):
        assert words in seen["plot"]
    for words in ("Hops between queues", "3.00", "4.00"):
        assert words in seen["hops"]

    checkout.write("history.py", HISTORY)
    state = str(checkout.root / "state")
    compared = checkout.python("history.py", "node.json", XDG_STATE_HOME=state)
    rows = [" ".join(row.split()) for row in compared.stdout.splitlines()]
    assert "queue hops GPU0 -> GPU1 3.00 hops 6.00 +100.0 % 1" in rows, compared.stderr
