"""A probe run from the command line: progress on stderr, ended by Ctrl+C."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from gputop.clean import clean
from gputop.commands.options import say

if TYPE_CHECKING:
    from gputop.measuring import Told, Wish
    from gputop.probes.interpreters import Choice
    from gputop.probes.protocol import Message

LEAVE_SECONDS = 10.0
"""After Ctrl+C the worker has this long to go; a driver call may hold it."""


def measure_attended(wish: Wish) -> Told | None:
    """Run one probe; None when it was interrupted and did not leave in time."""
    from gputop.measuring import measure

    cancel = threading.Event()
    told: list[Told] = []
    failed: list[BaseException] = []
    done = threading.Event()
    reporter = _Reporter()

    def run() -> None:
        try:
            told.append(measure(wish, reporter.hear, cancel, reporter.started))
        except BaseException as error:  # noqa: BLE001 - handed to the main thread
            failed.append(error)
        finally:
            done.set()

    # Off the main thread, so that Ctrl+C reaches us while the worker is in a driver call.
    thread = threading.Thread(target=run, name=f"probe {wish.probe}", daemon=True)
    thread.start()
    # Not join(): interrupted, it takes the thread for ended (Python 3.11, bpo-45274).
    try:
        while not done.wait(0.1):
            pass
    except KeyboardInterrupt:
        cancel.set()
        done.wait(LEAVE_SECONDS)
    reporter.close()
    if failed:
        raise failed[0]
    return told[0] if told else None


class _Reporter:
    """Progress for people: one line that is written over on a terminal, silence otherwise."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._open = False

    def started(self, choice: Choice) -> None:
        for line in choice.sentences():
            say(line)

    def hear(self, message: Message) -> None:
        from gputop.probes.protocol import Progress

        if self._terminal and isinstance(message, Progress):
            text = clean(f"{message.done}/{message.total} {message.what}", 100)
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._open = True

    def close(self) -> None:
        if self._open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._open = False
