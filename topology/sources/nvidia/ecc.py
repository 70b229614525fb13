"""Memory errors as NVML counts them: ECC totals, remapped rows, retired pages.

They are asked every tenth time and hardly ever change, so equal answers are understood once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from ...model.part import Raw
from ...model.readings import EccCounts
from ..files.library_answers import Answers, odd
from .answers import NVML

_ROWS = "nvmlDeviceGetRemappedRows"
_PENDING = "nvmlDeviceGetRetiredPagesPendingStatus"
_BEYOND = "nvmlDeviceGetUnrepairableMemoryFlag_v1"
_ASKED = ("ecc00", "ecc10", "ecc01", "ecc11", _ROWS, "retired0", "retired1", _PENDING, _BEYOND)
_MOST = 512
"""Different answers that are kept: more than a node has GPUs."""


def counts(a: Answers) -> EccCounts | None:
    """The counts of one GPU; None and a gap where nobody asked."""
    answers = [a.raw.get(name) for name in _ASKED]
    if answers[0] is answers[4] is answers[7] is None:
        a.miss("ecc", "not asked")
        return None
    try:
        encoded = msgspec.msgpack.encode(answers)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _understood(answers)  # a number beyond 64 bits, text that is not UTF-8
    return _remembered(encoded)


@lru_cache(_MOST)
def _remembered(encoded: bytes) -> EccCounts:
    return _understood(msgspec.msgpack.decode(encoded))


def _understood(answers: list[Raw]) -> EccCounts:
    own = Answers(dict(zip(_ASKED, answers, strict=True)), NVML)
    values: dict[str, Any] = {
        "corrected_volatile": own.number("corrected_volatile", "ecc00"),
        "uncorrected_volatile": own.number("uncorrected_volatile", "ecc10"),
        "corrected_aggregate": own.number("corrected_aggregate", "ecc01"),
        "uncorrected_aggregate": own.number("uncorrected_aggregate", "ecc11"),
        "rows_remapped_corrected": own.number("rows_remapped_corrected", (_ROWS, 0)),
        "rows_remapped_uncorrected": own.number("rows_remapped_uncorrected", (_ROWS, 1)),
        "remap_pending": own.flag("remap_pending", (_ROWS, 2)),
        "remap_failed": own.flag("remap_failed", (_ROWS, 3)),
        "pages_retired_single": _length(own, "pages_retired_single", "retired0"),
        "pages_retired_double": _length(own, "pages_retired_double", "retired1"),
        "retirement_pending": own.flag("retirement_pending", _PENDING),
        "unrepairable": own.flag("unrepairable", _BEYOND),
    }
    return EccCounts(gaps=own.gaps, **values)


def _length(a: Answers, field: str, name: str) -> int | None:
    pages = a.get(field, name)
    if isinstance(pages, list):
        return len(pages)
    if pages is not None:
        a.miss(field, odd(pages))
    return None
