"""What of a snapshot a recording keeps, as plain data whose unchanged parts are the same objects.

Left out are bytes of single links, which move with every reading and would be half of the file
(the rates of each GPU are kept), earlier sizes of processes, and how long each source took.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...model.snapshot import NodeSnapshot
from .changes import Tree

NOT_KEPT = "not kept in a recording"
_DIGITS = 4
"""Of a rate: its noise is larger than a thousandth."""
_AGE_SECONDS = 10
_HOST_BYTES = 1 << 20
_OPTIONAL = "kernel_events"
"""The one key that a document may lack."""


class Keeping:
    """Turns snapshots into trees; used by one thread."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[object, Any]] = {}

    def tree(self, snapshot: NodeSnapshot) -> Tree:
        """The plain data of a snapshot, without its time. What did not change is not made anew."""
        made = {}
        for name in snapshot.__struct_fields__:
            if name != "taken_at":
                made[name] = self._plain(name, getattr(snapshot, name))
        return made

    def _plain(self, name: str, value: object) -> Any:
        known = self._seen.get(name)
        if known is not None and (known[0] is value or known[0] == value):
            return known[1]
        plain: Any = None if value is msgspec.UNSET else msgspec.to_builtins(value)
        if name == "readings":
            _lessen(plain)
        elif name == "states":
            plain = tuple(_aged(state) for state in plain)
        self._seen[name] = value, plain
        return plain


def _lessen(readings: Tree) -> None:
    for gpu in readings["gpus"]:
        for name, value in gpu.items():
            if value.__class__ is float:
                gpu[name] = float(f"{value:.{_DIGITS}g}")
        for link in (*gpu["nvlinks"], *gpu["xgmi"]):
            link["tx_bytes"] = link["rx_bytes"] = None
    for process in readings["processes"]:
        process["memory_before"] = ()
    host = readings["host"]
    if host is not None and host["memory_available_bytes"] is not None:
        host["memory_available_bytes"] -= host["memory_available_bytes"] % _HOST_BYTES


def _aged(state: Tree) -> Tree:
    """The age of an answer in steps, so that it does not change with every reading."""
    age = state["age_seconds"]
    steps = None if age is None else float(age // _AGE_SECONDS * _AGE_SECONDS)
    return {**state, "age_seconds": steps, "elapsed_seconds": None}


def snapshot_of(tree: Tree, at: float) -> NodeSnapshot:
    """The snapshot of a tree. Raises msgspec.ValidationError for one that does not fit."""
    given = {name: value for name, value in tree.items() if name != _OPTIONAL or value is not None}
    return msgspec.convert({**given, "taken_at": at}, NodeSnapshot)
