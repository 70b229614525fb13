"""An example for each rule: what it said of a sick machine, and the severities that it may give.

examples.toml is written by `python -m tests.support.rule_examples` from what the rules answer.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from ..model.page import Fact
from ..model.severity import Severity
from ..toml import tomllib

PATH = Path(__file__).with_name("examples.toml")


class RuleExample(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule said of one machine."""

    machine: str
    """What is the matter with the machine, in words."""
    severities: tuple[Severity, ...]
    """All that the rule gives on the machines of its tests, the worst first."""
    severity: Severity
    title: str
    consequence: str
    evidence: tuple[Fact, ...]
    more: int = 0
    """How many pieces of evidence are left out here."""


@cache
def examples() -> dict[str, RuleExample]:
    """Id of a rule -> its example."""
    rows = tomllib.loads(PATH.read_text(encoding="utf-8"))
    return msgspec.convert(rows, dict[str, RuleExample])
