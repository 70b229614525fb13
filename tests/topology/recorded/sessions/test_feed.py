"""A recording plays, stands still, steps, jumps, and says what it met."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from gputop.topology.recorded.sessions import feed as feeds
from gputop.topology.recorded.sessions.changes import NoteKind, SessionNote
from gputop.topology.recorded.sessions.feed import ReplayFeed
from gputop.topology.recorded.sessions.session_file import SessionFile
from tests.support.sessions import BEGUN, demo_readings, write_recording

NOTES = {
    0: (SessionNote(NoteKind.RECORDER, "begins"),),
    40: (SessionNote(NoteKind.EVENT, "lost"),),
    60: (SessionNote(NoteKind.EVENT, "x"),),
}


@pytest.fixture
def replayed(tmp_path: Path) -> ReplayFeed:
    """A recording of 100 seconds, at its beginning."""
    return ReplayFeed(SessionFile(write_recording(tmp_path / "a", demo_readings(100), NOTES)))


def at(feed: ReplayFeed) -> float:
    """Seconds after the beginning."""
    return feed.snapshot().taken_at - BEGUN


def test_it_plays_at_its_speed(replayed: ReplayFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [time.monotonic()]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    replayed.step(0)
    replayed.pause()
    assert at(replayed) == 0
    now[0] += 3.5
    assert at(replayed) == 3
    replayed.faster(1)
    assert replayed.speed == 2.0
    now[0] += 4.1
    assert at(replayed) == 11
    replayed.pause()
    now[0] += 50
    assert at(replayed) == 11
    assert replayed.paused
    replayed.pause()
    now[0] += 500
    assert at(replayed) == 99
    assert replayed.paused
    replayed.pause()
    assert at(replayed) == 0
    assert not replayed.paused


def test_a_gap_is_played_for_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three = demo_readings(3)
    later = [msgspec.structs.replace(two, taken_at=BEGUN + 9000)]
    back = [msgspec.structs.replace(three, taken_at=BEGUN - 50)]
    now = [time.monotonic()]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    feed = ReplayFeed(SessionFile(write_recording(tmp_path / "a", [one, *later, *back])))
    assert at(feed) == 0
    now[0] += feeds.IDLE_SECONDS + 0.1
    assert at(feed) == -50  # the clock went back: the next reading follows at once


def test_steps_and_jumps_stay_inside(replayed: ReplayFeed) -> None:
    for frames, there in ((5, 5), (-9, 0), (1000, 99), (-1, 98)):
        replayed.step(frames)
        assert at(replayed) == there
        assert replayed.paused
    replayed.jump(BEGUN + 12.7)
    assert at(replayed) == 12
    replayed.jump(0.0)
    assert at(replayed) == 0


def test_events_are_found_both_ways(replayed: ReplayFeed) -> None:
    assert [note.text for note in replayed.to_event(1)] == ["lost"]
    assert at(replayed) == 40
    assert replayed.to_event(1)[0].text == "x"
    assert replayed.to_event(1) == ()
    assert at(replayed) == 60
    assert [replayed.to_event(-1)[0].text for _ in range(2)] == ["lost", "begins"]
    assert at(replayed) == 0


def test_charts_get_the_minutes_before(replayed: ReplayFeed) -> None:
    replayed.jump(BEGUN + 50)
    past = replayed.earlier()
    assert [moment - BEGUN for moment, _ in past] == [*range(50)]
    known = demo_readings(1)[0].readings.gpus
    assert [one.temperature_c for one in past[0][1]] == [one.temperature_c for one in known]
    assert at(replayed) == 50


def test_damage_met_while_playing_is_said(tmp_path: Path) -> None:
    path = write_recording(tmp_path / "a", demo_readings(30))
    feed = ReplayFeed(SessionFile(path))
    assert at(feed) == 0
    path.write_bytes(path.read_bytes()[:-20])
    feed.step(29)
    assert at(feed) == 0
    assert "shorter" in feed.trouble


def test_somebody_who_waits_hears_of_a_jump(replayed: ReplayFeed) -> None:
    replayed.step(0)
    replayed.snapshot()
    assert not replayed.wait(0.01)
    replayed.step(1)
    assert replayed.wait(5.0)
