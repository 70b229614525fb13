"""A public class name stands for one thing in the whole program."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.support.layers import nodes
from tests.support.places import ROOT


def bearers() -> dict[str, list[str]]:
    """Name of each public class -> where it is defined."""
    found = defaultdict(list)
    for top in ("gputop", "topology", "probes"):
        for path in sorted((ROOT / top).rglob("*.py")):
            for node in nodes(path):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_no_public_class_name_occurs_twice() -> None:
    doubled = {name: places for name, places in bearers().items() if len(places) > 1}
    assert doubled == {}
