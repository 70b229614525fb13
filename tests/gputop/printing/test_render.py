"""One renderer: what a terminal prints is what a screen draws, without its inks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gputop.printing.render import NARROW, finding_lines, render, texts
from gputop.topology.model.characters import HOSTILE
from gputop.topology.model.page import (
    BarLine,
    Bars,
    Bullets,
    Column,
    Commands,
    Fact,
    Facts,
    Findings,
    Fix,
    Heading,
    Page,
    Steps,
    Table,
    Text,
)
from gputop.topology.model.severity import Verdict
from gputop.widgets.spans import text_of, width_of
from tests.support.findings_made import finding

EVIL = "\x1b[31m[bold]x\u202e\nnext"


def test_a_source_that_several_facts_share_stands_once() -> None:
    facts = tuple(
        Fact(what=f"on GPU{number}", value="busy", source=source)
        for number, source in enumerate(("nvml", "nvml", "proc"))
    )
    assert list(texts((Facts(facts),), 80)) == [
        "• on GPU0: busy", "• on GPU1: busy (nvml)", "• on GPU2: busy (proc)"
    ]  # fmt: skip


def test_a_finding_says_first_what_to_do_and_commands_are_ink() -> None:
    made = finding(
        "link", "slow", "a link is down", disproof="all is up in `lspci -s`, or `by` design"
    )
    lines = finding_lines(made, 80)
    said = [text_of(line).strip() for line in lines]
    leads = ("▼ slow · link", "Fix: mend link", "fix --link", "• what link", "Impact:", "Ruled out")
    places = [next(at for at, text in enumerate(said) if text.startswith(lead)) for lead in leads]
    assert places == sorted(places)
    inks = {text: ink for text, ink in lines[places[-1]] if text.strip()}
    assert inks["`lspci"] == inks["-s`"] == "key"
    assert inks["all"] == inks["`by`"] == inks["design"] == ""


def test_rows_take_the_ink_of_their_verdict_and_the_widest_column_wraps() -> None:
    table = Table(
        (Column("GPU"), Column("GB/s", right=True), Column("why")),
        (("GPU0", "396.1", "word " * 20), ("GPU1", "9.5", "")),
        (Verdict.HEALTHY, Verdict.BROKEN),
    )
    lines = render((table,), 50)
    assert [line[-1][1] for line in lines if line[-1][0].startswith("GPU")] == [
        "muted", "good", "bad"
    ]  # fmt: skip
    assert text_of(lines[-1]) == "  GPU1    9.5"
    assert max(map(width_of, lines)) <= 50


def test_headings_stand_apart_and_a_page_tells_its_parts() -> None:
    page = Page.why("GPU3", "it is slow", facts=(Fact(what="a", value="b", source=""),),
                    impact="half the speed", fix=(Fix(text="mend", command="do it"),))  # fmt: skip
    assert (page.claim, page.impact, page.commands) == ("it is slow", "half the speed", ("do it",))
    assert [fact.what for fact in page.facts] == ["a"]
    said = list(texts((Heading("One"), Text("text"), Heading("Two"), Bullets(("a", "b"))), 60))
    assert said == ["One", "text", "", "Two", "  - a", "  - b"]


@given(st.text(max_size=300), st.integers(1, 200), st.integers(0, 8))
def test_no_line_is_too_long_and_nothing_from_outside_survives(
    text: str, width: int, indent: int
) -> None:
    made = finding("link", "broken", text or "x", impact=text, disproof=text)
    blocks = (
        Heading(text, Verdict.SLOW, text),
        Text(text, label="Impact", indent=2),
        Facts((Fact(what=text, value=text, source=text, because=text, flag=text),)),
        Table((Column("a"), Column(text)), ((text, text),)),
        Bullets((text,)),
        Steps((Fix(text=text),)),
        Findings((made,)),
        Bars((BarLine(text, 1.0, text), BarLine("b", 0.0))),
    )
    for line in render(blocks, width, indent):
        assert width_of(line) <= max(width, NARROW) + 2
        assert HOSTILE.search(text_of(line)) is None


def test_a_command_is_broken_between_its_words_on_a_screen_and_nowhere_in_a_terminal() -> None:
    command = f"run {'x' * 60} {'y' * 30}"
    lines = [text_of(line) for line in render((Commands((command,)),), 50)]
    assert len(lines) == 3
    assert " ".join(" ".join(lines).split()) == command
    assert texts((Commands((command,)),), 50) == [f"  {command}"]
    assert EVIL not in "".join(texts((Commands((EVIL,)),), 50))
