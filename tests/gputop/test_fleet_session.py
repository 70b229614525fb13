"""Apps one behind the other: a signal gives the terminal back at the start of each."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from gputop import fleet_session
from gputop.terminal import hangup


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, *hangup.ASKED)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_an_app_behind_another_is_guarded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termios.tcgetattr", lambda _: [])
    heard = []

    def run() -> None:
        heard.append(signal.getsignal(signal.SIGTERM))
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as the end of an event loop does

    app: Any = SimpleNamespace(run=run, _exception=None)
    for _ in range(2):
        fleet_session._run(app)
    assert all(map(callable, heard))
    assert signal.SIG_DFL not in heard
