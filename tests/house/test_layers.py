"""Who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

FORBIDDEN = {
    "gputop": {"torch", "topology", "probes", "themes"},
    "topology": {"gputop", "probes", "textual", "rich", "torch", "click"},
    "probes": {"gputop", "topology", "textual", "rich", "networkx", "pynvml", "msgspec", "psutil"},
}
FILES = [
    (folder, path)
    for folder in FORBIDDEN
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "__pycache__" not in path.parts
]


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize(
    ("folder", "path"), FILES, ids=[str(path.relative_to(ROOT)) for _, path in FILES]
)
def test_imports_point_one_way(folder: str, path: Path) -> None:
    assert not imported(path) & FORBIDDEN[folder]


def test_torch_is_imported_only_inside_functions() -> None:
    for path in (ROOT / "probes").rglob("*.py"):
        top = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import)]
        assert all(alias.name.split(".")[0] != "torch" for node in top for alias in node.names), (
            path
        )


def test_no_screen_and_no_torch_behind_topology_and_probes() -> None:
    modules = []
    for folder in ("topology", "probes"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            modules.append(".".join(("gputop", *parts)).removesuffix(".__init__"))
    code = (
        "import importlib, sys\n"
        f"for name in {modules!r}:\n"
        "    if not name.endswith('probes.worker'): importlib.import_module(name)\n"
        "heavy = {'textual', 'rich', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", [path for _, path in FILES], ids=str)
def test_no_file_is_over_the_wall(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300
