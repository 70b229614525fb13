"""Pages: text about something on this node, without a width, an ink or a screen.

Explanations, findings and accounts of variables are made of these records; `gputop.pages` prints
them, once for a terminal and once for a screen.
"""

from __future__ import annotations

import msgspec

READ, MEASURED, ASSUMED, SIMULATED = "read", "measured", "assumed", "simulated"


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One step: a question, its answer, and how that is known."""

    question: str
    answer: str
    because: str = ""
    source: str = ""
    basis: str = READ
    """"measured", "simulated", "read" or "assumed"; "" where it goes without saying."""
    flag: str = ""
    """Variable that would change the answer."""
    decides: bool = False
    """Whether this answer settled the matter."""
    about: str = ""
    """"nccl" for the library's own questions, "" for what holds without it."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that was read or measured."""

    what: str
    """"NVLinks of GPU3 that are up"."""
    value: str
    """"16 of 18"."""
    source: str
    """Where it was read: "NVML nvmlDeviceGetNvLinkState", "/proc/cmdline", "probe p2p"."""
    line: int | None = None
    """Number of the log line that `value` quotes; None for everything else."""


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """One action that helps."""

    text: str
    command: str = ""
    """A command to be copied as it is; empty where there is none."""
    needs_root: bool = False

    @property
    def lines(self) -> tuple[str, ...]:
        """What to do and who may do it, then the command, each on its own line."""
        root = " (needs root)" if self.needs_root else ""
        return (self.text + root, *(line for line in self.command.split("\n") if line))


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A heading and what stands below it."""

    title: str
    paragraphs: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()
    """Rows of cells, the first one is the head; printed between the title and the paragraphs."""
    bullets: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Nothing stands below the heading."""
        return not (self.paragraphs or self.table or self.bullets)


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to "why": a claim, the facts behind it, what follows, and what to do."""

    title: str
    claim: str
    facts: tuple[Fact, ...] = ()
    consequence: str = ""
    fix: tuple[Fix, ...] = ()
    """What follows from it; empty where nothing is proven to be wrong."""

    @property
    def fix_text(self) -> str:
        """All actions, each on its own line."""
        return "\n".join(line for fix in self.fix for line in fix.lines)

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands of the actions, to be copied one by one."""
        return tuple(fix.command for fix in self.fix if fix.command)
