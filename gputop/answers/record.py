"""A live session kept in a file, reading by reading, for `gputop replay` and --from FILE --at."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ClassVar

from gputop.answers.metrics import snapshots_of
from gputop.answers.question import Answer, Clash, NodeRequest, Option, Question
from gputop.answers.record_notes import Noting
from gputop.checking.policy import site
from gputop.checking.runs import all_rules
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.terminal.appending import GrowingFile
from gputop.terminal.clean import clean
from gputop.terminal.lines import warn
from gputop.terminal.writing import code_of
from gputop.topology.diagnosis.policy import Policy
from gputop.topology.model.page import Page, Text
from gputop.topology.model.severity import Word
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.units import seconds as spoken
from gputop.topology.recorded.sessions.encoder import SessionEncoder
from gputop.topology.recorded.sessions.frames import MAGIC, RecordingError
from gputop.topology.recorded.sessions.session_file import ENDING, clock

LEAST_SHARE = 0.5
"""Of an interval has to pass between two readings: what comes sooner holds the same figures."""
RATED_SECONDS = 60.0
"""From so long on a recording says what an hour takes: a whole reading at the start counts less."""
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)\s?([kMGT]?)(i?)B?")
_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(s|m|h|d)?")
_TIMES = {None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class RecordEnd(Word):
    """Why a recording ended."""

    DURATION = "duration"
    SIZE = "size"
    INTERRUPTED = "interrupted"


class RecordRequest(NodeRequest, frozen=True, kw_only=True):
    """Keep a live session in a file, to be played back by `gputop replay`.

    Every reading is in the file once it was taken: what ends the recorder, kill -9 and a full disk
    included, costs nothing that was there before. A recording that is there is gone on with.
    """

    clashes: ClassVar[tuple[Clash, ...]] = (
        Clash(("--from",), ("--output",), "a file does not go on: record this machine or a demo"),
    )
    output: Annotated[
        str,
        Option(
            "--output",
            f"The file; one that is a recording already is gone on with. Usually NAME{ENDING}.",
            "FILE",
            "files",
            short="-o",
        ),
    ] = ""
    interval: Annotated[
        float,
        Option("--interval", "Seconds between two readings.", "SECONDS", least=0.2, most=3600),
    ] = 1.0
    duration: Annotated[
        str | None, Option("--duration", "End after so long: 90s, 10m, 8h, 2d.", "TIME")
    ] = None
    max_size: Annotated[
        str | None,
        Option("--max-size", "End before the file is larger: 500kB, 20MB, 2GB.", "SIZE"),
    ] = None


class RecordAnswer(Answer, frozen=True, kw_only=True, tag="gputop.record/1"):
    """What was recorded."""

    file: str
    readings: int
    """Those of this run; the file may have had some before."""
    bytes: int
    """What they took."""
    first_at: float | None
    """Seconds since the epoch, as `last_at`."""
    last_at: float | None
    ended: RecordEnd


class Recorder:
    """Keeps readings in one file; used by one thread."""

    def __init__(
        self,
        path: Path,
        interval: float = 1.0,
        most_bytes: float | None = None,
        policy: Policy | None = None,
    ) -> None:
        """Begin the file, or go on with it. Raises OSError and ValueError where it cannot."""
        self.path = path
        self._file = GrowingFile(path, MAGIC)
        self._least, self._most_bytes = interval * LEAST_SHARE, most_bytes
        self._encoder, self._noting = SessionEncoder(), Noting(policy)
        self._began_at = self._file.size
        self.readings = 0
        self.first_at: float | None = None
        self.last_at: float | None = None
        self._kept_at = 0.0

    def add(self, snapshot: NodeSnapshot) -> bool:
        """Keep a reading; False where the file would become too large.

        Raises OSError where it cannot be written, and RecordingError for a node too large to keep.
        """
        now = time.monotonic()
        if self.readings and now - self._kept_at < self._least:
            return True
        frame = self._encoder.frame(snapshot, self._noting.of(snapshot))
        if self._most_bytes is not None and self._file.size + len(frame) > self._most_bytes:
            return False
        self._file.append(frame)
        self._kept_at = now
        self.readings += 1
        self.first_at = snapshot.taken_at if self.first_at is None else self.first_at
        self.last_at = snapshot.taken_at
        return True

    @property
    def bytes(self) -> int:
        """What the readings took."""
        return self._file.size - self._began_at

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def failure(recorder_path: Path, error: Exception, last_at: float | None = None) -> str:
    """Why a recorder cannot go on, in one line; what it has stays."""
    why = getattr(error, "strerror", None) or error
    kept = "" if last_at is None else f"; all up to {clock(last_at)} is kept"
    return f"{clean(recorder_path, 200)}: not recorded: {clean(why, 200)}{kept}"


def size_of(text: str) -> float:
    """Bytes: "20MB" are 20 million, "20MiB" a little more. Raises Exit."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise Exit(f"--max-size {clean(text, 30)!r}: write 500kB, 20MB or 2GB", USAGE)
    return float(match[1]) * (1024.0 if match[3] else 1000.0) ** " kMGT".index(match[2] or " ")


