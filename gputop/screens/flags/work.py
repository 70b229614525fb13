"""The flags of one node and the changes tried on it, and the work that is left to a thread."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
from textual.message import Message
from textual.worker import get_current_worker

from gputop.answers.upgrade import Compared
from gputop.printing.render import blocks_of
from gputop.topology.explain.value_rows import ValueRow, in_one_line, value_rows, version_rows
from gputop.topology.flags.account.account import account, plain
from gputop.topology.flags.catalogue.catalogue import Flag, catalogue, unknown
from gputop.topology.flags.values.values import unread
from gputop.topology.flags.what_if.changes import LIBRARIES, FlagChanges, of_variables, version_of
from gputop.topology.flags.what_if.outcomes import VALUES
from gputop.topology.flags.what_if.study import Stopped, Study, versions_to_try
from gputop.topology.flags.what_if.wording import sections
from gputop.topology.model.page import Block, Section, Text
from gputop.topology.model.units import sentence
from gputop.topology.nccl.settings import Settings
from gputop.topology.node import Node
from gputop.topology.upgrade.text import cost_line, head_lines
from gputop.topology.upgrade.upgrade import upgrade

if TYPE_CHECKING:
    from textual.widget import Widget

    from gputop.live.what_if import WhatIfController
    from gputop.topology.flags.values.process import ProcessFlags


class FlagDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The details of one flag and of the changes, for the node of one study."""

    name: str
    head: tuple[str, ...] = ()
    """What stands above the rows."""
    flag: tuple[Block, ...] = ()
    changes: tuple[Block, ...] = ()
    rows: tuple[ValueRow, ...] = ()
    """What each value would do here."""
    answer: str = ""
    """The same in one line."""
    trouble: str = ""
    """Why nothing is predicted."""


def work_out(
    study: Study, node: Node, name: str, changes: Mapping[str, str | None]
) -> FlagDetails | None:
    """Predict what is requested; None when a newer request has replaced this one."""
    flag = catalogue().flag(name)
    try:
        trouble = study.trouble()
        if trouble:
            about = plain(flag, study.whose()) if flag is not None else _stranger(name)
            return FlagDetails(name=name, flag=blocks_of(about), trouble=trouble)
        if name in LIBRARIES:
            return _of_version(study, node, name, changes)
        what_if = blocks_of(sections(study.compare({}, changes))) if changes else ()
        if flag is None:
            return FlagDetails(
                name=name,
                flag=blocks_of(_stranger(name)),
                changes=what_if,
                answer=unknown(name).why,
            )
        rows = value_rows(flag, study, node)
        answer = in_one_line(rows) if rows else _unpredicted(flag, study)
        parts = [_without_table(section) for section in account(flag, study)]
        text = blocks_of(part for part in parts if not part.empty)
        return FlagDetails(name=name, flag=text, changes=what_if, rows=rows, answer=answer)
    except Stopped:
        return None


def _of_version(
    study: Study, node: Node, name: str, changes: Mapping[str, str | None]
) -> FlagDetails:
    """Every version beside the others, and as `gputop explain --against`: what another changes.

    The other one is the one that is tried, else the newest known.
    """
    rows = version_rows(study, node)
    here, values = study.whose(), study.predict(of_variables(changes)).environment
    first, newest = (f"{here.name}-{one}" for one in (here.version, versions_to_try(here)[-1]))
    study.check()
    other, settings = version_of(changes) or newest, Settings(dict(values))
    found = upgrade(study.snapshot, first, other, settings=settings, figures=False)
    head = head_lines(found, "this node", cost_line(found, study.snapshot, whole=study.of_node))
    compared = Compared.of(found, head[2:], None, study.snapshot)
    return FlagDetails(
        name=name,
        head=head[:2],
        flag=(Text(sentence(study.followed)), *compared.blocks()),
        rows=rows,
        answer=in_one_line(rows),
    )


def _unpredicted(flag: Flag, study: Study) -> str:
    """Why there is no table: the library does not read it, or nothing of it is modelled."""
    return unread(flag, study.whose()) or "what it changes is not predicted"


def _without_table(section: Section) -> Section:
    """The section on the values without its table, which stands above in full width."""
    if not section.title.startswith(VALUES):
        return section
    return msgspec.structs.replace(section, table=(), title="What follows from the values")


