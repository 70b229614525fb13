"""Large grids of cases: a share runs every time, the rest with `python -m pytest -m grid`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet

Case = TypeVar("Case")


def share(cases: Iterable[Any], one_in: int) -> list[ParameterSet]:
    """All cases; one in so many runs every time.

    A number that divides the length of no column lets each value of each column have its turn.
    """
    return [_param(case, often=not number % one_in) for number, case in enumerate(cases)]


def covering(cases: Iterable[Case], shown: Callable[[Case], Iterable[Hashable]]) -> list[Any]:
    """All cases; those run every time that show something which none before them shows."""
    seen: set[Hashable] = set()
    found = []
    for case in cases:
        known = len(seen)
        seen.update(shown(case))
        found.append(_param(case, often=len(seen) > known))
    return found


def _param(case: Any, *, often: bool) -> ParameterSet:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=() if often else pytest.mark.grid)
