"""The floors of tests/house/layers.toml, and what the code says to them.

`python -m tests.support.layers` prints them, the highest first, each with what its folder is for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from gputop.topology.toml import tomllib
from tests.support.places import ROOT

TOPS = ("gputop", "topology", "probes", "themes")
LIST = Path("tests/house/layers.toml")


def floors(text: str, root: Path = ROOT) -> dict[str, int]:
    """Folder or file -> its floor, 0 for the lowest.

    `FOLDER/*` stands for the folders in FOLDER that no line names.
    """
    lines: list[list[str]] = tomllib.loads(text)["floors"]
    height = {path: floor for floor, paths in enumerate(reversed(lines)) for path in paths}
    known = {path: floor for path, floor in height.items() if not path.endswith("/*")}
    folders = {str(path.parent) for path in python_files(root)}
    for folder in sorted(folders - known.keys()):
        family = f"{Path(folder).parent}/*"
        if family in height:
            known[folder] = height[family]
    return known


@cache
def python_files(root: Path) -> tuple[Path, ...]:
    """Every Python file of the program, relative to the root."""
    return tuple(
        path.relative_to(root)
        for top in TOPS
        for path in sorted((root / top).rglob("*.py"))
        if "__pycache__" not in path.parts
    )


@cache
def tree(path: Path) -> ast.Module:
    """A file as Python reads it; several tests look through the same ones."""
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, the outer ones first."""
    return tuple(ast.walk(tree(path)))


def place(path: Path, known: dict[str, int]) -> str:
    """What has the floor of a file: the file itself, or the nearest folder above it with one."""
    parts = (str(part) for part in (path, *path.parents))
    return next((part for part in parts if part in known), str(path.parent))


def imported(root: Path, path: Path) -> Iterator[Path]:
    """Files of the program that one imports, wherever in it the import stands."""
    module = _package(path)
    for node in nodes(root / path):
        if isinstance(node, ast.Import):
            wanted = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = module[: len(module) - node.level + 1] if node.level else ()
            base = (*above, *(node.module or "").split(".")) if node.module else above
            wanted = [(*base, alias.name) for alias in node.names]
        else:
            continue
        yield from filter(None, (_file(root, parts) for parts in wanted))


def loaded(root: Path, path: Path) -> Iterator[Path]:
    """Files of the program that one may import by `import_module`.

    What is not written out in the call counts as any text: a list of names stands for all modules
    in its place.
    """
    importers = {"import_module", "__import__"} | {
        alias.asname
        for node in nodes(root / path)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == "import_module" and alias.asname
    }
    for node in nodes(root / path):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        func = node.func
        if (func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")) in importers:
            name, *within = (_pattern(argument, path) for argument in node.args)
            if name.startswith("."):
                name = (within[0] if within else "*") + name
            for other in python_files(root):
                if fnmatchcase(".".join(_module(other)), name):
                    yield other


def _pattern(node: ast.expr, path: Path) -> str:
    """The text of an expression, with "*" for what is not known before it runs."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.FormattedValue):
        return _pattern(node.value, path)
    if isinstance(node, ast.JoinedStr):
        return "".join(_pattern(value, path) for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _pattern(node.left, path) + _pattern(node.right, path)
    if isinstance(node, ast.Name) and node.id == "__package__":
        return ".".join(_package(path))
    if isinstance(node, ast.Name) and node.id == "__name__":
        return ".".join(_module(path))
    return "*"


def _package(path: Path) -> tuple[str, ...]:
    """The package that a file is in: ("gputop", "topology", "wiring")."""
    return path.parts[:-1] if path.parts[0] == "gputop" else ("gputop", *path.parts[:-1])


def _module(path: Path) -> tuple[str, ...]:
    """The dotted name of a file, in parts."""
    return _package(path) if path.stem == "__init__" else (*_package(path), path.stem)


@cache
def _file(root: Path, parts: tuple[str, ...]) -> Path | None:
    """The file that defines a dotted name; None for what is not the program's."""
    if parts[0] != "gputop":
        return None
    if len(parts) > 1 and parts[1] in TOPS:
        parts = parts[1:]
    for length in range(len(parts), 0, -1):
        path = Path(*parts[:length])
        for found in (path.with_suffix(".py"), path / "__init__.py"):
            if (root / found).is_file():
                return found
    return None


def breaches(root: Path, known: dict[str, int]) -> Iterator[tuple[str, str]]:
    """(file, file) of every import that does not go to a lower floor.

    A folder's `__init__.py` that imports nothing of the program is a list of names, or empty:
    everybody may read it. What a list names inside its own folder may stand on a higher floor.
    """
    for path in python_files(root):
        here = place(path, known)
        plain, by_name = set(imported(root, path)), set(loaded(root, path))
        for other in plain | by_name:
            there = place(other, known)
            apart = path.parts[0] not in ("gputop", other.parts[0])
            lower = known[there] < known[here] and not apart
            inside = len(path.parts) > 2 and path.parent in other.parents
            listed = other not in plain and inside
            if here == there or lower or listed or (_is_list(root, other) and not apart):
                continue
            yield str(path), str(other)


@cache
def _is_list(root: Path, path: Path) -> bool:
    return path.name == "__init__.py" and not any(imported(root, path))


def printed(root: Path) -> Iterator[str]:
    """The floors as lines: paths, and the first line of what they say they are."""
    known = floors((root / LIST).read_text("utf-8"), root)
    for path in sorted(known, key=lambda path: (-known[path], path)):
        file = root / path if path.endswith(".py") else root / path / "__init__.py"
        said = (ast.get_docstring(tree(file)) or "").partition("\n")[0]
        yield f"{known[path]:3}  {path:38} {said}"


if __name__ == "__main__":
    print("\n".join(printed(ROOT)))
