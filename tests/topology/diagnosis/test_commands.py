"""Lines that people copy: no rule puts a hostile name into one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.diagnosis.rules.network import rdma
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node
from tests.grid import covering, share

from ...support.hostile_names import HOSTILE, lines_in, obeyed
from ...support.rule_cases import SickCase, cases

TURNS = 1
"""How many of the names a case is given; the next case is given the next ones."""


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """The same document with other names; what has one has the new one everywhere."""
    if isinstance(value, list):
        return [renamed(item, names) for item in value]
    if isinstance(value, dict):
        return {key: renamed(item, names) for key, item in value.items()}
    return names.get(value, value) if isinstance(value, str) else value


def texts(value: Any) -> set[str]:
    """Every text of a document."""
    if isinstance(value, list):
        return {text for item in value for text in texts(item)}
    if isinstance(value, dict):
        return {text for item in value.values() for text in texts(item)}
    return {value} if isinstance(value, str) else set()


def lines_of(case: SickCase, document: Any) -> list[str]:
    """All lines for copying in what the rules say of a node."""
    node = Node(msgspec.convert(document, NodeSnapshot))
    found = diagnose(Case(node, earlier=case.earlier, reference=case.reference))
    return [line for line in lines_in(found) if line]


def travelling(document: Any, lines: Iterable[str]) -> list[str]:
    """The texts of a node that are words of these lines, or begin one."""
    words = {word for line in lines for word in re.split(r"[\s=,;'\"]+", line) if len(word) > 2}
    return sorted(
        text for text in texts(document) if text in words or text.rstrip("0123456789") in words
    )


def hostile_lines(case: SickCase, names: Iterable[str], origin: str = "") -> list[str]:
    """Lines that hold one of these names, put in the place of every name that has a line."""
    document = msgspec.json.decode(msgspec.json.encode(case.snapshot))
    for variable in document["environment"] if origin else ():
        variable["origin"] = origin
    sound = lines_of(case, document)
    sought = travelling(document, sound)
    return [
        line
        for name in names
        if sought
        for line in obeyed(
            name, lines_of(case, renamed(document, dict.fromkeys(sought, name))), sound
        )
    ]


@pytest.mark.parametrize(
    ("case", "place"),
    covering(
        [(case, place) for place, case in enumerate(cases())],
        lambda each: (*each[0].expect, each[0].kind),
    ),
    ids=lambda value: getattr(value, "name", ""),
)
def test_no_rule_prints_a_hostile_name(case: SickCase, place: int) -> None:
    start = place * TURNS % len(HOSTILE)
    assert hostile_lines(case, (HOSTILE * 2)[start : start + TURNS]) == []


@pytest.mark.parametrize("place", share(range(len(HOSTILE)), 7))
def test_no_file_with_a_hostile_name_is_searched(place: int) -> None:
    (case,) = [case for case in cases() if case.name == "flag-topo-file-missing"]
    assert any("grep -n" in line for line in lines_of(case, _from_file(case)))
    assert hostile_lines(case, HOSTILE[place : place + 1], "/etc/nccl.conf") == []


def _from_file(case: SickCase) -> Any:
    document = msgspec.json.decode(msgspec.json.encode(case.snapshot))
    for variable in document["environment"]:
        variable["origin"] = "/etc/nccl.conf"
    return document


def test_a_new_line_of_a_rule_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in cases() if "nic-port-down" in case.expect)
    assert hostile_lines(case, ["ALL"]) == []
    monkeypatch.setattr(rdma, "_look", lambda name: f"See. $ mlxlink -d {shlex.quote(name)}")
    assert hostile_lines(case, ["ALL"]) == ["mlxlink -d ALL"]


@pytest.mark.parametrize("number", [0, -1])
def test_no_signal_goes_to_what_is_no_process(number: int) -> None:
    for case in cases():
        if not {"rank-stopped", "rank-asleep", "job-zombie"}.isdisjoint(case.expect):
            document = msgspec.json.decode(msgspec.json.encode(case.snapshot))
            _number(document, number)
            lines = lines_of(case, document)
            assert not [line for line in lines if re.search(rf"\bkill .*{number}$", line)]


def _number(value: Any, number: int) -> None:
    """Give every process this number."""
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            _number(item, number)
    if isinstance(value, dict) and isinstance(value.get("pid"), int):
        value["pid"] = number
