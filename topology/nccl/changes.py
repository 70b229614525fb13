"""The rules that each version of NCCL and RCCL changed, in words; the texts are in changes.toml."""

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from ..model.versions import numbers
from ..toml import tomllib


class RuleChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule that a version changed; changes.toml explains the fields."""

    since: str
    text: str
    fields: tuple[str, ...] = ()
    """"graph.c2c_link": a table and one of its fields; () where no prediction follows the rule."""
    source: str = ""
    library: Literal["nccl", "rccl"] = "nccl"
    quiet: bool = False

    @property
    def version(self) -> str:
        """The version that brought it: "nccl-2.26.2"."""
        return f"{self.library}-{self.since}"


@cache
def rule_changes() -> tuple[RuleChange, ...]:
    """Every change that is known, NCCL's first, oldest first."""
    text = Path(__file__).with_name("changes.toml").read_text(encoding="utf-8")
    found = msgspec.convert(tomllib.loads(text)["change"], tuple[RuleChange, ...])
    return tuple(sorted(found, key=lambda change: (change.library, numbers(change.since))))


def change_of(version: str, field: str) -> RuleChange | None:
    """The rule behind a field of one version's entry; None where no rule names it."""
    return _by_field().get((version, field))


@cache
def _by_field() -> dict[tuple[str, str], RuleChange]:
    return {(change.version, field): change for change in rule_changes() for field in change.fields}
