"""The JSON of `gputop flags` (schema gputop.flags/1)."""

from __future__ import annotations

import msgspec

from gputop import __version__
from gputop.topology.flags.account.overview import SetVariable, overview
from gputop.topology.flags.catalogue.catalogue import Flag
from gputop.topology.flags.values.process import ProcessFlags
from gputop.topology.flags.values.values import Reading, for_library, unread
from gputop.topology.flags.what_if.changes import Changes
from gputop.topology.flags.what_if.effects import Change, Comparison, Effect
from gputop.topology.flags.what_if.study import Study
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.versions import Library, numbers

SCHEMA = "gputop.flags/1"


class ValueOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one value of a flag would do on this node."""

    value: str
    reading: Reading | None
    effect: Effect


class FlagDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One flag and its effect on this node."""

    entry: Flag
    default: str
    value: str | None
    unread: str
    """Why this library does not read the flag; "" when it does."""
    outcomes: tuple[ValueOutcome, ...]


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The node with --set compared with the node as it is."""

    changes: tuple[Change, ...]
    effect: Effect
    export: str


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What `gputop flags --json` prints."""

    schema: str = SCHEMA
    gputop: str = __version__
    source: tuple[str, ...] = ()
    library: Library | None = None
    set: tuple[SetVariable, ...] = ()
    flag: FlagDocument | None = None
    process: ProcessFlags | None = None
    what_if: WhatIf | None = None
    catalogue: tuple[Flag, ...] | None = None
    assumptions: tuple[str, ...] = ()


def document(
    study: Study,
    snapshot: NodeSnapshot,
    origins: dict[str, str],
    flag: Flag | None,
    process: ProcessFlags | None,
    changes: Changes,
) -> Document:
    """Build the document that the options request."""
    trouble = study.trouble()
    assumed = (trouble,) if trouble else study.baseline().assumptions
    comparison = study.compare({}, changes) if changes and not trouble else None
    notes = process.notes if process is not None else ()
    return Document(
        source=snapshot.source,
        library=study.whose(),
        set=overview(study, origins),
        flag=_flag(flag, study) if flag is not None else None,
        process=process,
        what_if=_what_if(comparison) if comparison is not None else None,
        assumptions=(*assumed, *notes),
    )


def catalogue_document(flags: tuple[Flag, ...]) -> Document:
    """The catalogue of flags, or the results of a search in it."""
    return Document(catalogue=tuple(for_library(flag, None) for flag in flags))


def _flag(flag: Flag, study: Study) -> FlagDocument:
    library = study.whose()
    closed = unread(flag, library)
    return FlagDocument(
        entry=for_library(flag, None),
        default=flag.default_of(library.name, numbers(library.version)),
        value=study.values.get(flag.name),
        unread=closed,
        outcomes=()
        if closed or study.trouble()
        else tuple(
            ValueOutcome(
                value=trial.changes[0].after or "",
                reading=trial.changes[0].reading,
                effect=trial.effect,
            )
            for trial in study.tries(flag)
        ),
    )


def _what_if(comparison: Comparison) -> WhatIf:
    return WhatIf(changes=comparison.changes, effect=comparison.effect, export=comparison.export)
