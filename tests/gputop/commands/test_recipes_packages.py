"""The recipes of packages name what pyproject.toml names, and their files have the right form."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import yaml

from gputop import __version__
from gputop.topology.toml import tomllib
from tests.support.places import ROOT

RECIPES = ROOT / "recipes"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NEEDED = {
    name: bounds
    for one in PROJECT["dependencies"]
    for name, bounds in re.findall(r"^([\w-]+)([^;]*)", one)
}
CHECKS = {
    "homebrew/gputopo.rb": ("ruby", "-c"),
    "nix/default.nix": ("nix-instantiate", "--parse"),
    "debian/build.sh": ("bash", "-n"),
    "debian/try.sh": ("bash", "-n"),
}


def test_conda_asks_for_the_same_libraries() -> None:
    text = (RECIPES / "conda" / "meta.yaml").read_text(encoding="utf-8")
    version = re.search(r'set version = "(.*)"', text)
    assert version is not None
    assert version[1] == __version__
    recipe = yaml.safe_load(re.sub(r"{%.*%}", "", text).replace("{{", "").replace("}}", ""))
    asked = dict(line.partition(" ")[::2] for line in recipe["requirements"]["run"])
    assert asked.pop("python") == PROJECT["requires-python"]
    assert "__linux" in asked
    del asked["__linux"]
    assert asked == NEEDED
    programs = [f"{name} = {what}" for name, what in PROJECT["scripts"].items()]
    assert recipe["build"]["entry_points"] == programs
    assert recipe["about"]["license"] == PROJECT["license"]


def test_nix_asks_for_the_same_libraries() -> None:
    text = (RECIPES / "nix" / "default.nix").read_text(encoding="utf-8")
    listed = re.search(r"\n  dependencies = .*?\[(.*?)\]", text, re.DOTALL)
    assert listed is not None
    # nixpkgs has no Python that needs the old name of tomllib.
    assert set(listed[1].split()) == set(NEEDED) - {"tomli"}
    assert f'version = "{__version__}";' in text


def test_homebrew_makes_this_version() -> None:
    text = (RECIPES / "homebrew" / "gputopo.rb").read_text(encoding="utf-8")
    assert f'version "{__version__}"' in text
    assert f"gputopo-{__version__}.tar.gz" in text


@pytest.mark.parametrize("file", CHECKS)
def test_a_recipe_parses(file: str) -> None:
    program, option = CHECKS[file]
    if shutil.which(program) is None:
        pytest.skip(f"no {program} here")
    subprocess.run([program, option, str(RECIPES / file)], check=True, capture_output=True)
