"""The hosts that `--nodes` names."""

from __future__ import annotations

from importlib import import_module

from gputop.exits import USAGE, Exit
from gputop.terminal.clean import clean
from gputop.topology.fleet.hosts import LIMIT_HOSTS, expand, in_order

OPERATORS = frozenset("@!&^")
"""What only ClusterShell understands: groups, and operators between lists."""


def hosts_of(text: str | None) -> tuple[str, ...]:
    """The hosts of --nodes; () without it. Raises Exit.

    Groups and operators are left to ClusterShell where it is installed: to look a group up it runs
    what the site's groups.conf says.
    """
    if text is None:
        return ()
    try:
        hosts = expand(text) if not OPERATORS & set(text) else _by_cluster_shell(text)
    except ValueError as error:
        raise Exit(f"--nodes: {clean(error, 300)}", USAGE) from error
    if not hosts:
        # An empty value is often an unset variable of a script; it must not expect nothing.
        raise Exit("--nodes needs a list, such as g[1-16]", USAGE)
    return hosts


def _by_cluster_shell(text: str) -> tuple[str, ...]:
    try:
        library = import_module("ClusterShell.NodeSet")
    except ImportError:
        return expand(text)  # which says what to do
    try:
        found = library.NodeSet(text)
        if len(found) > LIMIT_HOSTS:
            raise ValueError(f"the list names more than {LIMIT_HOSTS} hosts")
        return tuple(in_order(str(host) for host in found))
    except library.NodeSetException as error:
        raise ValueError(f"ClusterShell: {error}") from error
