"""Lets pyte judge every app of a run of tests.

`python -m pytest -p tests.support.painting.judging tests/gputop`

After each test that drew something, and for each snapshot in each theme, what a terminal shows has
to be the same with Textual's own driver and with ours, cell by cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import textual._doc
from textual.pilot import Pilot

from gputop import theming
from tests.support.app import settle
from tests.support.painting.judge import Watched

_COUNTED: Counter[str] = Counter()
_SHARED = "judged"


async def differences_in_all_themes(watched: Watched, pilot: Pilot[Any]) -> list[str]:
    """What differs in any theme of ours; the theme stays as it was."""
    app = pilot.app
    judged = watched.of(app)
    before, found = app.theme, []
    for theme in theming.builtin():
        if theme.name not in app.available_themes:
            continue
        app.theme = theme.name
        await settle(pilot)
        found += [f"{theme.name}: {one}" for one in judged.differences()]
        _COUNTED.update(pictures=1, cells=app.size.width * app.size.height)
    app.theme = before
    await settle(pilot)
    return found


@pytest.fixture(autouse=True)
def judged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """Compare what each app of the test showed."""
    watched = Watched(monkeypatch)
    found: list[str] = []
    taken = textual._doc.take_svg_screenshot

    def in_all_themes(press: Any = (), run_before: Any = None, **given: Any) -> str:
        kept: list[str] = []

        async def run(pilot: Pilot[Any]) -> None:
            if run_before is not None:
                await run_before(pilot)
            await pilot.press(*press)
            await pilot.wait_for_scheduled_animations()
            await settle(pilot)
            # Taken first: what a thread works out may arrive while the themes change.
            kept.append(pilot.app.export_screenshot(title=pilot.app.title, simplify=True))
            found.extend(await differences_in_all_themes(watched, pilot))
            _COUNTED.update(snapshots=1)

        taken(run_before=run, **given)
        return kept[0]

    monkeypatch.setattr(textual._doc, "take_svg_screenshot", in_all_themes)
    yield watched
    assert found == []
    for one in watched.all:
        if one.judge is not None:
            assert one.differences() == []
            size = one.judge.ours
            _COUNTED.update(
                apps=1,
                frames=one.frames,
                pictures=1,
                cells=size.columns * size.lines,
                textual_bytes=one.judge.theirs_bytes,
                our_bytes=one.judge.ours_bytes,
            )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Give what was counted to the process that started this one."""
    shared = getattr(session.config, "workeroutput", None)
    if shared is not None:
        shared[_SHARED] = dict(_COUNTED)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take what another process counted."""
    _COUNTED.update(getattr(node, "workeroutput", {}).get(_SHARED, {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how much was compared."""
    said = ", ".join(f"{count:,} {name}" for name, count in sorted(_COUNTED.items()))
    terminalreporter.write_line(f"equal with both drivers: {said.replace('_', ' ')}")
