"""Findings that fit the rest of their text: no step taken before, no claim that a line refutes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from ...model.finding import Finding
from ...model.page import Fix
from ...model.severity import NOTICE, Severity, Sureness
from ...toml import tomllib


class RefutedStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step of a cure, and the lines that say that it does not help."""

    fix: str
    text: tuple[str, ...]


class RefutedClaim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding that means something else beside certain lines, and what it means there."""

    id: str
    lines: str
    text: tuple[str, ...]
    severity: Severity = NOTICE
    title: str
    cause: str
    look: tuple[str, ...]
    fix: tuple[str, ...]


class Refutations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entries of refuted.toml."""

    step: tuple[RefutedStep, ...]
    claim: tuple[RefutedClaim, ...]


@cache
def refutations() -> Refutations:
    """What lines of a text may refute."""
    text = Path(__file__).with_name("refuted.toml").read_bytes().decode()
    return msgspec.convert(tomllib.loads(text), Refutations)


def fitting(findings: Sequence[Finding], around: Sequence[str]) -> list[Finding]:
    """The findings without what `around`, the lines of their text, refutes."""
    known = refutations()
    steps = [step.fix for step in known.step if _any(step.text, around)]
    claims = {claim.id: claim for claim in known.claim if _any(claim.text, around)}
    return [_without(steps, _meant(claims.get(one.id), one)) for one in findings]


def _any(texts: tuple[str, ...], around: Sequence[str]) -> bool:
    return any(re.search(text, line) for text in texts for line in around)


def _meant(claim: RefutedClaim | None, found: Finding) -> Finding:
    if claim is None or not all(re.search(claim.lines, fact.value) for fact in found.evidence):
        return found
    return msgspec.structs.replace(
        found,
        severity=claim.severity,
        title=claim.title,
        cause=claim.cause,
        look=claim.look,
        fix=tuple(Fix(text=text) for text in claim.fix),
        candidates=(),
        sureness=Sureness.LIKELY,
    )


def _without(steps: Sequence[str], found: Finding) -> Finding:
    """The finding without these steps; one whose only step they are keeps it."""
    kept = tuple(fix for fix in found.fix if not any(re.match(step, fix.text) for step in steps))
    return found if not kept else msgspec.structs.replace(found, fix=kept)
