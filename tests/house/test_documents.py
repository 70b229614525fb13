"""What the documents say of the repository is there, and their examples are fit to be copied."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys

import pytest

from gputop.screens import NAMES
from gputop.widgets.status import number_key
from tests.house.promises.worked_examples import example, paths
from tests.support.places import ROOT

DOCUMENTS = (
    "README.md", "CONTRIBUTING.md", "news/README.md", "probes/README.md",
    "tests/recordings/README.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
)  # fmt: skip
FOREIGN = {
    "__init__.py": "every folder has one",
    "NAME.KIND.md": "how the files in news/ are called",
    "before.json": "a reader writes it",
    "check.xml": "a reader writes it",
    "gputop/check.toml": "lies in the reader's configuration folder",
    "gputop/app.toml": "lies there too",
    "gputop/themes": "lies in the reader's configuration folder",
    "gputop/themes/NAME.toml": "lies in the reader's configuration folder",
    "healthy-sister.json": "a reader writes it",
    "kern.log": "lies in a reader's /var/log",
    "nccl-fault.log": "lies in the repository that a recording is from",
    "nccl.log": "a reader writes it",
    "nccl_topo_dump.xml": "lies in the repository that a recording is from",
    "nccl_topo_dump_normal.xml": "lies in the repository that a recording is from",
    "node.json": "a reader writes it",
    "nvidia-bug-report.sh": "comes with NVIDIA's driver",
    "nvml.json": "a kind of recording",
    "qx-vrnvl72.xml": "lies in the repository that a recording is from",
    "topo.xml": "a reader writes it",
    "ticket.md": "a reader writes it",
}
"""Words that look like files of the repository and are none, each with the reason."""
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`|\]\(([^)\s]+)\)")
_PATH = re.compile(r"[\w.\-*]+(?:/[\w.\-*]+)*/?")
_FILE = re.compile(r"\.(py|toml|md|cu|json|xml|txt|log|sh|yaml|svg|tcss)$")
_GLOSSARY = re.compile(r"^\| [^|]+ \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
_NAMED = re.compile(r"`(\w+)` in `([^`]+)`")


def read(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def named_paths(document: str) -> set[str]:
    """Every word in backticks or in a link that names a file or a folder, commands included."""
    found = set[str]()
    for code, link in _CODE.findall(_FENCE.sub("", read(document))):
        for word in (code or link).split():
            top = word.split("/")[0]
            inside = "/" in word.rstrip("/") and top != ".venv" and (ROOT / top).exists()
            named = _FILE.search(word) or inside or word.endswith("/")
            if named and _PATH.fullmatch(word):
                found.add(word)
    return found


def exists(word: str, document: str) -> bool:
    """Whether it is there; NAME and SUBJECT stand for any name.

    Paths begin at the root or beside the document. Below the root a file may also be named without
    its folder, where the text around it says which one is meant.
    """
    pattern = re.sub(r"\b(NAME|SUBJECT)\b", "*", word.rstrip("/"))
    beside = (ROOT / document).parent
    deeper = [f"**/{pattern}"] if beside != ROOT and "/" not in pattern else []
    return any(ROOT.glob(pattern)) or any(any(beside.glob(part)) for part in (pattern, *deeper))


def defined(path: str) -> set[str]:
    """The names that a module defines."""
    found = set[str]()
    for node in ast.parse(read(path)).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_that_a_document_names_is_there(document: str) -> None:
    named = named_paths(document) - FOREIGN.keys()
    assert {word for word in named if not exists(word, document)} == set()


def test_every_exception_is_still_one() -> None:
    named = set[str]().union(*(named_paths(document) for document in DOCUMENTS))
    assert FOREIGN.keys() - named == set()
    assert len(named) > 100, "hardly a path was found, so few were looked for"


def test_the_screens_of_the_manual_are_those_of_the_app() -> None:
    shown = re.findall(r"^\| `(\d)` \| (\w+) \|", read("docs/screens.md").split("## ")[0], re.M)
    assert shown == [(number_key(place), name.capitalize()) for place, name in enumerate(NAMES)]


def test_the_words_of_contributing_name_what_is_there() -> None:
    rows = _GLOSSARY.findall(read("CONTRIBUTING.md"))
    places = [place for cell in rows for place in _NAMED.findall(cell)]
    assert len(places) > 10
    assert [(name, path) for name, path in places if name not in defined(path)] == []


@pytest.mark.skipif(importlib.util.find_spec("ruff") is None, reason="no ruff for this Python")
@pytest.mark.parametrize("path", [path for path in paths() if path.endswith(".py")])
def test_an_example_passes_the_linters(path: str) -> None:
    assert not (ROOT / path).exists(), "an example adds a file"
    for action in (("check",), ("format", "--check")):
        command = (sys.executable, "-m", "ruff", *action, "--stdin-filename", path, "-")
        done = subprocess.run(
            command, cwd=ROOT, input=example(path), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_contributing_stays_short() -> None:
    assert len(read("CONTRIBUTING.md").splitlines()) <= 200
