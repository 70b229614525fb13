"""Lists the variables that are set, and where."""

from __future__ import annotations

from gputop.printing.render import blocks_of, texts
from gputop.topology.flags.account.overview import SetVariable, overview
from gputop.topology.flags.values.process import ProcessFlags
from gputop.topology.flags.what_if.effects import ranks_of
from gputop.topology.flags.what_if.study import Study
from gputop.topology.model.page import Section
from gputop.topology.model.units import sentence

SIGNS = {
    "changes": "has an effect",
    "nothing": "no effect here",
    "ignored": "ignored",
    "fatal": "fails",
    "unknown": "unknown name",
    "not predicted": "set",
}
"""Status of an entry -> the word in front of it."""


def overview_lines(
    study: Study, origins: dict[str, str], process: ProcessFlags | None, width: int
) -> list[str]:
    """The lines of all variables that are set, with their effects on this node."""
    return texts(blocks_of(sections(study, origins, process)), width)


def sections(
    study: Study, origins: dict[str, str], process: ProcessFlags | None
) -> tuple[Section, ...]:
    """The same as sections of a page."""
    trouble = study.trouble()
    library = study.whose()
    ranks = 0 if trouble else len(ranks_of(study.baseline()))
    name = library.name.upper()
    node = f"{ranks} GPU{'s' * (ranks != 1)}, rules of {name} {library.version}"
    found: list[Section] = []
    if process is not None:
        found.append(_process(process, name))
    entries = overview(study, origins)
    if not entries:
        whose = "this process" if process is not None else "this node's environment and files"
        text = f"No variable of {name} and its surroundings is set in {whose}; defaults apply."
        found.append(Section(title=f"What is set ({node})", paragraphs=(text,)))
    found.extend(_entry(entry) for entry in entries)
    notes = study.snapshot.assumptions if process is None else ()
    if notes:
        bullets = tuple(sentence(note) for note in notes)
        found.append(Section(title="Notes", bullets=bullets))
    failure = None if trouble else study.baseline().failure
    if failure:
        found.append(Section(title="As set", paragraphs=(f"{failure}.",)))
    return tuple(found)


def _entry(entry: SetVariable) -> Section:
    where = {"environment": "environment", "--set": "--set"}.get(entry.origin, entry.origin)
    return Section(
        title=f"{entry.name}={entry.value}  ({where}): {SIGNS[entry.status]}",
        paragraphs=(entry.said,),
    )


def _process(process: ProcessFlags, name: str) -> Section:
    who = " of ".join(part for part in (process.command, process.user) if part)
    library = process.library or "not seen"
    return Section(
        title=f"Process {process.pid}" + (f": {who}" if who else ""),
        paragraphs=(f"{name} library: {library}.",),
        bullets=tuple(sentence(note) for note in process.notes),
    )
