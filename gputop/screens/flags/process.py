"""Whose variables the Flags screen shows: this shell's, or those a running process has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from gputop.screens.flags.controller import FlagDesk
from gputop.terminal.clean import clean
from gputop.topology.wiring.graph import gpu_label

if TYPE_CHECKING:
    from gputop.topology.flags.values.process import ProcessFlags
    from gputop.topology.model.snapshot import NodeSnapshot

HERE, TYPED = "", "typed"
MOST = 200
"""Processes that are offered; a number can be typed for any other."""


class FlagProcess(FlagDesk):
    """Lets a person choose a process; its environment is read in a thread."""

    class Read(Message):
        """What a process runs with, or why that cannot be read."""

        def __init__(self, found: ProcessFlags | None, trouble: str = "") -> None:
            super().__init__()
            self.found = found
            self.trouble = trouble

    def action_process(self) -> None:
        """Choose whose variables are shown."""
        report = self.report
        if report is None or report.snapshot.source != ("live",):
            self.gputop.say("processes are those of the live node alone", severity="warning")
            return
        from gputop.widgets.panels import Choice

        chosen = HERE if self.process is None else str(self.process.pid)
        options = [
            (HERE, "this shell and its configuration files"),
            *offered(report.snapshot),
            (TYPED, "another process: type its number"),
        ]

        def look(choice: str | None) -> None:
            if choice == TYPED:
                self.run_worker(
                    self.open_line("number of a process", kind="pid"), exit_on_error=False
                )
            elif choice is not None:
                self.look_at(choice)

        self.app.push_screen(Choice("Whose variables?", options, chosen), look)

    def look_at(self, words: str) -> None:
        """Read a process by its number; without one, go back to this shell."""
        if not words:
            self.use(None)
            return
        if not words.isdecimal() or not 0 < int(words) < 2**31:
            self.gputop.say(f"{clean(words, 20)!r} is no number of a process", severity="warning")
            return

        def read() -> None:
            from gputop.topology.flags.values import process

            try:
                self.post_message(self.Read(process.read(int(words))))
            except process.ProcessError as error:
                self.post_message(self.Read(None, str(error)))

        self.run_worker(read, thread=True, exclusive=True, group="process", exit_on_error=False)

    def on_flag_process_read(self, message: Read) -> None:
        """Show what the process runs with."""
        if message.found is None:
            self.gputop.say(message.trouble, severity="warning")
            return
        self.gputop.say(" ".join(message.found.notes), title=title(message.found), timeout=10)
        self.use(message.found)

    def use(self, process: ProcessFlags | None) -> None:
        """Study the node with the variables of a process, or with its own."""
        self.process = process
        self.tried.wanted.clear()
        self.redraw()

    def whose(self) -> str:
        """Who set what is marked as set."""
        return "here" if self.process is None else f"in {title(self.process)}"


def title(process: ProcessFlags) -> str:
    """Name a process: "4711 python3 (alice)"."""
    words = f"{process.pid} {clean(process.command or '', 30)}".strip()
    return f"{words} ({clean(process.user, 30)})" if process.user else words


def offered(snapshot: NodeSnapshot) -> list[tuple[str, str]]:
    """Processes on the GPUs: number, and a line with program, user and GPUs."""
    held: dict[int, list[str]] = {}
    for gpu in snapshot.readings.gpus:
        known = snapshot.machine.gpu(gpu.address)
        label = gpu.address if known is None else gpu_label(known)
        for one in gpu.processes or ():
            held.setdefault(one.pid, []).append(label)
    described = {one.pid: one for one in snapshot.readings.processes}
    found = []
    for pid in sorted(held)[:MOST]:
        told = described.get(pid)
        words = [str(pid), clean((told and told.command) or "", 30)]
        if told is not None and told.user:
            words.append(f"({clean(told.user, 30)})")
        found.append((str(pid), " ".join([*filter(None, words), "on", *held[pid]])))
    return found
