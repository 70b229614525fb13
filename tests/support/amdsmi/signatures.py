"""What the real amdsmi offers, read out of its source with `ast`: nothing of it is imported.

The signatures of a version: {"functions": {name: {"parameters": [name], "required": n,
"keys": [string keys that its body writes]}}, "enums": {class: {member: number}}}; functions and
classes are those that `amdsmi/__init__.py` exports.
"""

from __future__ import annotations

import ast
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "amdsmi-signatures"
MAJORS = {"6": "6.4.3", "7": "7.0.2"}


def load(major: str) -> dict[str, Any]:
    """The signatures kept for a major version."""
    document: dict[str, Any] = json.loads((FOLDER / f"{MAJORS[major]}.json").read_text())
    return document


def dump(signatures: dict[str, Any]) -> str:
    """One function or class a line, so that a new version shows as a small difference."""
    lines = []
    for part in ("functions", "enums"):
        entries = [
            f"  {json.dumps(name)}: {json.dumps(signatures[part][name])}"
            for name in sorted(signatures[part])
        ]
        lines.append(f' "{part}": {{\n' + ",\n".join(entries) + "\n }")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def of_folder(package: Path) -> dict[str, Any]:
    """Read the signatures of an unpacked binding."""
    names = ("__init__.py", "amdsmi_interface.py", "amdsmi_wrapper.py")
    return extract(*((package / name).read_text() for name in names))


def of_wheel(wheel: Path) -> dict[str, Any]:
    """Read the signatures out of a wheel."""
    names = ("__init__.py", "amdsmi_interface.py", "amdsmi_wrapper.py")
    with zipfile.ZipFile(wheel) as archive:
        return extract(*(archive.read(f"amdsmi/{name}").decode() for name in names))


def extract(init: str, interface: str, wrapper: str) -> dict[str, Any]:
    """Read the signatures out of the three files of a binding."""
    exported = set(_exported(ast.parse(init)))
    numbers = dict(_numbers(ast.parse(wrapper)))
    functions: dict[str, Any] = {}
    enums: dict[str, Any] = {}
    for node in ast.parse(interface).body:
        if isinstance(node, ast.FunctionDef) and node.name in exported:
            functions[node.name] = _function(node)
        elif isinstance(node, ast.ClassDef) and node.name in exported:
            members = dict(_members(node, numbers))
            if members:
                enums[node.name] = members
    return {"functions": functions, "enums": enums}


def _exported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def _numbers(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Name) and isinstance(node.value.value, int):
                    yield target.id, node.value.value


def _function(node: ast.FunctionDef) -> dict[str, Any]:
    parameters = [argument.arg for argument in node.args.args]
    keys = {
        key.value
        for inner in ast.walk(node)
        if isinstance(inner, ast.Dict)
        for key in inner.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }
    required = len(parameters) - len(node.args.defaults)
    return {"parameters": parameters, "required": required, "keys": sorted(keys)}


def _members(node: ast.ClassDef, numbers: dict[str, int]) -> Iterator[tuple[str, int]]:
    for inner in node.body:
        if isinstance(inner, ast.Assign) and isinstance(inner.value, ast.Attribute):
            for target in inner.targets:
                if isinstance(target, ast.Name) and inner.value.attr in numbers:
                    yield target.id, numbers[inner.value.attr]
