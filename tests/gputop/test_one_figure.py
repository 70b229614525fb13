"""One fact has one figure: on every screen, in every finding and in every command."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from gputop.__main__ import run
from gputop.app import GpuTop
from gputop.screens import NAMES
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.expectation.cost.costs import costs_of
from gputop.topology.explain.pair import why_pair
from gputop.topology.report import Report
from gputop.widgets.bars import Bar
from gputop.widgets.board import Board
from gputop.widgets.spans import text_of
from tests.grid import share
from tests.support.app import demo_report, give, press

COMMANDS = (("check", "--quick", "--verbose"), ("explain",), ("explain", "0", "3"), ("flags",))
PAIR = re.compile(
    r"(all-reduce 1 GiB|copy GPU\d+ to GPU\d+|host copy GPU\d+): "
    r"healthy ([\d.]+) → here (not known|[\d.]+(?: to [\d.]+)?)",
    re.IGNORECASE,
)
"""What a figure is of, then both figures."""
BRIEF = re.compile(r"\b([\d.]+)→([\d.]+)\b")
OTHER = re.compile(r"all-reduce[^.;▼]{0,60}?(?:drops from|instead of)[^.;]*|\d+ GB/s bus\b at most")
"""Other words for the same, which would be other figures."""
SICK = {
    "sick-h100-8": ("473", "355"),
    "sick-mi300x-8": ("333", "95.7"),
}


def plain(text: str) -> str:
    """Words in one line, wherever a line was broken."""
    return " ".join(text.split())


async def screens(demo: str) -> dict[str, str]:
    """What the boards and lines of each screen say, and what `w` says on it."""
    node = demo_report(demo).node
    said: dict[str, str] = {}
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, Report(node, diagnose(Case(node))))
        for number, name in enumerate(NAMES, start=1):
            await press(pilot, str(number))
            boards = pilot.app.screen.query(Board)
            lines = (text_of(bar.line) for bar in pilot.app.screen.query(Bar))
            said[name] = plain(" ".join((*lines, *(board.text() for board in boards))))
        await press(pilot, "1", "down", "down", "down", "w")
        said["why"] = plain(" ".join(board.text() for board in pilot.app.screen.query(Board)))
    return said


def commands(demo: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What each command prints."""
    printed = {}
    for words in COMMANDS:
        run([*words, "--demo", demo])
        printed[" ".join(words)] = plain(capsys.readouterr().out)
    return printed


@pytest.mark.parametrize("demo", share(SICK, 2))
async def test_a_fact_has_one_figure_everywhere(
    demo: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its job hangs, which would be the first finding.
    monkeypatch.setattr("gputop.live.jobs_controller.of_demo", lambda _: None)
    said = {**await screens(demo), **commands(demo, capsys)}
    facts: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for place, text in said.items():
        for what, healthy, here in PAIR.findall(text):
            facts[what.lower()][healthy, here].append(place)
        assert not OTHER.findall(text), place
    assert {what: len(figures) for what, figures in facts.items() if len(figures) > 1} == {}
    ((figures, places),) = facts["all-reduce 1 gib"].items()
    assert figures == SICK[demo]
    assert {"node", "findings", "check --quick --verbose", "explain"} <= set(places)
    known = {figures for of in facts.values() for figures in of}
    briefs = set(BRIEF.findall(said["findings"]))
    assert briefs <= known
    assert briefs


@pytest.mark.parametrize("demo", SICK)
def test_a_pair_and_its_explanation_say_the_same(demo: str) -> None:
    node = demo_report(demo).node
    gpus = [gpu.address for gpu in node.snapshot.machine.gpus]
    cost = costs_of(node).copy(gpus[3], gpus[0])
    assert cost is not None
    page = why_pair(node, gpus[3], gpus[0])
    said = plain(" ".join(f"{fact.value} {fact.because}" for fact in page.facts))
    assert f"about {cost.healthy:.3g}" in said
    assert f"{cost.here:.3g}" in said
