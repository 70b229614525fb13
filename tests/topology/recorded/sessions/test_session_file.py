"""A recording gives back what was put in, however it is cut, damaged or made up."""

from __future__ import annotations

import os
import random
import time
import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.model.readings import GpuReading, NvLinkReading
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.sessions import frames
from gputop.topology.recorded.sessions.changes import NoteKind, SessionNote
from gputop.topology.recorded.sessions.encoder import BLOCK_FRAMES, SessionEncoder
from gputop.topology.recorded.sessions.frames import (
    HEAD,
    MAGIC,
    MOST_TEXT,
    WHOLE,
    FramePacker,
    RecordingError,
)
from gputop.topology.recorded.sessions.kept import Keeping
from gputop.topology.recorded.sessions.session_file import SessionFile, clock
from tests.support.sessions import BEGUN, busy, demo_readings, frames_of, write_recording

DAY = 86_400


def kept(snapshot: NodeSnapshot) -> dict[str, object]:
    """What a recording keeps of a reading, without its source."""
    return {**Keeping().tree(snapshot), "source": (), "taken_at": snapshot.taken_at}


def changed(snapshot: NodeSnapshot, **fields: object) -> NodeSnapshot:
    """The reading with other fields of its first GPU."""
    first, *rest = snapshot.readings.gpus
    gpus = (msgspec.structs.replace(first, **fields), *rest)
    readings = msgspec.structs.replace(snapshot.readings, gpus=gpus)
    return msgspec.structs.replace(snapshot, readings=readings)


def gone(snapshot: NodeSnapshot) -> NodeSnapshot:
    """The reading without its last GPU."""
    gpus = snapshot.readings.gpus[:-1]
    readings = msgspec.structs.replace(snapshot.readings, gpus=gpus)
    machine = msgspec.structs.replace(snapshot.machine, gpus=snapshot.machine.gpus[:-1])
    return msgspec.structs.replace(snapshot, readings=readings, machine=machine)


def test_every_reading_comes_back_forward_and_in_any_order(tmp_path: Path) -> None:
    plain = demo_readings(BLOCK_FRAMES + 40, "sick-h100-8")
    readings = [*plain[:30], *(gone(one) for one in plain[30:45]), *plain[45:]]
    session = SessionFile(write_recording(tmp_path / "a", readings))
    assert len(session) == len(readings)
    assert not session.remarks()
    order = [*range(0, len(readings), 7), 44, 45, 3, BLOCK_FRAMES, BLOCK_FRAMES - 1, 30, 29]
    for frame in order:
        assert kept(session.snapshot(frame)) == kept(readings[frame]), frame
    assert session.snapshot(50).machine is session.snapshot(51).machine


def test_a_file_cut_at_every_byte_of_its_last_block_opens(tmp_path: Path) -> None:
    readings = demo_readings(8)
    pieces = [*frames_of(readings[:4]), *frames_of(readings[4:])]  # two blocks
    whole = MAGIC + b"".join(pieces)
    ends = [len(MAGIC) + sum(map(len, pieces[:count])) for count in range(len(pieces) + 1)]
    (path := tmp_path / "cut").write_bytes(whole)
    for size in range(len(whole), ends[4] - 1, -1):
        os.truncate(path, size)
        session = SessionFile(path)
        count = sum(end <= size for end in ends[1:])
        assert len(session) == count
        assert bool(session.remarks()) == (size not in ends)
        if size in ends or size % 97 == 0:
            assert kept(session.snapshot(count - 1)) == kept(readings[count - 1])
        session.close()


def test_a_damaged_place_costs_its_block_and_no_other(tmp_path: Path) -> None:
    readings = demo_readings(9)
    pieces = [*frames_of(readings[:3]), *frames_of(readings[3:6]), *frames_of(readings[6:])]
    pieces[4] = pieces[4][:-3] + b"\0\0\0"
    (path := tmp_path / "hurt").write_bytes(MAGIC + b"".join(pieces))
    session = SessionFile(path)
    assert list(session.times) == [BEGUN + second for second in (0, 1, 2, 3, 6, 7, 8)]
    assert "damaged" in session.remarks()[0]
    assert [kept(session.snapshot(at)) for at in (3, 4)] == [kept(readings[at]) for at in (3, 6)]


