"""Large grids of cases: a share runs every time, the rest with `python -m pytest -m grid`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import product
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

Case = TypeVar("Case")


def share(cases: Iterable[Any], one_in: int) -> list[ParameterSet]:
    """All cases; one in so many runs every time.

    A number that divides the length of no column lets each value of each column have its turn.
    """
    return [_param(case, often=not number % one_in) for number, case in enumerate(cases)]


def turns(*given: Iterable[Any]) -> list[ParameterSet]:
    """Every combination; those run every time in which each value of each column has its turn.

    As many as the longest column has values: beside it the others count up like digits.
    """
    columns = [list(column) for column in given]
    most = max(map(len, columns))
    longest = next(number for number, column in enumerate(columns) if len(column) == most)
    often = set()
    for number in range(most):
        places, rest = [], number
        for place, column in enumerate(columns):
            places.append(number if place == longest else rest % len(column))
            if place != longest:
                rest //= len(column)
        often.add(tuple(places))
    every = product(*(range(len(column)) for column in columns))
    return [
        _param(
            tuple(column[place] for column, place in zip(columns, places, strict=True)),
            often=places in often,
        )
        for places in every
    ]


def fewer(one_in: int) -> settings:
    """A share of the made-up inputs of the profile, for a test whose inputs are expensive."""
    profile = settings.default
    assert profile is not None
    return settings(max_examples=profile.max_examples // one_in)


def shown_size(value: object) -> str | None:
    """The name of a size among other parameters: "80x24"."""
    return f"{value[0]}x{value[1]}" if isinstance(value, tuple) else None


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
