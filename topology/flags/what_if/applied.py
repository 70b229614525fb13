"""A node as if some variables were set otherwise."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...model.snapshot import EnvironmentVariable, NodeSnapshot


def with_changes(snapshot: NodeSnapshot, changes: Mapping[str, str | None]) -> NodeSnapshot:
    """The snapshot as if these variables were set in the environment; None takes one away."""
    kept = tuple(held for held in snapshot.environment if held.name not in changes)
    new = tuple(
        EnvironmentVariable(name=name, value=value, origin="environment")
        for name, value in changes.items()
        if value is not None
    )
    return msgspec.structs.replace(snapshot, environment=(*kept, *new))