def test_times_are_understood(tmp_path: Path) -> None:
    session = SessionFile(write_recording(tmp_path / "a", demo_readings(100)))
    stamp = clock(BEGUN + 40)
    for text in ("+40s", "-59", str(BEGUN + 40.4), stamp, stamp.replace(" ", "T"), stamp[11:]):
        assert session.frame_at(session.when(text)) == 40, text
    for text in ("", "soon", "+1h", "25:00", "1970-01-02 00:00", "nan", "inf", "-" * 9):
        with pytest.raises(RecordingError):
            session.when(text)


def test_clocks_that_jump_and_gaps_are_said(tmp_path: Path) -> None:
    steps = (0, 1, 2, -3600, -3599, 4000, 4001)
    readings = [
        msgspec.structs.replace(one, taken_at=BEGUN + step)
        for one, step in zip(demo_readings(7), steps, strict=True)
    ]
    said = SessionFile(write_recording(tmp_path / "a", readings)).remarks()
    assert ["went back" in line for line in said] == [True, False]
    assert "2 h" in said[1]
    assert "nothing was recorded" in said[1]


def test_counters_that_go_back_are_noted(tmp_path: Path) -> None:
    first, second, third = demo_readings(3)
    readings = [changed(first, pcie_replays=505), changed(second, pcie_replays=3), third]
    third_links = tuple(NvLinkReading(link=link, crc_errors=0) for link in range(18))
    links = tuple(NvLinkReading(link=link, crc_errors=9) for link in range(18))
    readings[1] = changed(readings[1], nvlinks=links)
    readings[2] = changed(third, nvlinks=third_links, pcie_replays=4)
    found = list(SessionFile(write_recording(tmp_path / "a", readings)).notes())
    assert [(one.frame, one.note.kind) for one in found] == [(1, "counter"), (2, "counter")]
    assert "pcie replays" in found[0].note.text
    assert "crc errors" in found[1].note.text


def test_notes_are_found_again_in_any_order(tmp_path: Path) -> None:
    notes = {at: (SessionNote(NoteKind.EVENT, f"at {at}"),) for at in (0, 5, 640)}
    session = SessionFile(write_recording(tmp_path / "a", demo_readings(650), notes))
    assert [(one.frame, one.note.text) for one in session.notes()] == [
        (0, "at 0"), (5, "at 5"), (640, "at 640"),
    ]  # fmt: skip
    session.snapshot(5)
    assert session.notes_of(5)[0].text == "at 5"
    assert not session.notes_of(4)


