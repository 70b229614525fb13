"""An entry of the catalogue, which is written for NCCL, in the words of the node's library."""

from __future__ import annotations

import msgspec

from ...model.library import Library
from ...nccl.wording import named_for
from ..catalogue.catalogue import Flag, OnRccl
from .values import unread


def for_library(flag: Flag, library: Library) -> Flag:
    """Put an entry that RCCL reads into RCCL's words: its name, its links, its level XGMI."""
    if library.name != "rccl" or unread(flag, library):
        return flag
    own = flag.on_rccl or OnRccl()
    changes, when, trap = (
        text and named_for("rccl", text).replace("NCCL_P2P_LEVEL=NVL", "NCCL_P2P_LEVEL=XGMI")
        for text in (
            own.changes or flag.changes,
            own.set_when or flag.set_when,
            own.trap or flag.trap,
        )
    )
    return msgspec.structs.replace(
        flag, values=own.values or flag.values, changes=changes, set_when=when, trap=trap
    )
