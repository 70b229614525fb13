"""The work that the Flags screen leaves to a thread: nothing here touches a widget."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gputop.topology.flags.account.account import account, plain
from gputop.topology.flags.account.whatif_text import sections
from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.flags.values.values import unknown
from gputop.topology.flags.what_if.study import Stopped, Study
from gputop.topology.model.page import Section


class FlagDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The details of one flag and of the changes, for the node of one study."""

    name: str
    flag: tuple[Section, ...] = ()
    changes: tuple[Section, ...] = ()
    summary: str = ""
    """One line on what the changes do."""
    trouble: str = ""
    """Why nothing is predicted."""


def work_out(study: Study, name: str, changes: Mapping[str, str | None]) -> FlagDetails | None:
    """Predict what is requested; None when a newer request has replaced this one."""
    flag = catalogue().flag(name)
    try:
        trouble = study.trouble()
        if trouble:
            text = plain(flag, study.whose()) if flag is not None else _stranger(name)
            return FlagDetails(name=name, flag=text, trouble=trouble)
        what_if: tuple[Section, ...] = ()
        summary = ""
        if changes:
            comparison = study.change(changes)
            what_if = sections(comparison)
            effect = comparison.effect
            summary = f"{effect.pairs_changed} of {effect.pairs_total} pairs change"
            if effect.failure[1]:
                summary = "the start fails"
            elif effect.nothing:
                summary = "nothing changes"
        text = account(flag, study) if flag is not None else _stranger(name)
        return FlagDetails(name=name, flag=text, changes=what_if, summary=summary)
    except Stopped:
        return None


def _stranger(name: str) -> tuple[Section, ...]:
    return (
        Section(
            title="Not in the catalogue",
            paragraphs=(f"{name}: {unknown(name, catalogue())}.",),
        ),
    )
