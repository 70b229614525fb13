"""A registry names every module that offers what it lists, once."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

from gputop.answers import NAMES as QUESTIONS
from gputop.commands import MODULES as COMMANDS
from gputop.probes.catalog import BETWEEN_NODES
from gputop.probes.catalog import MODULES as PROBES
from gputop.screens import NAMES as SCREENS
from gputop.topology.diagnosis.rules import NAMES as RULES
from gputop.topology.exports import NAMES as EXPORTS
from gputop.topology.hardware.vendors import NAMES as VENDORS
from gputop.topology.recorded.demos import demo
from gputop.topology.recorded.formats import NAMES as FORMATS
from gputop.topology.sources import MODULES as SOURCES
from tests.support.places import ROOT


@dataclass(frozen=True)
class Registry:
    folder: str
    """Below the checkout."""
    modules: tuple[str, ...]
    offer: str
    """The name that every module of the registry holds."""

    def module(self, name: str) -> object:
        return import_module(".".join(("gputop", *Path(self.folder).parts, name)))


REGISTRIES = (
    Registry("topology/sources", SOURCES, "SOURCE"),
    Registry("topology/hardware/vendors", VENDORS, "VENDOR"),
    Registry("topology/recorded/formats", FORMATS, "FORMAT"),
    Registry("topology/diagnosis/rules", RULES, "RULES"),
    Registry("topology/exports", tuple(name.replace("-", "_") for name in EXPORTS), "write"),
    Registry("probes/catalog", (*PROBES.values(), *BETWEEN_NODES.values()), "SPEC"),
    Registry("gputop/screens", tuple(f"{name}.screen" for name in SCREENS), "SCREEN"),
    Registry("gputop/commands", COMMANDS, "command"),
    Registry("gputop/answers", QUESTIONS, "QUESTION"),
)
EACH = pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.folder)


def files(folder: str) -> dict[str, Path]:
    """Every module at any depth below a folder, by its dotted name there."""
    top = ROOT / folder
    return {
        ".".join(path.relative_to(top).with_suffix("").parts): path
        for path in sorted(top.rglob("*.py"))
        if path.name != "__init__.py"
    }


def offers(path: Path, name: str) -> bool:
    """Whether a file itself makes what goes by that name, rather than imports it."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return True
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return True
    return False


@EACH
def test_registry_names_every_module_of_its_folder(registry: Registry) -> None:
    assert len(set(registry.modules)) == len(registry.modules)
    found = {name for name, path in files(registry.folder).items() if offers(path, registry.offer)}
    assert set(registry.modules) == found


@EACH
def test_every_module_of_a_registry_holds_what_it_offers(registry: Registry) -> None:
    assert [
        name for name in registry.modules if not hasattr(registry.module(name), registry.offer)
    ] == []


def test_nothing_but_rules_lies_among_the_rules() -> None:
    assert set(files("topology/diagnosis/rules")) == set(RULES)


def test_every_shape_is_a_demo() -> None:
    shapes = {path.stem for path in (ROOT / "topology/recorded/shapes").glob("*.toml")}
    assert set(demo.names()) == shapes
    assert all(demo.title(name) for name in demo.names())
