"""The signs behind the names of the screens: where to look, seen from any screen."""

from __future__ import annotations

import re

import pytest

from gputop.app import GpuTop
from gputop.screens import NAMES
from gputop.screens.tab_signs import tab_signs
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.recorded.demos import demo
from gputop.topology.report import Report
from gputop.widgets.spans import text_of
from gputop.widgets.status import tabs
from tests.grid import covering
from tests.support.app import app_of, demo_report, give, press, rounds, text
from tests.support.measured import p2p, with_figures
from tests.support.runs import run_of, suite_of

SICK = {"sick-h100-8": "✗3", "sick-mi300x-8": "✗2"}
"""Demo -> how many findings stand behind the tab; one of them a job that hangs."""


def judged(name: str) -> Report:
    node = demo_report(name).node
    return Report(node, diagnose(Case(node)))


@pytest.mark.parametrize("name", covering(demo.names(), lambda name: [SICK.get(name)]))
async def test_the_tabs_of_a_demo_say_where_to_look(name: str) -> None:
    report = judged(name)
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await give(pilot, report)
        wanted = {}
        if name in SICK:
            wanted = {"findings": (SICK[name], "bad"), "jobs": ("✗", "bad")}
            async for _ in rounds(pilot):
                if app_of(pilot).jobs.answer is not None:
                    break
        assert tab_signs(app_of(pilot)) == wanted
        if name in SICK:
            await press(pilot, "7")
            assert "✗ " in text(pilot, "#job-head")
            await press(pilot, "6")
            assert (
                len(report.diagnosis.findings if report.diagnosis else ())
                >= int(SICK[name][1:]) - 1
            )


async def test_what_is_tried_measured_and_running_has_a_sign() -> None:
    report = judged("hgx-h100-8")
    gpus = [gpu.address for gpu in report.snapshot.machine.gpus]
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await give(pilot, report)
        app_of(pilot).what_if.change("NCCL_ALGO", "Ring")
        assert tab_signs(app_of(pilot)) == {"flags": ("+1", "accent")}
        app_of(pilot).what_if.undo()
        sick = with_figures(report, *p2p(gpus, slow=gpus[3]))
        await give(pilot, sick)
        sign, ink = tab_signs(app_of(pilot))["probes"]
        assert (sign[0], sign[1:].isdigit(), ink) == ("▼", True, "bad")
        app_of(pilot).probe = suite_of(run_of(status="running"))
        assert tab_signs(app_of(pilot))["probes"] == ("▶", "good")


@pytest.mark.parametrize("shown", NAMES)
@pytest.mark.parametrize(
    ("signs", "most_cut"),
    [(("", "", "", ""), 0), (("▼2", "*1", "▼2", "✗"), 0), (("▼9", "*3!+1", "▼12", "✗"), 1)],
)
def test_names_are_whole_from_eighty_columns_on(
    shown: str, signs: tuple[str, ...], most_cut: int
) -> None:
    held = dict(zip(("probes", "flags", "findings", "jobs"), signs, strict=True))
    line = text_of(
        tabs(NAMES, shown, 80, {name: (sign, "") for name, sign in held.items() if sign})
    )
    cut = [name for name in NAMES if name.capitalize() not in line]
    assert len(cut) <= most_cut
    assert shown not in cut
    assert all(name.capitalize()[:4] in line for name in NAMES)
    assert all(
        f"{name.capitalize()}{sign}" in line for name, sign in held.items() if name not in cut
    )
    assert all(sign in line for sign in signs)
    assert len(line) <= 80 - len("simulated ")


@pytest.mark.parametrize("width", [60, 80, 120, 160])
def test_signs_stay_where_names_are_cut(width: int) -> None:
    names = ("node", "map", "pairs", "probes", "flags", "findings", "jobs", "log")
    signs = {"probes": ("▶", ""), "flags": ("*3+1", ""), "findings": ("▼12", ""), "jobs": ("✗", "")}
    line = text_of(tabs(names, "findings", width, signs))
    assert len(line) <= width
    assert "▼12" in line
    assert re.search("7 ?Job", line)


async def test_a_log_of_a_failed_run_has_a_sign() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await give(pilot, judged("hgx-h100-8"))
        app_of(pilot).read_pasted("torch.distributed.DistBackendError: NCCL error: unhandled\n" * 2)
        async for _ in rounds(pilot):
            if app_of(pilot).log_sign is not None:
                break
        sign = app_of(pilot).log_sign
        assert sign is not None
        assert sign[0] in text(pilot, "#log-head")
        await press(pilot, "1")
        assert tab_signs(app_of(pilot)) == {"log": sign}
