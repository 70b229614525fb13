"""A public class name stands for one thing in the whole program."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict

from tests.support.layers import nodes
from tests.support.places import ROOT

_CLASS = re.compile(r"^ *class ([A-Za-z]\w*)", re.MULTILINE)


def bearers() -> dict[str, list[str]]:
    """Name of each public class that may occur twice -> where it is defined."""
    paths = [
        path
        for top in ("gputop", "topology", "probes")
        for path in sorted((ROOT / top).rglob("*.py"))
    ]
    # Few files have to be parsed for certainty: a class is found in the text first.
    named = {path: _CLASS.findall(path.read_text("utf-8")) for path in paths}
    times = Counter(name for names in named.values() for name in names)
    found = defaultdict(list)
    for path, names in named.items():
        if any(times[name] > 1 for name in names):
            for node in nodes(path):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_no_public_class_name_occurs_twice() -> None:
    doubled = {name: places for name, places in bearers().items() if len(places) > 1}
    assert doubled == {}
