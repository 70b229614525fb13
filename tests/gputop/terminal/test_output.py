"""Colour follows signs and words, on terminals that show it, and says nothing by itself."""

from __future__ import annotations

import io
import re

import pytest

from gputop.terminal import output
from gputop.terminal.output import BAD, GOOD, HEAD, MUTED, WARN, Outlet, add_colour
from gputop.topology.model.severity import Severity, Verdict
from tests.support.command import gputop_here

INKS = {"good": GOOD, "bad": BAD, "warn": WARN, "muted": MUTED}


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


@pytest.fixture
def coloured(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("line", "part", "how"),
    [
        ("✓ healthy; 66 of 107", "✓ healthy", GOOD),
        ("▼ slow        2 NVLinks of GPU3", "▼ slow", WARN),
        ("✗ broken      GPU5 is lost", "✗ broken", BAD),
        ("▼ 2 low, 10 healthy", "▼ 2 low", WARN),
        ("    Do: read the state", "Do:", HEAD),
        ("note: nothing was measured", "note: nothing was measured", MUTED),
        ("gputop: no demo 'x'", "gputop:", BAD),
        ("▼ slow  2 are down [nvlink-down]", "[nvlink-down]", MUTED),
        ("cell ✗ of a table", "✗", BAD),
    ],
)
def test_a_part_is_coloured(line: str, part: str, how: str) -> None:
    assert f"\x1b[{how}m{part}\x1b[0m" in add_colour(line)


@pytest.mark.parametrize(
    "line", ["plain text", "", "a [note] inside", "slow and healthy words", "x=1 - 2", "do: it"]
)
def test_other_text_stays_plain(line: str) -> None:
    assert add_colour(line) == line


def test_the_text_itself_never_changes() -> None:
    text = "▼ slow: a-b\n  Impact: x ✓\n✗ broken [gpu-lost] (reason)\nnote: y\n"
    assert re.sub(r"\x1b\[[0-9;]*m", "", add_colour(text)) == text


def test_signs_have_the_colours_of_the_app() -> None:
    for mark in (*Severity, *Verdict):
        assert output.SIGNS[mark.sign] == INKS[mark.ink]
        assert mark.word in output.WORDS


def test_a_terminal_gets_colour_and_a_document_never(coloured: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    outlet = Outlet(stream)
    assert outlet.write("✓ healthy\n") == len("✓ healthy\n")
    outlet.document('{"text": "✓ healthy"}\n')
    assert stream.getvalue() == '\x1b[32m✓ healthy\x1b[0m\n{"text": "✓ healthy"}\n'


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", "")])
def test_whoever_wants_none_gets_none(coloured: pytest.MonkeyPatch, name: str, value: str) -> None:
    coloured.setenv(name, value)
    stream = Terminal()
    Outlet(stream).write("✗ broken\n")
    assert stream.getvalue() == "✗ broken\n"


def test_a_file_gets_none(coloured: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    Outlet(stream).write("✗ broken\n")
    assert stream.getvalue() == "✗ broken\n"


def test_hostile_text_brings_no_colour_of_its_own(coloured: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    Outlet(stream).write("\x1b[31m✗ broken\x1b]0;x\x07\n")
    assert re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).count("\x1b") == 0
    assert "\x1b[31m" not in stream.getvalue()


@pytest.mark.parametrize(
    ("line", "inked"),
    [
        ("flags NCCL_P2P_DISABLE --demo hgx-h100-8", "\x1b[1mWhat it does\x1b[0m\n"),
        ("explain 0 5 --demo pcie-l40s-8", "\x1b[1mGPU0 → GPU5: NO P2P"),
        ("check --quick -v --demo sick-h100-8", "\x1b[36mnvidia-smi nvlink -s\x1b[0m\n"),
        ("topo --demo sick-h100-8", "\x1b[33mNV16\x1b[0m"),
        ("topo --demo dgx-1v", "\x1b[32mNV1"),
        ("jobs --demo sick-h100-8", "\x1b["),
    ],
)
def test_a_page_is_in_colour_and_says_the_same_without(
    monkeypatch: pytest.MonkeyPatch, line: str, inked: str
) -> None:
    plain = gputop_here(*line.split()).stdout
    assert "\x1b" not in plain
    monkeypatch.setattr(output, "shows_colour", lambda stream: True)
    shown = gputop_here(*line.split()).stdout
    assert inked in shown
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == plain
    assert "\x1b[33mNV1\x1b" not in shown
