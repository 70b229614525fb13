"""Waiting for keys: without an end while nobody types, as Textual does it otherwise."""

from __future__ import annotations

import os
import selectors
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from gputop.terminal.painting import patience as waiting
from gputop.terminal.painting.patience import LIVELY_SECONDS, Patience

ASKED = 0.0
"""The longest that Textual wants to wait; here it does not at all."""


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
