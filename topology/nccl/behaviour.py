"""All that a version decides by, as one thing that can be taken apart rule by rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ..model.versions import numbers
from .changes import RuleChange, change_of
from .search.version import SearchVersion, search_version, search_versions
from .tuning.rccl_inputs import rccl_rules
from .tuning.version import TuningVersion, tuning_version, tuning_versions
from .versions import OWN, Version, VersionEntry, version_for, versions

GRAPH, SEARCH, TUNING = "graph", "search", "tuning"
"""The tables, as changes.toml names them."""


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """A version's entries in the tables of the graph, the search and the tuning."""

    number: str
    """As the version was asked for, "2.28.9"."""
    graph: Version
    search: SearchVersion
    tuning: TuningVersion | None
    """None for RCCL, whose tuning hangs on its number (tuning/rccl.py)."""

    @property
    def version(self) -> Version:
        """How the graph is built and searched."""
        return msgspec.structs.replace(self.graph, searches=self.search)

    @property
    def name(self) -> str:
        """The version as it was asked for, "nccl-2.28.9"."""
        return f"{self.graph.library}-{self.number}"

    @property
    def tuned(self) -> bool:
        """Whether channels and choices by size are predicted."""
        by_number = self.graph.is_rccl and rccl_rules(self.graph.number) is not None
        return self.tuning is not None or by_number

    def tables(self) -> dict[str, VersionEntry]:
        """The entries by table."""
        found: dict[str, VersionEntry] = {GRAPH: self.graph, SEARCH: self.search}
        return found if self.tuning is None else {**found, TUNING: self.tuning}

    def fields(self) -> dict[str, Any]:
        """Everything that versions may differ in: "graph.c2c_link" -> its value."""
        return {
            f"{table}.{name}": getattr(entry, name)
            for table, entry in self.tables().items()
            for name in entry.__struct_fields__
            if name not in OWN and name != "searches"
        }

    def changed(self, values: Mapping[str, Any]) -> Behaviour:
        """The same with other values for some fields, by their names with table."""
        made: dict[str, Any] = {}
        for table, entry in self.tables().items():
            changes = {
                name.partition(".")[2]: value
                for name, value in values.items()
                if name.partition(".")[0] == table
            }
            made[table] = msgspec.structs.replace(entry, **changes) if changes else entry
        return msgspec.structs.replace(self, **made)


def behaviour_of(name: str) -> Behaviour:
    """The rules of a version, "nccl-2.28.9"; one without an entry follows the nearest older one.

    Raises UnknownVersionError.
    """
    version, _ = version_for(name)
    number = name.strip().lower().rpartition("-")[2].lstrip("v")
    # The search and the tuning may have entries between those of the graph.
    asked = msgspec.structs.replace(version, number=number)
    return Behaviour(
        number=number,
        graph=version,
        search=search_version(asked),
        tuning=tuning_version(version.library, number),
    )


def changed_versions(before: Behaviour, after: Behaviour) -> tuple[Behaviour, ...]:
    """The versions that changed something on the way, both ends included, in the order given."""
    library = before.graph.library
    low, high = sorted((numbers(before.number), numbers(after.number)))
    known = {
        entry.number
        for table in (versions(), search_versions(), tuning_versions())
        for entry in table
        if entry.library == library and low < numbers(entry.number) < high
    }
    steps = [behaviour_of(f"{library}-{number}") for number in sorted(known, key=numbers)]
    if numbers(before.number) > numbers(after.number):
        steps.reverse()
    return (before, *steps, after)


def rules_between(older: Behaviour, newer: Behaviour) -> dict[RuleChange, tuple[str, ...]]:
    """The rules in which two versions that follow each other differ, each with its fields."""
    then, now = older.fields(), newer.fields()
    found: dict[RuleChange, list[str]] = {}
    for field, value in now.items():
        if then.get(field, value) == value:
            continue
        rule = next(
            (rule for version in _made_from(newer, field) if (rule := change_of(version, field))),
            None,
        )
        if rule is not None:
            found.setdefault(rule, []).append(field)
    return {rule: tuple(fields) for rule, fields in found.items()}


def _made_from(behaviour: Behaviour, field: str) -> Iterator[str]:
    """The version behind a field's table, and all that it was made from, newest first."""
    entry = behaviour.tables()[field.partition(".")[0]]
    yield f"{entry.library}-{entry.number}"
    after = entry.after
    tables = {GRAPH: versions(), SEARCH: search_versions(), TUNING: tuning_versions()}
    every = {f"{one.library}-{one.number}": one for one in tables[field.partition(".")[0]]}
    while after is not None:
        yield after
        after = every[after].after
