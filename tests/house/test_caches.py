"""What is remembered by what comes from outside has a bound."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gputop.topology.hardware.specs import MOST_NAMES, _differ, _matched, sku_for
from tests.support.app import gpu
from tests.support.places import ROOT

BY_OUR_OWN = {
    *{"_specs", "_with"},  # probes and figures that are installed
    *{"rows", "faults", "meanings", "compiled", "matching", "table"},  # our files, and their rows
    *{"published", "statements", "unconfirmed", "_meaning"},  # models, nodes and libraries therein
}
"""Functions that are asked with words of our own tables alone: `cache` may keep all of them."""
OUTSIDE = ("str", "int", "float", "bytes", "tuple", "frozenset", "Any")
"""What comes in files, answers and options has parameters of these types."""


def kept_for_ever() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions of modules and classes whose results `functools.cache` keeps."""
    for folder in ("gputop", "topology", "probes"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_bytes())
            for node in (*tree.body, *(one for each in tree.body for one in body_of(each))):
                if isinstance(node, ast.FunctionDef) and any(
                    ast.unparse(one) in ("cache", "functools.cache", "lru_cache(None)")
                    for one in node.decorator_list
                ):
                    yield str(path.relative_to(ROOT)), node


def body_of(node: ast.stmt) -> list[ast.stmt]:
    """What stands in a class."""
    return node.body if isinstance(node, ast.ClassDef) else []


def test_only_words_of_our_own_are_remembered_for_ever() -> None:
    unbounded = {
        f"{file}: {node.name}"
        for file, node in kept_for_ever()
        for given in (*node.args.args, *node.args.kwonlyargs)
        if node.name not in BY_OUR_OWN
        and given.annotation is not None
        and set(OUTSIDE) & {*ast.unparse(given.annotation).replace("[", " ").split()}
    }
    assert not unbounded
    assert {node.name for _, node in kept_for_ever()} >= BY_OUR_OWN


def test_names_without_end_are_not_all_kept() -> None:
    for number in range(2 * MOST_NAMES):
        assert sku_for(gpu(0, name=f"NVIDIA X{number}")) is None
    assert _matched.cache_info().currsize <= MOST_NAMES
    assert _differ.cache_info().currsize <= MOST_NAMES
