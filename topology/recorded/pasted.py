"""Outputs of tools in a text that is more than that: a node, and where each output stands."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..model.format import Format, FormatError
from ..model.part import PartialNode
from ..model.snapshot import NodeSnapshot
from ..sources.collect import merge
from .plugged import formats
from .sections import BROKEN, PROVES_NOTHING, Sections, read_sections

MOST_GPUS = 128


class PastedSection(msgspec.Struct, frozen=True):
    """One output of one tool."""

    tool: str
    first: int
    """Number of its first line, from 1."""
    lines: tuple[str, ...]

    @property
    def where(self) -> str:
        """Its place: "lines 3-8"."""
        last = self.first + len(self.lines) - 1
        return f"line {last}" if last == self.first else f"lines {self.first}-{last}"


class PastedText(msgspec.Struct, frozen=True):
    """What a text says of a node."""

    snapshot: NodeSnapshot
    sections: tuple[PastedSection, ...]
    broken: tuple[tuple[str, str], ...] = ()
    """Lines of outputs that could not be read, and why."""
    host: str = ""
    """The machine's name, where the text says it."""
    others: tuple[PastedText, ...] = ()
    """Further machines whose outputs stand in the same text, or this one at another moment."""


def read_pasted(data: bytes, name: str, number: Callable[[int], int] = int) -> PastedText | None:
    """The node of all outputs in a text; None where there is none that can be read.

    An output that cannot be read is named, among those that can if there are any. `number` gives
    the line of the whole text for a line of `data`.
    """
    forms = text_formats()
    try:
        found = read_sections(data, forms, number)
    except FormatError as error:
        nothing = NodeSnapshot(taken_at=0.0, source=(name or "text",))
        return PastedText(nothing, (), ((f"line {error.line}", str(error)),))
    if found is None:
        return None
    order = {form.id: place for place, form in enumerate(forms)}
    first = _of_one(found, name, order, number)
    if first is None:
        return None
    others = (_of_one(one, name, order, number) for one in found.others)
    return msgspec.structs.replace(first, others=tuple(one for one in others if one is not None))


def _of_one(
    found: Sections, name: str, order: dict[str, int], number: Callable[[int], int]
) -> PastedText | None:
    """The node of one machine's outputs; None where they show more GPUs than a node has."""
    parts = sorted(found.parts, key=lambda item: order[item[0].id])
    said: list[PartialNode] = [part for _, part in parts]
    if sum(len(part.gpus) for part in said) > MOST_GPUS * len(said):
        return None
    nothing = NodeSnapshot(taken_at=0.0, source=(name or "text",))
    snapshot = merge(said, taken_at=0.0, source=nothing.source, gputop="") if said else nothing
    if len(snapshot.machine.gpus) > MOST_GPUS:
        return None
    return PastedText(
        snapshot=snapshot,
        sections=tuple(
            PastedSection(
                section.form.id,
                number(section.first),
                tuple(section.text.rstrip("\n").split("\n")),
            )
            for section in found.sections
        ),
        broken=tuple(
            (lines, why)
            for lines, why in found.passed_over
            if why.startswith(BROKEN) or PROVES_NOTHING in why
        ),
        host=found.host,
    )


def text_formats() -> tuple[Format, ...]:
    """The formats that may be parts of a text, in the order of precedence."""
    return tuple(form for form in formats() if form.starts is not None)
