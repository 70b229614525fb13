"""Reads and compares a log in a thread of its own, because a large one takes seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from gputop.answers.log import ReadError, read_path, read_stream
from gputop.topology.diagnosis.symptoms.log import examine, fits
from gputop.topology.model.errors import GputopError

if TYPE_CHECKING:
    from gputop.topology.diagnosis.symptoms.log import ReadLog
    from gputop.topology.model.snapshot import NodeSnapshot


class LogProgress(Message):
    """The number of bytes read so far."""

    def can_replace(self, message: Message) -> bool:
        """Only the newest counts."""
        return isinstance(message, LogProgress)

    def __init__(self, reading: LogThread, read_bytes: int, total_bytes: int | None) -> None:
        super().__init__()
        self.reading, self.read_bytes, self.total_bytes = reading, read_bytes, total_bytes


class LogReady(Message):
    """The log is read."""

    def __init__(self, reading: LogThread, read: ReadLog) -> None:
        super().__init__()
        self.reading, self.read = reading, read


class LogFailed(Message):
    """The log cannot be used, in one line."""

    def __init__(self, reading: LogThread, text: str) -> None:
        super().__init__()
        self.reading, self.text = reading, text


class _Cancelled(GputopError):  # noqa: N818 - nobody wants the answer any more
    pass


class LogThread:
    """Reads one file, or a pasted text; posts its progress and then the result."""

    def __init__(
        self,
        path: Path,
        snapshot: NodeSnapshot | None,
        post: Callable[[Message], object],
        text: str | None = None,
    ) -> None:
        """`text` is read instead of the file; `path` is then only a name."""
        self.path = path
        self._text = text
        self._snapshot = snapshot
        self._post = post
        self._stop = threading.Event()
        self._total: int | None = None

    def start(self) -> None:
        """Begin in a daemon thread, for which leaving the app does not wait."""
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def cancel(self) -> None:
        """Stop; nothing more is posted."""
        self._stop.set()

    def _heard(self, read_bytes: int) -> None:
        if self._stop.is_set():
            raise _Cancelled
        self._post(LogProgress(self, read_bytes, self._total))

    def _run(self) -> None:
        try:
            # The full size of a compressed file is not known, so no share is either.
            if self._text is not None:
                data = self._text.encode("utf-8", "replace")
                log = read_stream(BytesIO(data), self.path.name, self._heard)
            else:
                if self.path.suffix != ".gz" and self.path.is_file():
                    self._total = self.path.stat().st_size
                log = read_path(self.path, self._heard)
            node = self._snapshot
            if node is not None and not fits(log, node):
                node = None
            answer: Message = LogReady(self, examine(log, node))
        except _Cancelled:
            return
        except (ReadError, OSError) as error:
            answer = LogFailed(self, str(error))
        except Exception as error:  # noqa: BLE001 - a thread's border: said on the screen
            answer = LogFailed(self, f"{type(error).__name__}: {error} (our fault)")
        if not self._stop.is_set():
            self._post(answer)
