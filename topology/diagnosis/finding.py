"""Finding: what a rule or a debug log says, with proof, consequence and fix."""

from __future__ import annotations

import msgspec

from ..model.page import Evidence, Fix

__all__ = [
    "BROKEN", "BY_DESIGN", "CANNOT_TELL", "NOTICE", "SEVERITIES", "SLOW", "SURENESS",
    "Evidence", "Finding", "Fix",
]  # fmt: skip

BROKEN, SLOW, NOTICE = "broken", "slow", "notice"
BY_DESIGN, CANNOT_TELL = "by-design", "cannot-tell"
SEVERITIES = (BROKEN, SLOW, CANNOT_TELL, NOTICE, BY_DESIGN)
"""The most harmful first. broken: a job hangs, crashes or computes wrong; slow: it takes longer
than this hardware needs; cannot-tell: something that decides could not be examined; notice: worth
knowing, harmless by itself; by-design: looks odd and is right."""
SURENESS = ("certain", "likely", "possible")
"""How sure a cause is. certain: the lines say it; likely: it is their usual cause; possible: it is
one of several."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding about some devices."""

    id: str
    """Id of the rule, or of the symptom of a log; kebab-case, stable."""
    peers: str = ""
    """Number of the kind of trouble, "D07", as in the rule; empty where it has none."""
    severity: str
    """One of SEVERITIES."""
    title: str
    """One line, with the devices by their names."""
    brief: str = ""
    """What is wrong with its one device in a few words, for a line that names the device: "16 of
    18 NVLinks"; empty where the title is short enough. It is no part of the JSON."""
    devices: tuple[str, ...] = ()
    """PCI addresses; empty where it concerns the whole node."""
    evidence: tuple[Evidence, ...] = ()
    disproof: str = ""
    """What would show that this is wrong."""
    consequence: str = ""
    """What follows for a job on this node."""
    cost: str = ""
    """The same as two figures for a column, GB/s on a healthy node and here: "473→355"."""
    fix: tuple[Fix, ...] = ()
    sources: tuple[str, ...] = ()
    cause: str = ""
    """The likely cause; only symptoms of logs have it, as rules say it in the title."""
    look: tuple[str, ...] = ()
    """Where to look for more, without root: only for symptoms of logs."""
    sureness: str = ""
    """One of SURENESS, for symptoms of logs; empty for rules, which say only what was read."""
    count: int = 0
    """How many lines of a log show it; `evidence` quotes the first few."""

    @property
    def key(self) -> tuple[str, tuple[str, ...], str]:
        """Its identity for as long as its cause lasts: rule, devices and title."""
        return self.id, self.devices, self.title

    @property
    def commands(self) -> tuple[str, ...]:
        """Its commands. They are copied one by one: pasted together, a reset would run unread."""
        return tuple(fix.command for fix in self.fix if fix.command)