@given(data=st.data())
def test_hostile_recordings_are_refused_in_a_line(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = bytearray(_SMALL)
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(len(MAGIC), len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("hostile") / "a"
    path.write_bytes(whole)
    assert len(_read_all(path).splitlines()) <= 1


_SMALL = MAGIC + b"".join(frames_of(demo_readings(3, "dgx-1v")))


def _read_all(path: Path) -> str:
    """The one line with which a recording is refused; "" where all of it can be read."""
    try:
        session = SessionFile(path)
        for frame in range(len(session)):
            session.snapshot(frame)
        list(session.notes())
    except RecordingError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "text",
    [
        b"[]", b"{", b"{}", b'{"snapshot": {}}', b'{"snapshot": {"machine": 3}}',
        b'{"snapshot": {"a":' + b"[" * 5000 + b"]" * 5000 + b"}}", b"\xff",
        b'{"snapshot": {"readings": {"gpus": [{"address": 1}]}}}',
    ],
)  # fmt: skip
def test_a_first_frame_that_is_no_snapshot_is_refused(text: bytes, tmp_path: Path) -> None:
    frame = FramePacker().pack(text, BEGUN, whole=True, noted=False)
    (path := tmp_path / "a").write_bytes(MAGIC + frame)
    assert _read_all(path).startswith("the reading of ") or text == b'{"snapshot": {}}'


@pytest.mark.parametrize(
    "text",
    [
        b'{"places": [0], "values": [1]}', b'{"named": [["nix"]], "places": [0], "values": [1]}',
        b'{"named": [[]], "places": [0], "values": [1]}', b'{"places": [-1], "values": [1]}',
        b'{"named": [["readings", "gpus", 99]], "places": [0], "values": [1]}',
        b'{"named": [["machine"]], "places": [0], "values": [7]}', b'{"places": [0], "values": []}',
        b'{"named": [["readings", "gpus", "0"]], "places": [0], "values": [1]}',
    ],
)  # fmt: skip
def test_changes_that_do_not_fit_are_refused(text: bytes, tmp_path: Path) -> None:
    encoder = SessionEncoder()
    whole = encoder.frame(demo_readings(1)[0])
    frame = encoder._packer.pack(text, BEGUN + 1, whole=False, noted=False)
    (path := tmp_path / "a").write_bytes(MAGIC + whole + frame)
    assert _read_all(path).startswith("the reading of ")


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    frame = FramePacker().pack(b" " * (MOST_TEXT + 1), BEGUN, whole=True, noted=False)
    (path := tmp_path / "a").write_bytes(MAGIC + frame)
    assert len(frame) < MOST_TEXT // 100
    assert "more than 8 MiB" in _read_all(path)


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_time_that_no_calendar_has_is_damage(at: float, tmp_path: Path) -> None:
    frame = FramePacker().pack(b"{}", at, whole=True, noted=False)
    (path := tmp_path / "a").write_bytes(MAGIC + frame)
    assert _read_all(path) == "a recording without a whole reading"


def test_a_file_of_signs_alone_takes_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "_CHUNK", 1 << 16)
    (path := tmp_path / "a").write_bytes(MAGIC + HEAD.pack(b"Gt", WHOLE, 0, 1.0, 7) * 20_000)
    begun = time.thread_time()
    assert _read_all(path) == "a recording without a whole reading"
    assert time.thread_time() - begun < 5.0


def test_frames_are_what_the_page_says(tmp_path: Path) -> None:
    """The format by hand, so that a later version still reads what this one wrote."""
    text = b'{"snapshot":{"readings":{}},"notes":[{"kind":"event","text":"x"}]}'
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    payload = (packed.compress(text) + packed.flush(zlib.Z_SYNC_FLUSH))[:-4]
    head = HEAD.pack(b"Gt", 3, len(payload), BEGUN, 0)
    told = zlib.crc32(head[2:3] + head[7:15] + payload)
    (path := tmp_path / "a").write_bytes(
        b"gputop recording 1\n" + head[:15] + told.to_bytes(4, "little") + payload
    )
    assert [one.note.text for one in SessionFile(path).notes()] == ["x"]


def test_a_day_of_eight_gpus_is_small_and_quick(tmp_path: Path) -> None:
    """24 h at 1 Hz: opens in 1 s, jumps in 0.2 s, 2 MB an hour; limits are for slow machines."""
    chance, readings = random.Random(1), demo_readings(200)
    encoder, path = SessionEncoder(), tmp_path / "day"
    hour = [encoder.frame(busy(readings[at % 200], BEGUN + at, chance)) for at in range(3600)]
    assert sum(map(len, hour)) < 2_000_000
    # The other hours are the same ones at later times: what they cost to read is the same.
    with path.open("wb") as file:
        file.write(MAGIC)
        for start in range(0, DAY, 3600):
            file.writelines(_later(frame, start) for frame in hour)
    begun = time.thread_time()
    session = SessionFile(path)
    opened = time.thread_time()
    assert len(session) == DAY
    assert not session.remarks()
    assert opened - begun < 3.0
    worst = 0.0
    for frame in (BLOCK_FRAMES * 71 - 1, 3, DAY - 1, DAY // 2 + 599, 77_777):
        begun = time.thread_time()
        assert isinstance(session.snapshot(frame).readings.gpus[0], GpuReading)
        worst = max(worst, time.thread_time() - begun)
    assert worst < 0.6


def _later(frame: bytes, seconds: int) -> bytes:
    sign, flags, length, at, _ = HEAD.unpack_from(frame)
    payload = frame[HEAD.size :]
    told = frames._sum(flags, at + seconds, payload)
    return HEAD.pack(sign, flags, length, at + seconds, told) + payload
