"""Who may import whom, as layers.toml says it, and how large anything may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from tests.support.layers import LIST, breaches, floors, nodes, place, printed, python_files, tree
from tests.support.places import ROOT

LINES = 500
FOREIGN = {
    "gputop": {"torch", "topology", "probes", "themes"},
    "topology": {"textual", "rich", "torch", "click"},
    "probes": {"textual", "rich", "networkx", "pynvml", "msgspec", "psutil"},
    "themes": set[str](),
}
"""Packages of others that nothing in there may import."""


def test_every_import_goes_to_a_lower_floor() -> None:
    known = floors((ROOT / LIST).read_text())
    places = {place(path, known) for path in python_files(ROOT)}
    assert places - known.keys() == set(), f"folders that {LIST} lacks"
    assert known.keys() - places == set(), f"what {LIST} still names"
    assert set(breaches(ROOT, known)) == set()


def test_the_floors_are_printed_with_what_each_is_for() -> None:
    lines = list(printed(ROOT))
    assert lines[0].split()[1] == "gputop/__main__.py"
    assert [line for line in lines if len(line.split()) < 3] == []


def test_a_new_folder_has_the_floor_of_its_family_or_of_the_folder_above(tmp_path: Path) -> None:
    for name in (
        "screens/clock/screen.py",
        "screens/clock/parts/hand.py",
        "screens/node/screen.py",
    ):
        (tmp_path / "gputop" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "gputop" / name).write_text("")
    known = floors('floors = [["gputop/screens/*"], ["gputop/screens"]]', tmp_path)
    assert known == {"gputop/screens": 0, "gputop/screens/clock": 1, "gputop/screens/node": 1}
    deep = Path("gputop/screens/clock/parts/hand.py")
    assert place(deep, known) == "gputop/screens/clock"


def test_an_import_that_goes_astray_is_found(tmp_path: Path) -> None:
    files = {
        "gputop/commands/__init__.py": "NAMES = ('topo',)",
        "gputop/commands/topo.py": "def run():\n    from gputop.topology.wiring import paths",
        "gputop/commands/up.py": "from gputop.commands import NAMES",
        "gputop/commands/root.py": "import_module(f'gputop.commands.{name}.command')",
        "gputop/commands/check/__init__.py": "",
        "gputop/commands/check/command.py": "import_module('torch')",
        "topology/__init__.py": "",
        "topology/wiring/__init__.py": "",
        "topology/wiring/paths.py": "from ..model import machine\nfrom .. import wiring",
        "topology/wiring/lists.py": "import_module('.' + NAMES[0], __package__)",
        "topology/model/__init__.py": "",
        "topology/model/late.py": "importlib.import_module('gputop.topology.wiring.paths')",
        "topology/model/renamed.py": "from importlib import import_module as load\n"
        "load('gputop.topology.wiring.paths')",
        "topology/model/builtin.py": "__import__('gputop.topology.wiring.paths')",
        "topology/model/lists.py": "import_module(f'{__package__}.{name}')",
        "topology/model/any.py": "import_module(name + '.paths')",
        "topology/model/machine.py": "def late():\n    from ..wiring.paths import path",
        "topology/amd/__init__.py": "",
        "topology/amd/parts.py": "if TYPE_CHECKING:\n    from ..nvidia import nvml",
        "topology/nvidia/__init__.py": "",
        "topology/nvidia/nvml.py": "from gputop.commands import NAMES, topo",
        "probes/__init__.py": "",
        "probes/worker.py": "from ..topology.model.machine import Gpu",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    lines = [
        ["gputop/commands/check"],
        ["gputop/commands"],
        ["probes"],
        ["topology/wiring"],
        ["topology/*", "topology"],
        ["topology/model"],
    ]
    known = floors(f"floors = {lines}", tmp_path)
    assert known["topology/nvidia"] == known["topology/amd"] == known["topology"] == 1
    assert set(breaches(tmp_path, known)) == {
        ("topology/model/machine.py", "topology/wiring/paths.py"),
        ("topology/model/late.py", "topology/wiring/paths.py"),
        ("topology/model/renamed.py", "topology/wiring/paths.py"),
        ("topology/model/builtin.py", "topology/wiring/paths.py"),
        ("topology/model/any.py", "topology/wiring/paths.py"),
        ("topology/amd/parts.py", "topology/nvidia/nvml.py"),
        ("topology/nvidia/nvml.py", "gputop/commands/__init__.py"),
        ("topology/nvidia/nvml.py", "gputop/commands/topo.py"),
        ("probes/worker.py", "topology/model/machine.py"),
    }


def test_every_file_stays_small_and_imports_no_foreign_package() -> None:
    wrong = []
    for path in python_files(ROOT):
        text = (ROOT / path).read_text()
        if len(text.splitlines()) > LINES:
            wrong.append(f"{path}: over {LINES} lines")
        names = {
            alias.name.split(".")[0]
            for node in nodes(ROOT / path)
            if isinstance(node, ast.Import)
            for alias in node.names
        } | {
            node.module.split(".")[0]
            for node in nodes(ROOT / path)
            if isinstance(node, ast.ImportFrom) and not node.level and node.module
        }
        relative = {"gputop"} if path.parts[0] != "gputop" else set[str]()
        wrong += [f"{path}: {name}" for name in names & (FOREIGN[path.parts[0]] | relative)]
        wrong += [
            f"{path}: torch outside a function"
            for node in tree(ROOT / path).body
            if isinstance(node, ast.Import) and "torch" in {alias.name for alias in node.names}
        ]
    assert wrong == []


def test_no_screen_and_no_torch_behind_topology_and_probes() -> None:
    modules = [
        ".".join(("gputop", *path.with_suffix("").parts)).removesuffix(".__init__")
        for path in python_files(ROOT)
        if path.parts[0] in ("topology", "probes") and path != Path("probes/worker.py")
    ]
    code = (
        "import importlib, sys\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "heavy = {'textual', 'rich', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
