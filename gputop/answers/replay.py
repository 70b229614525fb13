"""What a recording holds: its span, its GPUs, what happened; and the same for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gputop.answers.question import Answer
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.terminal.clean import clean
from gputop.terminal.writing import NO_FILE, STDOUT, code_of, write_whole
from gputop.topology.model.page import Column, Page, Table, Text
from gputop.topology.model.units import seconds as spoken
from gputop.topology.recorded.sessions.changes import SessionNote
from gputop.topology.recorded.sessions.exported import EXPORTS
from gputop.topology.recorded.sessions.frames import RecordingError
from gputop.topology.recorded.sessions.session_file import SessionFile, clock

MOST_LISTED = 1000
"""Events that are listed; the app and the exports have all."""


class RecordedEvent(SessionNote, frozen=True, kw_only=True, omit_defaults=False):
    """What the recorder noted, with its time."""

    at: float
    """Seconds since the epoch."""
    # A file leaves out what is "", an answer has it always.
    harm: str
    """"broken", "slow", "cannot-tell", "notice"; "" for what is none of these."""
    device: str
    """PCI address; "" where it is about no single GPU."""


class ReplayAnswer(Answer, frozen=True, kw_only=True, tag="gputop.replay/1"):
    """What a recording holds; printed by `gputop replay FILE --json`."""

    file: str
    bytes: int
    readings: int
    first_at: float
    """Seconds since the epoch, as `last_at`."""
    last_at: float
    gpus: tuple[str, ...]
    """PCI addresses, at the beginning."""
    events: tuple[RecordedEvent, ...]
    events_left_out: int
    """Beyond the thousand that are listed."""
    odd: tuple[str, ...]
    """What is odd about the file: a cut, damage, gaps, clocks that jump."""


@contextmanager
def opened(name: str) -> Iterator[SessionFile]:
    """A recording by its name, while it is used. Raises Exit, also for what its reader meets."""
    try:
        session = SessionFile(Path(name))
    except RecordingError as error:
        raise Exit(f"{clean(name, 200)}: {clean(error, 300)}", CANNOT_TELL) from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Exit(f"{clean(name, 200)}: {clean(why, 200)}", USAGE) from error
    try:
        yield session
    except RecordingError as error:
        raise Exit(f"{clean(name, 200)}: {clean(error, 300)}", CANNOT_TELL) from error
    finally:
        session.close()


def told(session: SessionFile) -> ReplayAnswer:
    """What is in a recording. Raises RecordingError."""
    first = session.snapshot(0)
    events = [
        RecordedEvent(at=found.at, **msgspec.structs.asdict(found.note))
        for found in session.notes()
    ]
    return ReplayAnswer(
        source=(session.name,),
        file=session.name,
        bytes=session.size,
        readings=len(session),
        first_at=session.first,
        last_at=session.last,
        gpus=tuple(gpu.address for gpu in first.machine.gpus),
        events=tuple(events[:MOST_LISTED]),
        events_left_out=max(len(events) - MOST_LISTED, 0),
        odd=session.remarks(),
    )


def page(found: ReplayAnswer) -> Page:
    """The span in a sentence, then what happened."""
    lasted = spoken(max(found.last_at - found.first_at, 0.0))
    head = (
        f"{clean(found.file, 200)}: {len(found.gpus)} GPUs, {found.readings:,} readings in "
        f"{lasted}, {clock(found.first_at)} to {clock(found.last_at)}, {found.bytes / 1e6:.2f} MB."
    )
    odd = tuple(Text(f"! {clean(sentence, 300)}") for sentence in found.odd)
    rows = tuple(
        (clock(event.at), event.kind, clean(event.harm, 12), clean(event.text, 300))
        for event in found.events
    )
    heads = (Column("when"), Column("kind"), Column("harm"), Column("what"))
    left = found.events_left_out
    more = (Text(f"and {left:,} more"),) if left else ()
    return Page(title="replay", blocks=(Text(head), *odd, Table(heads, rows), *more))


def export(session: SessionFile, name: str) -> None:
    """Write a recording for another program, by the ending of the file. Raises Exit."""
    if name == STDOUT:
        raise Exit(f"--export {STDOUT}: {NO_FILE}", USAGE)
    path = Path(name)
    written = EXPORTS.get(path.suffix.lower())
    if written is None:
        raise Exit(f"--export {clean(name, 200)}: give it the ending .csv or .json", USAGE)
    try:
        write_whole(path, written(session))
    except RecordingError:
        raise
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Exit(f"{clean(name, 200)}: not written: {clean(why, 200)}", code_of(error)) from error
