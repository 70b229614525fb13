"""Which variables are set, by whom, and what each does on a node."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...model.severity import FlagStatus
from ...model.units import sentence
from ..catalogue.catalogue import Flag, catalogue, program_of, unknown
from ..values.fits import fit
from ..values.values import (
    Reading,
    for_library,
    overridden,
    read_value,
    skipped,
)
from ..what_if.effects import Effect
from ..what_if.study import Study
from ..what_if.wording import no_effect, parts

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
    status: FlagStatus
    effect: Effect | None = None
    closest: tuple[str, ...] = ()
    read_by: str = ""
    """The program beside NCCL that reads it, by its name; "" for NCCL and what it stands on."""


class _Said(msgspec.Struct, frozen=True):
    """What is said of a variable, before it is put together."""

    status: FlagStatus
    text: str
    effect: Effect | None = None


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
        reading = skipped(void[name]) if name in void else read_value(flag, value, study.whose())
        said = _read(flag, value, reading, study)
        if said is None and flag.modelled and predicted < LIMIT_PREDICTED:
            predicted += 1
            said = _predicted(name, flag, reading, study)
        if said is None:
            changes = for_library(flag, study.whose()).changes
            said = _Said(FlagStatus.NOT_PREDICTED, changes + _mind(reading))
        found.append(
            SetVariable(
                name=name,
                value=value,
                origin=origin,
                known=True,
                reading=reading,
                said=said.text,
                status=said.status,
                effect=said.effect,
                read_by=flag.program.title if flag.program else "",
            )
        )
    return tuple(found)


def _read(flag: Flag, value: str, reading: Reading, study: Study) -> _Said | None:
    """What the value alone says; None where that depends on a prediction."""
    if reading.ignored:
        return _Said(FlagStatus.IGNORED, f"It has no effect: {reading.why}.")
    fitting = fit(flag, value, study.snapshot)
    if fitting is not None:
        status = FlagStatus.FATAL if fitting.fatal else FlagStatus.NOT_PREDICTED
        return _Said(status, fitting.sentence)
    if reading.fatal:
        return _Said(FlagStatus.FATAL, f"The start fails over it: {reading.why}.")
    return None


def _predicted(name: str, flag: Flag, reading: Reading, study: Study) -> _Said:
    """What a variable changes against leaving it out."""
    comparison = study.compare({name: None}, {name: study.values[name]})
    effect = comparison.effect
    if effect.failure[1] and not effect.failure[0]:
        status, text = FlagStatus.FATAL, f"The start fails over it: {effect.failure[1]}."
    elif effect.nothing:
        found = no_effect(flag, reading, comparison)
        status = FlagStatus.NOTHING if found.predicted else FlagStatus.NOT_PREDICTED
        text = sentence(found.clause)
    else:
        changes = "; ".join(parts(comparison)) or "times alone differ"
        status, text = FlagStatus.CHANGES, f"Against leaving it out: {changes}."
    return _Said(status, text + _mind(reading), effect)


def _mind(reading: Reading) -> str:
    return f" Mind: {reading.why}." if reading.why else ""


def _unknown(name: str, value: str, origin: str) -> SetVariable:
    why, read = unknown(name)
    program = program_of(name)
    return SetVariable(
        name=name,
        value=value,
        origin=origin,
        known=False,
        reading=Reading(effective=value, why=why) if read else skipped(why),
        said=f"It is {why}." if read else f"It has no effect: it is {why}.",
        status=FlagStatus.NOT_PREDICTED if read else FlagStatus.UNKNOWN,
        closest=() if read else catalogue().closest(name),
        read_by=program.title if program else "",
    )
