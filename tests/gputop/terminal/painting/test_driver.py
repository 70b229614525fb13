"""The driver: which one is painted, what it keeps for itself, and that nothing breaks it."""

from __future__ import annotations

import os
import selectors
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from textual import events
from textual.drivers.headless_driver import HeadlessDriver
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Size

from gputop.app import GpuTop
from gputop.terminal.painting import driver
from gputop.terminal.painting import driver as waiting
from gputop.terminal.painting.driver import LIVELY_SECONDS, Painting, Patience, painting
from tests.support.terminal import Terminal

STRANGE = """
import sys
from textual._compositor import LayoutUpdate
from gputop.__main__ import main

written = LayoutUpdate.render_segments
LayoutUpdate.render_segments = lambda *given: written(*given) + "\\x1b[K"
sys.argv[1:] = ["--demo", "hgx-h100-8"]
main()
"""

ASKED = 0.0
"""The longest that Textual wants to wait; here it does not at all."""


def test_only_the_driver_of_a_terminal_is_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEXTUAL_DRIVER", raising=False)
    assert issubclass(painting(LinuxDriver), Painting)
    assert issubclass(painting(LinuxDriver), LinuxDriver)
    assert painting(HeadlessDriver) is HeadlessDriver
    assert issubclass(GpuTop().driver_class, Painting)
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.linux_driver:LinuxDriver")
    assert GpuTop().driver_class is LinuxDriver


class Behind(HeadlessDriver):
    """Takes the place of Textual's driver."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.written: list[str] = []
        self.messages: list[object] = []

    def write(self, data: str) -> None:
        self.written.append(data)

    def send_message(self, message: object) -> None:
        self.messages.append(message)


class Told:
    """Takes the place of a sender."""

    def __init__(self) -> None:
        self.size = (0, 0)
        self.asked = 1

    def resize(self, columns: int, rows: int) -> None:
        self.size = (columns, rows)

    def window(self) -> tuple[int, int] | None:
        return None

    def answer(self) -> bool:
        self.asked -= 1
        return self.asked >= 0


async def test_without_a_terminal_of_its_own_textual_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_opened_again", lambda: None)
    made: Any = type("Made", (Painting, Behind), {})(GpuTop())
    made.start_application_mode()
    made.write("text")
    made.disable_input()
    made.close()
    assert made.written == ["text"]


async def test_only_answers_to_own_questions_are_kept_back() -> None:
    made: Any = type("Made", (Painting, Behind), {})(GpuTop())
    made._sender = told = Told()
    first, second = events.CursorPosition(0, 0), events.CursorPosition(1, 1)
    size = events.Resize(Size(30, 20), Size(30, 20))
    for message in (first, second, size):
        made.process_message(message)
    assert made.messages == [second, size]
    assert told.size == (30, 20)


@pytest.mark.terminal
def test_a_textual_that_writes_something_new_draws_by_itself() -> None:
    with Terminal([], command=[sys.executable, "-c", STRANGE]) as terminal:
        terminal.wait_for("H100 80GB")
        terminal.send("\x0c")
        while b"\x1b[K" not in terminal.written:
            terminal.read()
        terminal.forget()
        terminal.send("\x0c")
        terminal.wait_for("H100 80GB")
        terminal.send("q")
        terminal.wait_end()
        assert terminal.sane()
        assert "Traceback" not in terminal.text()
        assert terminal.process.returncode == 0


# Waiting for keys: without an end while nobody types, as Textual does it otherwise.
@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which only the test moves."""
    now = [100.0]
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.fixture
def keys() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """How long each wait may have taken; none takes any time."""
    found: list[float | None] = []
    select = selectors.SelectSelector.select

    def counted(
        self: selectors.SelectSelector, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        found.append(timeout)
        return select(self, 0.0)

    monkeypatch.setattr(selectors.SelectSelector, "select", counted)
    return found


def test_it_waits_without_an_end_until_a_key_comes_and_then_as_textual_does(
    clock: list[float], keys: tuple[int, int], waits: list[float | None]
) -> None:
    patience, module = Patience(), SimpleNamespace(selectors=selectors)
    patience.begin()
    with patience.of(module):
        assert module.selectors.EVENT_READ == selectors.EVENT_READ
        selector = module.selectors.SelectSelector()
    assert module.selectors is selectors
    selector.register(keys[0], selectors.EVENT_READ)
    assert selector.select(ASKED) == []
    clock[0] += LIVELY_SECONDS + 1
    assert selector.select(ASKED) == []
    os.write(keys[1], b"\x1b")
    assert [key.fd for key, _ in selector.select(ASKED)] == [keys[0]]
    os.read(keys[0], 1)
    # An Escape may be the beginning of another key, which Textual finds out by waiting.
    assert selector.select(ASKED) == []
    clock[0] += LIVELY_SECONDS + 1
    assert selector.select(ASKED) == []
    patience.end()
    assert selector.select(ASKED) == []
    assert selector.select(ASKED) == []
    assert waits == [ASKED, None, None, ASKED, None, ASKED, ASKED]
    patience.close()


def test_an_end_wakes_who_waits_already_and_is_no_key(
    clock: list[float], keys: tuple[int, int]
) -> None:
    patience, module = Patience(), SimpleNamespace(selectors=selectors)
    patience.begin()
    with patience.of(module):
        selector = module.selectors.SelectSelector()
    selector.register(keys[0], selectors.EVENT_READ)
    clock[0] += LIVELY_SECONDS + 1
    selector._ends = lambda: False  # it has begun to wait before
    patience.end()
    assert selector.select(None) == []
    patience.close()


@pytest.mark.parametrize("module", [None, SimpleNamespace(), SimpleNamespace(selectors="else")])
def test_a_textual_that_waits_otherwise_is_left_alone(module: object) -> None:
    before = dict(vars(module)) if module else {}
    patience = Patience()
    patience.begin()
    with patience.of(module):
        assert (dict(vars(module)) if module else {}) == before
    patience.close()
