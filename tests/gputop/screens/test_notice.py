"""What the app says in a corner of the screen."""

from __future__ import annotations

import time

from textual.widgets._toast import Toast

from gputop.app import GpuTop
from gputop.screens.notice import LEAST_SECONDS, Notice
from gputop.terminal.clean import clean
from tests.support.app import rounds


def test_a_notice_that_has_just_expired_leaves_a_timer_some_time() -> None:
    expired = Notice("said", raised_at=time.time() - 6.0001)
    assert expired.has_expired
    assert expired.time_left == LEAST_SECONDS
    assert not Notice("said").has_expired


async def test_a_toast_that_expires_while_it_is_made_does_not_stop_the_app() -> None:
    async with GpuTop().run_test() as pilot:
        toast = Toast(Notice("said", raised_at=time.time() - 7))
        await pilot.app.screen.mount(toast)
        async for _ in rounds(pilot):
            if not toast.is_attached:
                break
        assert not toast.is_attached


async def test_a_later_notice_takes_the_place_of_an_earlier_one() -> None:
    async with GpuTop().run_test(notifications=True) as pilot:
        for word in ("one", "two", "three"):
            pilot.app.say(word)  # type: ignore[attr-defined]
        async for _ in rounds(pilot):
            if pilot.app.screen.query(Toast):
                break
        assert [said.message for said in pilot.app._notifications] == ["three"]
        assert len(pilot.app.screen.query(Toast)) == 1


async def test_the_app_says_all_in_notices() -> None:
    async with GpuTop().run_test() as pilot:
        pilot.app.say("a\x1b[31mb", title="t", timeout=9)  # type: ignore[attr-defined]
        await pilot.pause()
        (said,) = pilot.app._notifications
        assert isinstance(said, Notice)
        assert said.message == clean("a\x1b[31mb", 60)
        assert (said.title, said.timeout, said.markup) == ("t", 9, False)
