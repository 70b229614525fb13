"""The hosts that `--nodes` names, with ClusterShell and without."""

from __future__ import annotations

import sys

import pytest

from gputop.answers.fleet import hosts_of
from gputop.exits import USAGE, Exit


def test_a_plain_list_needs_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ClusterShell.NodeSet", None)
    assert hosts_of("g[8-10],g1") == ("g1", "g8", "g9", "g10")
    assert hosts_of(None) == ()


def test_operators_are_left_to_cluster_shell() -> None:
    pytest.importorskip("ClusterShell")
    assert hosts_of("g[1-4]!g2") == ("g1", "g3", "g4")
    assert hosts_of("g[1-4]&g[3-9]") == ("g3", "g4")


@pytest.mark.parametrize("text", ["g[1-4", "g[1-2]!", "", ","])
def test_what_is_no_list_is_said_in_a_line(text: str) -> None:
    with pytest.raises(Exit, match="--nodes") as failed:
        hosts_of(text)
    assert failed.value.exit_code == USAGE
    assert "\n" not in str(failed.value)


def test_without_the_library_an_operator_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ClusterShell.NodeSet", None)
    with pytest.raises(Exit, match="nodeset -f"):
        hosts_of("@gpu")
