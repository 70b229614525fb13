"""Each file in news/ is one change in the words of users; CHANGELOG.md stays short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gputop.topology.toml import tomllib
from tests.support.places import ROOT

NEWS = ROOT / "news"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
KINDS = {kind["directory"] for kind in SETTINGS["type"]}
NAME = re.compile(r"(\d+|\+[a-z0-9-]+)\.([a-z]+)\.md")
MOST = 300
"""Characters of one file: a sentence or two."""
PAGES = 120
"""Lines of CHANGELOG.md for one release: two pages."""


def breaches(name: str, text: str) -> list[str]:
    """What is wrong with one file."""
    found = NAME.fullmatch(name)
    wrong = [] if found and found[2] in KINDS else [f"{name}: not NUMBER.KIND.md or +WORDS.KIND.md"]
    if len(text.strip()) > MOST:
        wrong.append(f"{name}: over {MOST} characters")
    if not text.strip() or re.match(r"[-*#]", text):
        wrong.append(f"{name}: no sentence")
    return wrong


def test_every_fragment_has_a_name_and_a_length() -> None:
    files = [path for path in NEWS.iterdir() if path.name != "README.md"]
    assert [wrong for path in files for wrong in breaches(path.name, path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("31.added.md", "A word.\n", 0),
        ("+fan-symptom.fixed.md", "A word.\n", 0),
        ("fan.added.md", "A word.\n", 1),
        ("31.news.md", "A word.\n", 1),
        ("31.added.md", "A" * 301, 1),
        ("31.added.md", "- A word.\n", 1),
        ("31.added.md", "\n", 1),
    ],
)
def test_what_is_wrong_with_a_fragment(name: str, text: str, count: int) -> None:
    assert len(breaches(name, text)) == count


def test_the_changelog_holds_releases_alone() -> None:
    assert (NEWS.name, SETTINGS["filename"]) == (SETTINGS["directory"], "CHANGELOG.md")
    head, _, releases = (
        Path(ROOT / "CHANGELOG.md")
        .read_text("utf-8")
        .partition("<!-- towncrier release notes start -->")
    )
    assert releases
    assert "Unreleased" not in head + releases
    pages = re.split(r"^## ", releases, flags=re.MULTILINE)[1:]
    assert [page.splitlines()[0] for page in pages if len(page.splitlines()) > PAGES] == []
