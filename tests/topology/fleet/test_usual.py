"""What most nodes have, and where there is no majority."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from gputop.topology.fleet.fleet import NOT_SET, _usual


def sets(*facts: tuple[int, dict[str, str]]) -> list[list[Any]]:
    return [[SimpleNamespace(category=lambda _, own=own: own)] * count for count, own in facts]


def test_only_facts_that_differ_are_compared() -> None:
    for members, usual, mixed in (
        (((1, {"a": "1", "b": "x"}), (1, {"a": "1", "b": "y"})), {}, {"b": {"x": 1, "y": 1}}),
        (((2, {"a": "1", "b": "x"}), (1, {"a": "1", "b": "y"})), {"b": ("x", 2)}, {}),
        (((2, {"b": "x"}), (2, {"b": "y"})), {}, {"b": {"x": 2, "y": 2}}),
        (((3, {"b": "x"}), (2, {"b": "y"})), {}, {"b": {"x": 3, "y": 2}}),
        (((4, {"b": "x"}), (2, {"b": "y"})), {"b": ("x", 4)}, {}),
        # What is not known of the others differs from nothing.
        (((2, {"b": "x"}), (1, {})), {}, {}),
    ):
        made = sets(*members)
        found = _usual("settings", made, sum(map(len, made)))
        assert found == (usual, {what: Counter(counts) for what, counts in mixed.items()}), members


def test_a_variable_that_is_not_there_is_not_set() -> None:
    made = sets((2, {"NCCL_ALGO": "Ring"}), (1, {}))
    assert _usual("environment", made, 3) == ({"NCCL_ALGO": ("Ring", 2)}, {})
    made = sets((1, {"NCCL_ALGO": "Ring"}), (2, {}))
    assert _usual("environment", made, 3) == ({"NCCL_ALGO": (NOT_SET, 2)}, {})
