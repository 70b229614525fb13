"""A log among the texts that describe a node: what it says went wrong, and its own System block."""

from __future__ import annotations

import io
from collections.abc import Sequence

import msgspec

from ...logs.comparing.overlay import rebuild
from ...logs.reading.lines import LogUnreadable
from ...logs.reading.read import read_log
from ...logs.report.report import LogNote, LogReport
from ...model.finding import Finding
from ...model.part import PartialNode
from ...model.severity import CANNOT_TELL, Origin
from ...nccl.xml.machine import part_of_topology
from .explain import known_signs
from .log import findings_of_others, next_step, symptoms
from .unproven import is_extract, no_failure, unknown_failure

_HEAD_BYTES = 64 * 1024
"""In so many bytes a program has a null byte."""


def part_of_log(data: bytes, name: str, alone: bool) -> PartialNode | None:
    """What a log says of a node; None where no line of one is in the text.

    `alone`: nothing else in the text describes a node, so the machine is taken from the log's own
    System block where it has one.
    """
    try:
        log = read_log(io.BytesIO(data), name=name, signs=known_signs(), outputs=True)
    except LogUnreadable:
        return None
    found, left = symptoms(log)
    found = (*found, *findings_of_others(log.pasted))
    is_text = b"\0" not in data[:_HEAD_BYTES]
    if alone and is_text and not found:
        found = _unproven(log, left, name)
    if not _is_log(log, found, alone=alone, is_text=is_text):
        return None
    machine = _machine(log) if alone else PartialNode()
    told = tuple(msgspec.structs.replace(one, origin=Origin.LOG) for one in found)
    return msgspec.structs.replace(machine, symptoms=told)


def _unproven(log: LogReport, left: Sequence[LogNote], name: str) -> tuple[Finding, ...]:
    """What a text shows in which no symptom is: a failure in unknown words, or a machine."""
    step = next_step(log, (), left)
    if left:
        return (unknown_failure(left, step, name),)
    if not log.library_lines and is_extract(log.context):
        return (no_failure(log.context, step, name),)
    return ()


def _is_log(log: LogReport, found: Sequence[Finding], *, alone: bool, is_text: bool) -> bool:
    """Whether a text is one: by lines of the library, a warning, a fault, or words of failure.

    Beside what describes a node, words of failure that name no operation make no log: many a list
    of packages has some. Nor does a program, which holds all of its messages.
    """
    if log.library_lines or log.notes or any(one.severity is not CANNOT_TELL for one in found):
        return True
    return is_text and any(alone or one.candidates for one in found)


def _machine(log: LogReport) -> PartialNode:
    rebuilt = rebuild(log)
    if isinstance(rebuilt, str):
        return PartialNode()
    part = part_of_topology(rebuilt.element)
    return msgspec.structs.replace(part, assumptions=(*part.assumptions, *rebuilt.assumptions))
