"""Lists of CPUs as the kernel writes them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.model.cpulist import members, written


def test_cpu_lists() -> None:
    assert members("0-2,5") == frozenset({0, 1, 2, 5})
    assert members("") == frozenset()
    assert members(None) is None
    for text in ("a", "3-1", "0-99999999", "1-", "-1", "²"):
        assert members(text) is None
    assert written([5, 1, 0, 2]) == "0-2,5"
    assert written([]) == ""


@given(st.sets(st.integers(0, 300)))
def test_cpu_lists_round_trip(cpus: set[int]) -> None:
    assert members(written(cpus)) == frozenset(cpus)


@given(st.text(max_size=30))
def test_any_text_is_a_cpu_list_or_none(text: str) -> None:
    assert members(text) is None or max(members(text) or {0}) < 65_536
