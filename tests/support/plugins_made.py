"""Distributions with plugins, as an installer leaves them: a module and a record of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gputop.topology.plugins import PLUGINS
from gputop.topology.toml import tomllib

from .places import ROOT

EXAMPLE = ROOT / "recipes" / "plugin"
RULE = """
from gputop.topology.diagnosis.rule import Rule
from gputop.topology.model.severity import NOTICE
def check(case):
    {body}
RULES = Rule(id="{id}", title="t", evidence="e", disproof="d", sources=("s",), check=check,
             extra=True)
"""
FINDS = 'return RULES.finding(NOTICE, "found", evidence=[("a", "b", "c")], impact="none")'


def distribution(
    folder: Path,
    name: str,
    entries: Mapping[str, Mapping[str, str]],
    modules: Mapping[str, str] = {},
    version: str = "1.0",
) -> None:
    """Put one into a folder: group -> name -> "module:object", and the text of its modules."""
    folder.mkdir(exist_ok=True)
    plain = "".join(char for char in name if char.isalnum())
    info = folder / f"{plain}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, each in entries.items():
        lines += [f"[gputop.{group}]", *(f"{key} = {value}" for key, value in each.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)


def rule_plugin(folder: Path, name: str, body: str = FINDS, rule: str = "") -> None:
    """One with a rule; `body` is what it does when it is asked."""
    text = RULE.format(body=body, id=rule or f"rule-of-{name}")
    distribution(folder, name, {"rules": {name: f"made_{name}:RULES"}}, {f"made_{name}": text})


def example(folder: Path) -> None:
    """The example of recipes/plugin, installed."""
    told = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    groups = {
        group.removeprefix("gputop."): entries for group, entries in told["entry-points"].items()
    }
    distribution(folder, told["name"], groups, version=told["version"])
    package = folder / "gputop_example"
    package.mkdir()
    for path in (EXAMPLE / "gputop_example").glob("*.py"):
        (package / path.name).write_bytes(path.read_bytes())


def use(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let this process have the plugins of a folder, and no others."""
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(PLUGINS, "_folders", lambda: [str(folder)])
    monkeypatch.setattr(PLUGINS, "_found", None)
    monkeypatch.setattr(PLUGINS, "_accepted", {})
    monkeypatch.setattr(PLUGINS, "_troubles", {})
    monkeypatch.setattr(PLUGINS, "_hears", None)
    monkeypatch.setattr(PLUGINS, "held", False)
    for name in [name for name in sys.modules if name.startswith(("made_", "gputop_example"))]:
        monkeypatch.delitem(sys.modules, name)
