"""Commands that people copy: text from outside stays one word of them."""

from __future__ import annotations

import re
import shlex
from typing import Any

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node

from ...grid import covering
from ...support.rule_cases import SickCase, cases

EVIL = "x;touch${IFS}owned|sh`id`$(id)&\n"
NAMED = ("name", "origin", "address", "parent", "src", "dst", "hostname", "command", "path")
"""Fields whose text somebody else chose."""
OURS = {"|", ";", "&&"}


def hostile(value: Any) -> Any:
    """The same document with an evil tail on everything that has a name."""
    if isinstance(value, list):
        return [hostile(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: one + EVIL if key in NAMED and isinstance(one, str) and one else hostile(one)
        for key, one in value.items()
    }


@pytest.mark.parametrize(
    "case", covering(cases(), lambda case: case.expect), ids=lambda case: case.name
)
def test_no_name_from_outside_becomes_a_command(case: SickCase) -> None:
    document = msgspec.json.decode(msgspec.json.encode(case.snapshot))
    snapshot = msgspec.convert(hostile(document), NodeSnapshot)
    earlier = case.earlier
    for finding in diagnose(Case(Node(snapshot), earlier=earlier)).findings:
        for fix in finding.fix:
            check_command(fix.command)


def check_command(command: str) -> None:
    """What came from outside is inside one word, in single quotes."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    assert {word for word in words if re.fullmatch(r"[;&|<>]+", word)} <= OURS, command
    assert command.count("touch") == sum(word.count(EVIL) for word in words), command
    assert '"' not in command or "touch" not in command, command
