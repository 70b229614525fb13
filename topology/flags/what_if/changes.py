"""Changes that somebody tries out: of variables, in their order, and of the library's version."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import msgspec

from ...model import quantities
from ...model.copied import copied
from ...model.snapshot import EnvironmentVariable, Measurement, NodeSnapshot
from ...model.surroundings import Software
from ...nccl.versions import version_for, whole_version

Changes = Mapping[str, str | None]
"""Name -> the new value; None removes the variable."""
LIBRARIES = ("NCCL", "RCCL")
"""Names in changes that are no variable: the value is the version of the library."""
BY_LIBRARY = frozenset(
    {
        quantities.ALL_REDUCE,
        quantities.ALL_GATHER,
        quantities.REDUCE_SCATTER,
        quantities.ALL_TO_ALL,
        quantities.SEND_RECEIVE_ALL,
        quantities.BROADCAST,
    }
)
"""What is measured of the library, which holds for its version and its variables alone."""
BEFORE = "before a change"
"""In the details of a figure: it was measured without what is tried out."""


def of_variables(changes: Changes) -> dict[str, str | None]:
    """The changes of variables alone."""
    return {name: value for name, value in changes.items() if name not in LIBRARIES}


def version_of(changes: Changes) -> str | None:
    """The version that is tried out, "nccl-2.30.7"; None for the one that is there."""
    tried = ((name, value) for name, value in changes.items() if name in LIBRARIES and value)
    return next((f"{name.lower()}-{value}" for name, value in tried), None)


def changes_in_words(changes: Changes) -> str:
    """Name the changes: "NCCL 2.30.7, NCCL_P2P_LEVEL=SYS, NCCL_ALGO unset"."""
    return ", ".join(
        f"{name} unset" if value is None else f"{name}{' ' if name in LIBRARIES else '='}{value}"
        for name, value in changes.items()
    )


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
        """Set a variable, or take it away; what is as it was is no change.

        A version is written whole, and taken away it is the one that is there. Raises
        UnknownVersionError.
        """
        if name in LIBRARIES:
            number = (value or self.set_now[name]).strip().lower().rpartition("-")[2].lstrip("v")
            value = whole_version(f"{name.lower()}-{number}").partition("-")[2]
            version_for(f"{name}-{value}")
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

    @property
    def named(self) -> tuple[str, ...]:
        """Each change in words."""
        return tuple(changes_in_words({name: value}) for name, value in self.wanted.items())


def export_line(changes: Changes) -> str:
    """`export A=1`, with `unset B; ` in front for variables that are removed; "" where refused.

    A version is nothing that a shell could set.
    """
    changes = of_variables(changes)
    gone = [name for name, value in sorted(changes.items()) if value is None]
    kept = [pair for pair in sorted(changes.items()) if pair[1] is not None]
    parts = ["unset {:variable}"] * bool(gone)
    if kept:
        parts.append(" ".join(["export", *["{:variable}={:value}"] * len(kept)]))
    return copied("; ".join(parts), *[gone] * bool(gone), *itertools.chain(*kept))


def with_changes(snapshot: NodeSnapshot, changes: Changes) -> NodeSnapshot:
    """The snapshot as if these variables were set in the environment, and that library was there.

    None takes a variable away. What was measured of the library is marked: it says nothing of it
    with other variables.
    """
    variables, machine = of_variables(changes), snapshot.machine
    kept = tuple(held for held in snapshot.environment if held.name not in variables)
    new = tuple(
        EnvironmentVariable(name=name, value=value, origin="environment")
        for name, value in variables.items()
        if value is not None
    )
    if version := version_of(changes):
        library, _, number = version.partition("-")
        software = machine.software or Software()
        software = msgspec.structs.replace(software, **{library: number})
        machine = msgspec.structs.replace(machine, software=software)
    set_now = {held.name: held.value for held in snapshot.environment}
    figures = snapshot.measurements
    if version or any(set_now.get(name) != value for name, value in variables.items()):
        figures = tuple(_before(figure, set_now) for figure in figures)
    return msgspec.structs.replace(
        snapshot, environment=(*kept, *new), machine=machine, measurements=figures
    )


def _before(figure: Measurement, set_now: Mapping[str, str]) -> Measurement:
    if figure.quantity not in BY_LIBRARY:
        return figure
    details = {"variables": set_now, **figure.details, BEFORE: True}
    return msgspec.structs.replace(figure, details=details)
