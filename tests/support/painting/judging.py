"""Lets pyte judge every app of a run of tests.

`python -m pytest -p tests.support.painting.judging tests/gputop`

After each test that drew something, what a terminal shows has to be the same with Textual's own
driver and with ours, cell by cell. The picture is compared as it stands at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.painting.judge import Watched

_COUNTED: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def judged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compare what each app of the test showed."""
    watched = Watched(monkeypatch)
    yield
    for one in watched.all:
        if one.judge is not None:
            assert one.differences() == []
            _COUNTED.update(
                apps=1,
                frames=one.frames,
                textual_bytes=one.judge.theirs_bytes,
                our_bytes=one.judge.ours_bytes,
            )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how much was compared."""
    terminalreporter.write_line(f"judged: {dict(_COUNTED)}")
