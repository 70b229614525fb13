"""A catalogue entry in the words of the library that a node has."""

from __future__ import annotations

import msgspec

from ...hardware.terms import library_terms
from ...model.versions import Library
from ..catalogue.catalogue import Flag, OnRccl
from .values import unread


def for_library(flag: Flag, library: Library | None) -> Flag:
    """The entry with the names that this library and its links have.

    Where RCCL reads the variable, what the entry says of RCCL takes the place of the rest.
    Without a library, or where it does not read the variable, the names are NCCL's.
    """
    if library is None or library.name != "rccl" or unread(flag, library):
        return flag.said(library_terms("nccl"))
    own = flag.on_rccl or OnRccl()
    held = msgspec.structs.replace(
        flag,
        values=own.values or flag.values,
        changes=own.changes or flag.changes,
        set_when=own.set_when or flag.set_when,
        trap=own.trap or flag.trap,
    )
    return held.said(library_terms(library.name))
