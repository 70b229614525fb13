"""Whether the fleet's answer names every odd node, and no other one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gputop.topology.fleet.hosts import expand, fold, in_order
from tests.harness.engines.cases import KINDS, NODES, Case


def named(document: Mapping[str, Any]) -> dict[str, set[str]]:
    """The ids of the findings about each node."""
    found: dict[str, set[str]] = {}
    for finding in document["findings"]:
        hosts = finding["hosts"]
        for host in expand(hosts) if isinstance(hosts, str) else hosts:
            found.setdefault(host, set()).add(finding["id"])
    return found


def words(document: Mapping[str, Any]) -> str:
    """All findings in one line: "missing g3, nvlink-down g5"."""
    hosts: dict[str, list[str]] = {}
    for host, ids in named(document).items():
        for found in ids:
            hosts.setdefault(found, []).append(host)
    return "; ".join(f"{found} {fold(names)}" for found, names in hosts.items()) or "nothing"


def faults(case: Case, document: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the answer, each as a sentence."""
    found = named(document)
    for node, kind in case.kinds.items():
        for wanted in KINDS[kind].named:
            if wanted not in found.get(node, set()):
                yield f"{node} ({kind}) is not named by {wanted}"
    for node in in_order(found):
        if node not in case.kinds:
            yield f"{node} is accused of {', '.join(sorted(found[node]))}"
    for node in in_order(set(case.kinds) - set(NODES)):
        yield f"{node} is no node"
