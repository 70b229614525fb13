"""Which of amdsmi's refusals mean that the driver failed, not that a product lacks something."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...model.part import Raw
from ...model.snapshot import Problem
from ..files.failures import ERROR, Unanswered, problems
from ..files.library_answers import dicts
from .answers import reason
from .possible import LIMITS

_ANSWERS = ("NOT_SUPPORTED", "NOT_YET_IMPLEMENTED", "NO_PERM", "NO_DATA")
"""Statuses for what a product, a driver or a user does not have."""
_OF_LIBRARY = "AmdSmi"
"""How the names of the binding's exceptions begin; others are the binding's own troubles."""
_OF_BINDING = "AmdSmiParameterException"
_NONSENSE = ("KeyError", "IndexError", "OverflowError", "ValueError", "UnicodeDecodeError")
"""How the binding fails over an answer that is in no enumeration and no list."""
_CALL = "amdsmi_"
_ECC = "amdsmi_get_gpu_ecc_count"


def failed(
    source: str, system: Raw, devices: Iterable[tuple[str | None, dict[str, Raw]]]
) -> tuple[Problem, ...]:
    """What amdsmi failed to answer: of the system, and of each device with its address."""
    found = [] if not isinstance(system, dict) else list(_of_answers(system, ""))
    for address, device in devices:
        own = address or ""
        found += _of_answers(device, own)
        for pair in dicts(device.get("pairs")):
            found += _of_answers(pair, own)
        blocks = device.get("ecc")
        for block, answer in blocks.items() if isinstance(blocks, dict) else ():
            found += _failure(f"{_ECC}({block})", answer, own)
    return problems(source, found)


def _of_answers(answers: dict[str, Raw], address: str) -> Iterator[Unanswered]:
    for name, answer in answers.items():
        if isinstance(answer, dict) and name.startswith(_CALL):
            yield from _failure(name, answer, address)


def _failure(question: str, answer: Raw, address: str) -> Iterator[Unanswered]:
    if not isinstance(answer, dict) or "error" not in answer:
        return
    text = str(answer["error"])
    known = any(f"STATUS_{word}" in text for word in _ANSWERS)
    if text.startswith(_NONSENSE) and question.partition("(")[0] in LIMITS:
        yield Unanswered(ERROR, "an answer that the binding does not understand", question, address)
    if text.startswith(_OF_LIBRARY) and not text.startswith(_OF_BINDING) and not known:
        yield Unanswered(ERROR, reason(text), question, address)
