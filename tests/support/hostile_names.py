"""Names that somebody gave a host, a device, a variable or a file in order to be obeyed.

None of them may stand in a line for copying, with quotes or without.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from gputop.topology.fleet.draining import Drain
from gputop.topology.jobs.standing import JobState
from gputop.topology.model.page import Commands, Fix

HOSTILE = (
    "ALL", "all", "All", "DEFAULT", "default", "none", "None", "NONE", "any",  # Slurm, drivers
    "yes", "no", "on", "off", "true", "False", "null", "y", "N", "0x1f", "1e3", "1_000", "- a",
    "a: b", "a #b", "&a", "*a", "{a: b}", "!!int 1", "| a", "%a", "@all", "?", "~",  # YAML
    "-A", "--all", "-w", "--", "-", "--reboot=now",  # options
    "*", "g*", "g?", "g[1-9]", "[0-9]", "{a,b}", "g{1..9}", "1-9", "7", "g1,g2", "^hosts", "a!b",
    "@", "a&b", "/etc/*", "~root",  # patterns, ranges, lists
    "a b", " a", "a ", "a\tb", ";", "a;reboot", "a|reboot", "a&&reboot", "a>b", "<a", "$(reboot)",
    "`reboot`", "${HOME}", "$HOME", "'", '"', "a'b", 'a"b', "\\", "a\\", "(a)", "a $ reboot",
    "a # reboot", "#",  # shells
    "a\nreboot", "a\rb", "\n", "\0", "a\0b", "\x1b[2J", "\x9b2J", "a\u202eb", "a\u200bb", "\ufeffa",
    "\udcff", "ä", "а", "a" * 300, "",  # what is not seen, or not what it seems
)  # fmt: skip
HARMLESS = re.compile(r"[^\"`$\\!\x00-\x1f\x7f-\x9f\u200b\u202e\ufeff\udcff]{0,255}")
"""Those that are harmless as the quoted value of a variable, and as somebody's own folder."""
_WORDS = re.compile(r"""[\s=,;'"\[\]/]+""")


def lines_in(part: Any) -> Iterator[str]:
    """Every line for copying in a finding, a page, an answer; whatever holds one is found."""
    if isinstance(part, Fix | Drain):
        yield part.command
    elif isinstance(part, Commands):
        yield from part.commands
    elif isinstance(part, msgspec.Struct):
        if isinstance(part, JobState):
            yield from part.steps
        for name in part.__struct_fields__:
            yield from lines_in(getattr(part, name))
    elif isinstance(part, list | tuple):
        for item in part:
            yield from lines_in(item)


def obeyed(name: str, lines: Iterable[str], sound: Iterable[str] = ()) -> list[str]:
    """The lines with a hostile name, but for those that are there without it."""
    said = "reboot" if "reboot" in name else name.strip()
    if not said:
        return []
    short = said.isalnum() or len(said) < 3
    known = set(sound)
    return [
        line
        for line in lines
        if line not in known and (said in _WORDS.split(line) if short else said in line)
    ]