def length_of(text: str) -> float:
    """Seconds: "8h". Raises Exit."""
    match = _TIME.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise Exit(f"--duration {clean(text, 30)!r}: write 90s, 10m, 8h or 2d", USAGE)
    return float(match[1]) * _TIMES[match[2]]


def answer(
    asked: RecordRequest,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> RecordAnswer:
    """Record until the duration or the size is reached, or somebody ends it. Raises Exit."""
    if not asked.output:
        raise Exit(f"name the file: gputop record -o NAME{ENDING}", USAGE)
    lasts = None if asked.duration is None else length_of(asked.duration)
    most = None if asked.max_size is None else size_of(asked.max_size)
    path = Path(asked.output)
    decided = site(None, (), all_rules())
    try:
        recorder = Recorder(path, asked.interval, most, decided.policy)
    except (OSError, ValueError) as error:
        raise Exit(failure(path, error), code_of(error)) from error
    ended = RecordEnd.INTERRUPTED
    try:
        warn(f"records to {clean(path, 200)}; Ctrl+C ends it")
        read = snapshots_of(asked, asked.interval)
        begun = due = now()
        while recorder.add(read()):
            due = max(due + asked.interval, now())
            if lasts is not None and due - begun >= lasts:
                ended = RecordEnd.DURATION
                break
            sleep(max(due - now(), 0.0))
        else:
            ended = RecordEnd.SIZE
    except KeyboardInterrupt:
        if not recorder.readings:
            raise
    except (OSError, RecordingError) as error:
        code = code_of(error) if isinstance(error, OSError) else CANNOT_TELL
        raise Exit(failure(path, error, recorder.last_at), code) from error
    finally:
        recorder.close()
    if not recorder.readings:
        raise Exit(f"--max-size {clean(asked.max_size, 30)}: one reading needs more", USAGE)
    return RecordAnswer(
        source=("live",) if asked.demo is None else (f"demo {asked.demo}",),
        file=str(path),
        readings=recorder.readings,
        bytes=recorder.bytes,
        first_at=recorder.first_at,
        last_at=recorder.last_at,
        ended=ended,
    )


def page(found: RecordAnswer) -> Page:
    """How much was recorded, and how to look at it."""
    lasted = (found.last_at or 0.0) - (found.first_at or 0.0)
    rate = f", {found.bytes / lasted * 0.0036:.2f} MB an hour" if lasted >= RATED_SECONDS else ""
    many = f"{found.readings:,} readings in {spoken(lasted)}, {found.bytes / 1e6:.2f} MB{rate}"
    shown = f"{clean(found.file, 200)}: {many}. `gputop replay {clean(found.file, 200)}` plays it."
    return Page(title="record", blocks=(Text(shown),))


QUESTION = Question(
    name="record",
    request=RecordRequest,
    answer=answer,
    page=page,
    listed=False,  # the app records by a key
)
