"""The hosts that `--nodes` names, with ClusterShell and without."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

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


FAILURES = (
    "ClusterShell.NodeSet.NodeSetException",
    "ClusterShell.NodeSet.NodeSetExternalError",
    "ClusterShell.NodeUtils.GroupSourceError",
    "ClusterShell.NodeUtils.GroupResolverError",
    "ClusterShell.NodeUtils.GroupResolverSourceError",
    "ClusterShell.NodeUtils.GroupResolverConfigError",
    "ClusterShell.NodeUtils.GroupResolverIllegalCharError",
    "ClusterShell.RangeSet.RangeSetException",
    "configparser.Error",
    "builtins.PermissionError",
    "builtins.UnicodeError",
    "builtins.KeyError",
)
"""What it raises for a list or for the files of its groups."""


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[Path]:
    """A configuration of groups of our own, in place of those of this environment."""
    library = pytest.importorskip("ClusterShell.NodeSet")
    made = tmp_path / "groups.conf"
    utils = import_module("ClusterShell.NodeUtils")
    library.set_std_group_resolver(utils.GroupResolverConfig([str(made)]))
    yield made
    library.set_std_group_resolver(None)


@pytest.mark.parametrize("text", ["@gpu", "@*", "@a:b", "g1,@gpu", "@gpu!g7", "@*:x", "@a:", "@@"])
def test_a_group_that_is_not_set_up_is_said_in_a_line(text: str, groups: Path) -> None:
    with pytest.raises(Exit, match=r"^--nodes: ClusterShell: no source of groups ") as failed:
        hosts_of(text)
    assert failed.value.exit_code == USAGE
    assert "\n" not in str(failed.value)


def test_a_group_that_is_set_up_is_its_nodes(groups: Path) -> None:
    groups.write_text("[Main]\ndefault: made\n[made]\nmap: echo g[1-3]\nall: echo g[1-9]\n")
    assert hosts_of("@gpu!g2,g7") == ("g1", "g3", "g7")
    assert len(hosts_of("@*")) == 9


@pytest.mark.parametrize("name", FAILURES)
def test_whatever_the_library_raises_is_said_in_a_line(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ClusterShell")
    module, _, kind = name.rpartition(".")
    raised = getattr(import_module(module), kind)

    def fail(_: str) -> None:
        raise raised(*["no such thing"] * (2 if name.endswith("GroupSourceError") else 1))

    monkeypatch.setattr("ClusterShell.NodeSet.NodeSet", fail)
    with pytest.raises(Exit, match=r"--nodes: ClusterShell: .*no such thing") as failed:
        hosts_of("@gpu")
    assert failed.value.exit_code == USAGE
