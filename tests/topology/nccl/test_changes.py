"""The rules behind the tables of versions: every change has one, and the documentation tells it."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from gputop.topology.nccl.behaviour import Behaviour, behaviour_of, changed_versions, rules_between
from gputop.topology.nccl.changes import RuleChange, rule_changes
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.search.version import search_versions
from gputop.topology.nccl.tuning.version import tuning_versions
from gputop.topology.nccl.versions import versions
from tests.support.nccl.versions import changes
from tests.support.places import ROOT

from .made import cpu, gpu, snapshot, switch, system

TABLES = {"graph and transports": "graph", "search": "search", "tuning": "tuning"}
FIRST = {"nccl": "2.18.5", "rccl": "2.21.5"}
"""From here on all three tables have an entry."""


def steps(library: str) -> list[tuple[Behaviour, Behaviour]]:
    """Each version with the one before it."""
    last = max(tuple(map(int, v.number.split("."))) for v in versions() if v.library == library)
    ends = (FIRST[library], ".".join(map(str, last)))
    way = changed_versions(*(behaviour_of(f"{library}-{number}") for number in ends))
    return list(pairwise(way))


@pytest.mark.parametrize("library", FIRST)
def test_every_field_that_a_version_changes_belongs_to_one_rule(library: str) -> None:
    seen = []
    for older, newer in steps(library):
        then, now = older.fields(), newer.fields()
        seen.append(then)
        if now in seen[:-1]:  # it behaves like one before: nothing of it is new
            continue
        changed = {name for name, value in now.items() if then[name] != value}
        named = [name for fields in rules_between(older, newer).values() for name in fields]
        assert sorted(named) == sorted(changed), newer.name


def test_every_rule_changes_what_it_says() -> None:
    entries: dict[str, set[str]] = {}
    for version, tables in changes().items():
        for table, names in tables.items():
            entries.setdefault(version, set()).update(f"{TABLES[table]}.{name}" for name in names)
    for rule in rule_changes():
        if rule.version == "rccl-2.26.6" and rule.fields == ("graph.cumem",):
            continue  # NCCL has it from the first: RCCL's entry no longer takes it away
        assert set(rule.fields) <= entries[rule.version], rule
    every = [(rule.version, field) for rule in rule_changes() for field in rule.fields]
    assert len(every) == len(set(every))


def test_every_rule_names_its_place_in_the_source() -> None:
    place = re.compile(r"[a-z_/]+\.(cc|h):[A-Za-z0-9_]+")
    for rule in rule_changes():
        assert place.fullmatch(rule.source) or not (rule.fields or rule.source), rule
        assert not rule.text.endswith("."), rule


def test_the_table_in_the_documentation_is_made_of_the_rules() -> None:
    told: dict[str, list[RuleChange]] = {}
    for rule in rule_changes():
        if rule.library == "nccl" and not rule.quiet:
            told.setdefault(rule.since, []).append(rule)
    rows = [
        f"| {since} | {'. '.join(rule.text for rule in rules)}. |" for since, rules in told.items()
    ]
    text = (ROOT / "docs" / "nccl.md").read_text("utf-8")
    table = text.partition("| since | what changed |\n| --- | --- |\n")[2].partition("\n\n")[0]
    assert table.splitlines() == rows


def test_a_version_as_one_thing_decides_as_the_version_does() -> None:
    node = snapshot(system(cpu(0, switch(0x10, gpu(0x11, 0), gpu(0x12, 1)), gpu(0x20, 2))))
    every = {entry.number for table in (versions(), search_versions()) for entry in table}
    every |= {entry.number for entry in tuning_versions()}
    for library, number in [("nccl", one) for one in every] + [("rccl", "2.26.6")]:
        name = f"{library}-{number}"
        whole, parts = predict(node, library=name), predict(node, library=behaviour_of(name))
        assert (whole.pairs, whole.views, whole.choices) == (
            parts.pairs,
            parts.views,
            parts.choices,
        )
        assert (whole.tuning, whole.library) == (parts.tuning, parts.library)


def test_one_rule_taken_back_is_the_older_version_in_that_alone() -> None:
    older, newer = behaviour_of("2.25.1"), behaviour_of("2.26.2")
    mixed = newer.changed({"graph.c2c_link": older.fields()["graph.c2c_link"]})
    differing = {name for name, value in newer.fields().items() if mixed.fields()[name] != value}
    assert differing == {"graph.c2c_link"}
