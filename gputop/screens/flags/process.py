"""Whose variables the Flags screen shows: this shell's, or those a running process has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from gputop.terminal.clean import clean
from gputop.topology.flags.values.process import ProcessError, ProcessFlags
from gputop.topology.flags.values.process import read as read_process
from gputop.topology.wiring.graph import gpu_label
from gputop.widgets.panels import ChoicePanel

if TYPE_CHECKING:
    from gputop.screens.view import View
    from gputop.topology.model.snapshot import NodeSnapshot

HERE, TYPED = "", "typed"
MOST = 200
"""Processes that are offered; a number can be typed for any other."""


class ProcessChoice:
    """Lets the user choose a process; a thread of the screen reads its environment."""

    class Read(Message):
        """The variables of a process, or why they cannot be read."""

        def __init__(self, found: ProcessFlags | None, trouble: str = "") -> None:
            super().__init__()
            self.found = found
            self.trouble = trouble

    def __init__(self, view: View) -> None:
        self._view = view

    def open(self, chosen: ProcessFlags | None) -> None:
        """Offer this shell and the processes on the GPUs; posts Read for the choice."""
        report = self._view.report
        if report is None or report.snapshot.source != ("live",):
            self._say("processes are those of the live node alone")
            return
        options = [
            (HERE, "this shell and its configuration files"),
            *offered(report.snapshot),
            (TYPED, "another process: type its number"),
        ]

        def look(choice: str | None) -> None:
            if choice == TYPED:
                line = self._view.open_line("number of a process", kind="pid")
                self._view.run_worker(line, exit_on_error=False)
            elif choice is not None:
                self.look_at(choice)

        pid = HERE if chosen is None else str(chosen.pid)
        self._view.app.push_screen(ChoicePanel("Whose variables?", options, pid), look)

    def look_at(self, words: str) -> None:
        """Read a process by its number; "" goes back to this shell."""
        if not words:
            self._view.post_message(self.Read(None))
            return
        if not words.isdecimal() or not 0 < int(words) < 2**31:
            self._say(f"{clean(words, 20)!r} is no number of a process")
            return

        def read() -> None:
            try:
                answer = self.Read(read_process(int(words)))
            except ProcessError as error:
                answer = self.Read(None, str(error))
            self._view.post_message(answer)

        self._view.run_worker(
            read, thread=True, exclusive=True, group="process", exit_on_error=False
        )

    def _say(self, text: str) -> None:
        self._view.gputop.say(text, severity="warning")


def title(process: ProcessFlags) -> str:
    """Name a process: "4711 python3 (alice)"."""
    words = f"{process.pid} {clean(process.command or '', 30)}".strip()
    return f"{words} ({clean(process.user, 30)})" if process.user else words


def offered(snapshot: NodeSnapshot) -> list[tuple[str, str]]:
    """Processes on the GPUs: number, and a line with program, user and GPUs."""
    held: dict[int, list[str]] = {}
    for gpu in snapshot.readings.gpus:
        part = snapshot.machine.gpu(gpu.address)
        label = gpu.address if part is None else gpu_label(part)
        for process in gpu.processes or ():
            held.setdefault(process.pid, []).append(label)
    described = {reading.pid: reading for reading in snapshot.readings.processes}
    found = []
    for pid in sorted(held)[:MOST]:
        known = described.get(pid)
        words = [str(pid), clean((known and known.command) or "", 30)]
        if known is not None and known.user:
            words.append(f"({clean(known.user, 30)})")
        found.append((str(pid), " ".join([*filter(None, words), "on", *held[pid]])))
    return found
