"""What no answer may show, whatever the input was."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from .doors import DOORS
from .running import Ended

TRACEBACK = re.compile(rb"(?m)^Traceback \(most recent call last\)")
"""Ours; that of a job may stand in an answer, quoted."""
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
"""Controls but newline and tab, and what turns the direction or the line of what follows."""
EXITS = {
    "topo": (0, 3),
    "snapshot": (0, 3),
    "explain": (0, 3, 64),
    "flags": (0, 3),
    "check": (0, 1, 2, 3),
    "log": (0, 3),
    "jobs": (0, 3),
    "fleet": (0, 1, 2, 3),
    "diff": (0, 1, 3),
    "metrics": (0, 3),
    "watch": (0, 1, 2, 3),
    "which": (0, 1, 3, 64),
    "cost": (0, 1, 3, 64),
    **dict.fromkeys(DOORS, (0, 3)),
}
"""Command -> its exit codes for a file that can be opened. 64: no such rank
of `explain`, fewer GPUs than `which` is asked for, no layout for the model of `cost`,
whose 1 says that none fits."""
WRONG_USAGE = 64
_CHOSEN = (
    *("--set", "--since", "--expect", "--nodes", "--gpus", "--missing", "--ignore", "--nccl"),
    *("--against", "--topology"),
)
"""Options whose value a person types: a wrong one is wrong usage."""


FAULTS = ("broken", "slow", "error", "warning")
"""Severities of faults, as `check` and as `log` call them."""


@dataclass(frozen=True)
class Limits:
    """What one command may take."""

    cpu_seconds: float = 10.0
    memory_bytes: int = 500 * 10**6


def breaches(arguments: Sequence[str], answer: Ended, limits: Limits) -> list[str]:
    """What is against the contract, each in a few words."""
    found = [*_end(arguments, answer)]
    if TRACEBACK.search(answer.err):
        last = answer.err.decode("utf-8", "replace").strip().splitlines()[-1:]
        found.append(f"traceback: {''.join(last)[:120]}")
    for name, content in (("stdout", answer.out), ("stderr", answer.err)):
        found += [f"{name}: {what}" for what in _text(content)]
    if answer.code in (0, 1, 2) and not found:
        found += _document(arguments, answer.out)
    if answer.cpu_seconds > limits.cpu_seconds:
        found.append(f"{answer.cpu_seconds:.1f} s of CPU")
    if answer.memory_bytes > limits.memory_bytes:
        found.append(f"{answer.memory_bytes / 1e6:.0f} MB")
    return found


def _end(arguments: Sequence[str], answer: Ended) -> list[str]:
    if answer.code < 0:
        return [f"ended by signal {-answer.code}"]
    allowed = EXITS[arguments[0]]
    if set(_CHOSEN) & {word.partition("=")[0] for word in arguments}:
        allowed = (*allowed, WRONG_USAGE)
    found = [] if answer.code in allowed else [f"exit {answer.code}"]
    if answer.code and not (answer.err or answer.out).strip():
        found.append(f"exit {answer.code} without a word")
    return found


def _text(content: bytes) -> list[str]:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return ["no UTF-8"]
    hostile = CONTROL.search(text)
    return [f"control character U+{ord(hostile[0]):04X}"] if hostile else []


def _document(arguments: Sequence[str], out: bytes) -> list[str]:
    """What claims to be JSON or XML must be."""
    words = set(arguments)
    if words & {"--json", "json"} or arguments[0] == "snapshot":
        try:
            document = json.loads(out, parse_constant=_no_constant)
        except ValueError as error:
            return [f"stdout: no JSON: {error}"]
        return [f"no fix: {ident}" for ident in _without_fix(document)]
    if words & {"nccl-xml", "graphml", "svg"}:
        try:
            ElementTree.fromstring(out)
        except ElementTree.ParseError as error:
            return [f"stdout: no XML: {error}"]
    return []


def _without_fix(document: Any) -> Iterator[str]:
    """Findings of faults that say nothing of what to do."""
    findings = document.get("findings") if isinstance(document, dict) else None
    for finding in findings if isinstance(findings, list) else ():
        steps = finding.get("fix") or ()
        said = any(step.get("text") or step.get("command") for step in steps)
        if finding.get("severity") in FAULTS and not said:
            yield finding["id"]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