def _stranger(name: str) -> tuple[Section, ...]:
    return (
        Section(
            title="Not in the catalogue",
            paragraphs=(f"{name}: {unknown(name).why}.",),
        ),
    )


GROUP = "flags"
PAUSE_SECONDS = 0.1
"""How long a request waits for a later one: moving through the list predicts nothing on the way."""


class FlagsController:
    """Keeps one study of the node and one request; threads of `widget` work requests out."""

    class Loaded(Message):
        """The catalogue is in memory."""

    class Ready(Message):
        """A thread has worked something out."""

        def __init__(self, request: tuple[object, ...], details: FlagDetails) -> None:
            super().__init__()
            self.request = request
            self.details = details

    def __init__(self, widget: Widget, what_if: WhatIfController) -> None:
        self._widget = widget
        self._what_if = what_if
        self.study: Study | None = None
        self._of: object = None
        """The study of this shell, or the report and the process, that `study` was made for."""
        self._apart = FlagChanges()
        """Changes for a process, which hold on this screen alone."""
        self.origins: dict[str, str] = {}
        """Who sets a variable: "environment" or the path of a file."""
        self.details: FlagDetails | None = None
        self._request: tuple[object, ...] = ()
        self._done: tuple[object, ...] = ()
        """The request that `details` answers."""
        self._loading = False
        self.loaded = False
        """Whether the catalogue is in memory."""
        self.process: ProcessFlags | None = None
        """Whose variables count instead of this shell's; None for this shell."""

    @property
    def tried(self) -> FlagChanges:
        """The changes: those that hold on all screens, unless a process is shown."""
        return self._what_if.tried if self.process is None else self._apart

    @property
    def answered(self) -> bool:
        """Whether something was asked for and `details` is the answer."""
        return self._done == self._request != ()

    @property
    def answer(self) -> str:
        """One line on what the values of the asked flag do; "" until that is worked out."""
        return self.details.answer if self.details is not None and self.answered else ""

    def load(self) -> None:
        """Read the catalogue in a thread; it posts Loaded."""
        if self._loading:
            return
        self._loading = True

        def load() -> None:
            catalogue()
            self._widget.post_message(self.Loaded())

        self._widget.run_worker(load, thread=True, group="catalogue", exit_on_error=False)

    def renew(self) -> None:
        """Study the node anew when a prediction or the choice of a process has changed."""
        process, shared, real = self.process, self._what_if.study(), self._what_if.real
        of = (shared, process)
        if real is None or shared is None or of == self._of:
            return
        self._of = of
        if process is None:
            self.study = shared
            held = real.snapshot.environment
        else:
            held = process.environment
            values = {variable.name: variable.value for variable in held}
            self.study = Study(real.snapshot, own=process.loaded, values=values)
            self._apart.set_now = self.study.set_now
        self.origins = {variable.name: variable.origin for variable in held}
        self.details = None
        self._done = ()

    def use(self, process: ProcessFlags | None) -> None:
        """Study the node with the variables of a process, or of this shell; forget the changes."""
        self._what_if.tried.wanted.clear()
        self._apart = FlagChanges()
        self.process = process
        self._what_if.show()

    def ask(self, name: str) -> None:
        """Have a thread work out what a flag and the changes do; it posts Ready."""
        study, real = self.study, self._what_if.real
        request = (study, name, tuple(sorted(self.tried.wanted.items(), key=lambda set_: set_[0])))
        if study is None or real is None or request == self._request:
            return
        self._request = request
        if request == self._done:
            self._widget.workers.cancel_group(self._widget, GROUP)
            return
        changes = dict(self.tried.wanted)

        def work() -> None:
            worker = get_current_worker()
            time.sleep(PAUSE_SECONDS)
            if worker.is_cancelled:
                return
            details = work_out(
                study.stop_when(lambda: worker.is_cancelled), real.node, name, changes
            )
            if details is not None and not worker.is_cancelled:
                self._widget.post_message(self.Ready(request, details))

        self._widget.run_worker(work, thread=True, exclusive=True, group=GROUP, exit_on_error=False)

    def accept(self, message: Ready) -> bool:
        """Keep what was worked out; False when something else is asked for by now."""
        if message.request != self._request:
            return False
        self.details, self._done = message.details, message.request
        return True
