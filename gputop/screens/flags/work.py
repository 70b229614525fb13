"""The work that the Flags screen leaves to a thread: nothing here touches a widget."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gputop.topology.explain.value_rows import ValueRow, in_one_line, value_rows
from gputop.topology.flags.account.account import account, plain
from gputop.topology.flags.catalogue.catalogue import Flag, catalogue, unknown
from gputop.topology.flags.values.values import unread
from gputop.topology.flags.what_if.outcomes import VALUES
from gputop.topology.flags.what_if.study import Stopped, Study
from gputop.topology.flags.what_if.wording import sections
from gputop.topology.model.page import Section
from gputop.topology.node import Node


class FlagDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The details of one flag and of the changes, for the node of one study."""

    name: str
    flag: tuple[Section, ...] = ()
    changes: tuple[Section, ...] = ()
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
            text = plain(flag, study.whose()) if flag is not None else _stranger(name)
            return FlagDetails(name=name, flag=text, trouble=trouble)
        what_if = sections(study.compare({}, changes)) if changes else ()
        if flag is None:
            answer = unknown(name).why
            return FlagDetails(name=name, flag=_stranger(name), changes=what_if, answer=answer)
        rows = value_rows(flag, study, node)
        answer = in_one_line(rows) if rows else _unpredicted(flag, study)
        parts = [_without_table(section) for section in account(flag, study)]
        text = tuple(part for part in parts if not part.empty)
        return FlagDetails(name=name, flag=text, changes=what_if, rows=rows, answer=answer)
    except Stopped:
        return None


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
