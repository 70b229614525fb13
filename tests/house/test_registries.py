"""A registry names every module of its folder, once."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.support.places import ROOT

REGISTRIES = {
    "gputop.topology.sources": {"source"},
    "gputop.topology.recorded.formats": {"format"},
    "gputop.probes.catalog": set(),
    "gputop.screens": {"listed", "screen"},
    "gputop.commands": {"options", "root"},
}


@pytest.mark.parametrize("package", REGISTRIES)
def test_registry_matches_the_folder(package: str) -> None:
    module = import_module(package)
    assert module.__file__ is not None
    found = {path.stem for path in Path(module.__file__).parent.glob("*.py")}
    names = module.NAMES
    assert len(set(names)) == len(names)
    # What has a dash on the command line has an underscore as a module.
    assert {name.replace("-", "_") for name in names} == found - {"__init__"} - REGISTRIES[package]


def test_every_shape_is_a_demo() -> None:
    from gputop.topology.recorded.demos import demo

    assert set(demo.names()) == {path.stem for path in (ROOT / "topology/recorded/shapes").glob("*.toml")}
    assert all(demo.title(name) for name in demo.names())
