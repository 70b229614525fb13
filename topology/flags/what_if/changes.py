"""Changes of variables that somebody tries out, in the order in which they were made."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import msgspec

from ...model.copied import copied
from ...model.snapshot import EnvironmentVariable, NodeSnapshot

Changes = Mapping[str, str | None]
"""Name -> the new value; None removes the variable."""


class FlagChanges:
    """Changes on top of what is set; None takes a variable away."""

    def __init__(self) -> None:
        self.set_now: Mapping[str, str] = {}
        """What is set on the node."""
        self.wanted: dict[str, str | None] = {}
        """Name -> new value, in the order in which they were changed."""

    def now(self, name: str) -> str | None:
        """The value with the changes; None when it is not set."""
        return self.wanted[name] if name in self.wanted else self.set_now.get(name)

    def change(self, name: str, value: str | None) -> None:
        """Set a variable, or take it away; what is as it was is no change."""
        self.wanted.pop(name, None)
        if value != self.set_now.get(name):
            self.wanted[name] = value

    def undo(self) -> bool:
        """Undo the last change; False when there is none."""
        if not self.wanted:
            return False
        self.wanted.popitem()
        return True

    def next_value(self, name: str, tries: tuple[str, ...]) -> None:
        """The next of these values; after the last one none, then the first."""
        order: list[str | None] = [*tries, None]
        now = self.now(name)
        place = order.index(now) + 1 if now in order else 0
        self.change(name, order[place % len(order)])

    def export(self) -> str:
        """The line that sets the changes up in a shell; "" without any."""
        return export_line(self.wanted)

    def in_words(self) -> str:
        """Name the changes: "NCCL_P2P_LEVEL=SYS, NCCL_ALGO unset"."""
        return ", ".join(
            f"{name} unset" if value is None else f"{name}={value}"
            for name, value in self.wanted.items()
        )


def export_line(changes: Changes) -> str:
    """`export A=1`, with `unset B; ` in front for variables that are removed; "" where refused."""
    gone = [name for name, value in sorted(changes.items()) if value is None]
    kept = [pair for pair in sorted(changes.items()) if pair[1] is not None]
    parts = ["unset {:variable}"] * bool(gone)
    if kept:
        parts.append(" ".join(["export", *["{:variable}={:value}"] * len(kept)]))
    return copied("; ".join(parts), *[gone] * bool(gone), *itertools.chain(*kept))


def with_changes(snapshot: NodeSnapshot, changes: Mapping[str, str | None]) -> NodeSnapshot:
    """The snapshot as if these variables were set in the environment; None takes one away."""
    kept = tuple(held for held in snapshot.environment if held.name not in changes)
    new = tuple(
        EnvironmentVariable(name=name, value=value, origin="environment")
        for name, value in changes.items()
        if value is not None
    )
    return msgspec.structs.replace(snapshot, environment=(*kept, *new))
