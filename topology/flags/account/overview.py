"""Which variables are set, by whom, and what each does on a node."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..catalogue.catalogue import Flag, catalogue
from ..values.fits import fit
from ..values.own_words import for_library
from ..values.reading import Reading, skipped
from ..values.values import may_be_read, overridden, read_value, unknown
from ..what_if.effects import Effect
from ..what_if.nothing import because, unpredicted
from ..what_if.outcomes import parts
from ..what_if.study import Study

LIMIT_PREDICTED = 24
"""Most variables that are predicted with and without; each takes some tenths of a second."""


class SetVariable(msgspec.Struct, frozen=True, kw_only=True):
    """One variable that is set."""

    name: str
    value: str
    origin: str
    """"environment", the path of a file, or "--set"."""
    known: bool
    reading: Reading
    said: str = msgspec.field(name="told")
    """What it does on this node, or why it does nothing: one sentence; "told" in JSON."""
    status: str
    """"changes", "nothing", "ignored", "fatal", "unknown", "not predicted"."""
    effect: Effect | None = None
    closest: tuple[str, ...] = ()


def overview(study: Study, origins: Mapping[str, str]) -> tuple[SetVariable, ...]:
    """List every set variable by name. Makes predictions: not for the event loop."""
    void = overridden(study.values)
    found: list[SetVariable] = []
    predicted = LIMIT_PREDICTED if study.trouble() else 0
    for name, value in sorted(study.values.items()):
        flag = catalogue().flag(name)
        origin = origins.get(name, "--set")
        if flag is None:
            found.append(_unknown(name, value, origin))
            continue
        reading = skipped(void[name]) if name in void else _read(flag, value, study)
        known = SetVariable(
            name=name, value=value, origin=origin, known=True, reading=reading, said="", status=""
        )
        fitting = fit(flag.name, value, study.snapshot)
        if fitting is not None and not reading.ignored:
            status = "fatal" if fitting.fatal else "not predicted"
            found.append(msgspec.structs.replace(known, said=fitting.sentence, status=status))
        elif reading.ignored or reading.fatal:
            word = "fatal" if reading.fatal else "ignored"
            start = "The start fails over it" if reading.fatal else "It has no effect"
            said = f"{start}: {reading.why}."
            found.append(msgspec.structs.replace(known, said=said, status=word))
        elif not flag.of_library or flag.kind == "none" or predicted >= LIMIT_PREDICTED:
            said = for_library(flag, study.whose()).changes + _mind(reading)
            found.append(msgspec.structs.replace(known, said=said, status="not predicted"))
        else:
            predicted += 1
            found.append(_predicted(known, flag, study))
    return tuple(found)


def _read(flag: Flag, value: str, study: Study) -> Reading:
    return read_value(flag, value, study.whose())


def _predicted(entry: SetVariable, flag: Flag, study: Study) -> SetVariable:
    comparison = study.set_here(entry.name)
    if comparison.effect.failure[1] and not comparison.effect.failure[0]:
        said, status = f"The start fails over it: {comparison.effect.failure[1]}.", "fatal"
    elif comparison.effect.nothing:
        why = because(flag, entry.reading, comparison.baseline, comparison.changed)
        if unpredicted(flag, entry.reading, comparison.baseline, comparison.changed):
            said, status = f"What it does is not predicted: {why}.", "not predicted"
        else:
            said, status = f"It changes nothing here, because {why}.", "nothing"
    else:
        text = "; ".join(parts(comparison.effect)) or "times alone differ"
        said, status = f"Against leaving it out: {text}.", "changes"
    return msgspec.structs.replace(
        entry, said=said + _mind(entry.reading), status=status, effect=comparison.effect
    )


def _mind(reading: Reading) -> str:
    return f" Mind: {reading.why}." if reading.why else ""


def _unknown(name: str, value: str, origin: str) -> SetVariable:
    why = unknown(name, catalogue())
    read = may_be_read(name, catalogue())
    return SetVariable(
        name=name,
        value=value,
        origin=origin,
        known=False,
        reading=Reading(effective=value, why=why) if read else skipped(why),
        said=f"It is {why}." if read else f"It has no effect: it is {why}.",
        status="not predicted" if read else "unknown",
        closest=() if read else catalogue().closest(name),
    )
