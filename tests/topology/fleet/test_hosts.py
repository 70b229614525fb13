from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.fleet.hosts import (
    LIMIT_HOSTS,
    as_they_answer,
    expand,
    fold,
    in_order,
    is_host,
)

NAMES = st.sets(
    st.from_regex(
        r"[a-c]?(0|1|2|9|10|11|08|09|099|100){0,3}(-[0-3]{1,2})?(\.n[12])?", fullmatch=True
    ).filter(is_host),
    max_size=40,
)


@given(NAMES)
def test_a_folded_list_expands_to_the_same_hosts(names: set[str]) -> None:
    assert list(expand(fold(names))) == in_order(names)
    assert set(expand(fold(names))) == names


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["g1"], "g1"),
        (["login"], "login"),
        ([f"g{n}" for n in range(1, 17) if n != 7], "g[1-6,8-16]"),
        (["g2", "g10", "g2", "g9"], "g[2,9-10]"),
        (["g01", "g02", "g10"], "g[01-02,10]"),
        (["g08", "g09", "g10"], "g[08-10]"),
        ([f"r{r}n{n:02}" for r in (1, 2) for n in range(9, 12)], "r[1-2]n[09-11]"),
        (["g1-ib", "g2-ib"], "g[1-2]-ib"),
        (["1", "2", "3"], "[1-3]"),
        ([f"a{a}b{b}c{c}" for a in (1, 2) for b in (1, 2) for c in (1, 2)],
         "a1b[1-2]c[1-2],a2b[1-2]c[1-2]"),
    ],
)  # fmt: skip
def test_hosts_are_folded_as_slurm_writes_them(names: list[str], text: str) -> None:
    assert fold(names) == text
    assert list(expand(text)) == in_order(names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        (" g1, g2\n g3 ", ("g1", "g2", "g3")),
        ("g[3,1-2],g2", ("g1", "g2", "g3")),
        ("g[0-8/4]", ("g0", "g4", "g8")),
        ("g[098-100]", ("g098", "g099", "g100")),
    ],
)
def test_lists_are_read_as_both_programs_write_them(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("g[1-", "nothing closes"),
        ("g1]", "nothing opened"),
        ("g[1-[2]]", "inside a bracket"),
        ("g[3-1]", "upwards"),
        ("g[1-3/0]", "upwards"),
        ("g[a-b]", "no range"),
        ("g[]", "no range"),
        ("@gpu", "nodeset"),
        ("g[1-3]!g2", "nodeset"),
        ("g;rm", "no name of a host"),
        ("../g1", "no name of a host"),
        ("g[1-99999999]", "more than"),
        ("g[1-999]x[1-999]y[1-999]", "more than"),
        ("g" + "[1-9]" * 400, "more than"),
        ("g[" + "9" * 5000 + "]", "no number"),
    ],
)
def test_what_is_no_list_is_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        expand(text)


def test_what_is_no_host_is_not_folded() -> None:
    with pytest.raises(ValueError, match="no name of a host"):
        fold(["g1", "a b"])


def test_names_that_were_asked_for_are_those_that_answered() -> None:
    there = ["g1", "G2", "g3.b", "x.a", "x.b"]
    asked = ["g1", "g2.site", "g3", "x", "g9.site"]
    assert as_they_answer(asked, there) == ["g1", "G2", "g3.b", "x", "g9.site"]
    # Two that were asked for are not one node.
    assert as_they_answer(["g2.a", "g2.b"], ["g2"]) == ["g2.a", "g2.b"]


@pytest.mark.parametrize(
    "text",
    [
        "g[0-150000],g[0-150000]",  # equal names count each time
        "g" + "[0-199999]" * 1000,
        "g[" + ",".join(["0-199998"] * 3000) + "]",
        "g" + "[0-1]" * 18,
    ],
)
def test_names_are_counted_before_they_are_made(text: str) -> None:
    with pytest.raises(ValueError, match=f"more than {LIMIT_HOSTS} hosts"):
        expand(text)
