"""Which files an agent may open where `--root` names folders."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.__main__ import run
from gputop.agents.places import FIELDS
from gputop.agents.requests import FileName
from gputop.agents.tools import TOOLS, answer_text
from gputop.exits import Exit
from tests.support.checked import saved
from tests.support.places import ROOT
from tests.support.snapshots import demo_node

OUTSIDE = "lies outside of --root"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A folder that is allowed, and one beside it whose name begins with the same letters."""
    inside, outside = tmp_path / "shared", tmp_path / "shared-not"
    for folder in (inside, outside):
        folder.mkdir()
        saved(demo_node("hgx-h100-8").snapshot, folder / "node.json")
    (inside / "link.json").symlink_to(outside / "node.json")
    (inside / "up").symlink_to(outside)
    (inside / "own.json").symlink_to(inside / "node.json")
    return inside, outside


@pytest.mark.parametrize("name", ["node.json", "own.json", "../shared/node.json", "./node.json"])
def test_a_file_below_the_root_is_read(folders: tuple[Path, Path], name: str) -> None:
    inside, _ = folders
    assert "NVIDIA H100" in answer_text("node", {"file": f"{inside}/{name}"}, roots=[str(inside)])


@pytest.mark.parametrize(
    "name",
    [
        "../shared-not/node.json",
        "../shared-not/nothing.json",
        "link.json",
        "up/node.json",
        "up",
        "..",
        "",
        "/etc/passwd",
        "/etc/no-such-file",
        "/proc/self/environ",
        "/",
    ],
)
def test_a_file_elsewhere_is_refused_whether_it_is_there_or_not(
    folders: tuple[Path, Path], name: str
) -> None:
    inside, _ = folders
    with pytest.raises(Exit, match=OUTSIDE):
        answer_text("node", {"file": os.path.join(inside, name)}, roots=[str(inside)])


def test_a_folder_with_links_out_is_refused_and_one_without_is_read(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, outside = folders
    roots = [str(inside), str(outside)]
    assert "NVIDIA H100" in answer_text("node", {"file": str(outside)}, roots=roots)
    with pytest.raises(Exit, match=OUTSIDE):
        answer_text("node", {"file": str(inside)}, roots=roots[:1])
    monkeypatch.chdir(inside)
    assert "NVIDIA H100" in answer_text("node", {"file": "node.json"}, roots=["."])
    shutil.copy(inside / "node.json", inside / "dgx-h100")
    for expect, allowed in (("dgx-h100", True), (str(outside / "node.json"), False)):
        asked: dict[str, Any] = {"demo": "hgx-h100-8", "expect": expect}
        if allowed:
            assert answer_text("check", asked, roots=["."])
        else:
            with pytest.raises(Exit, match=OUTSIDE):
                answer_text("check", asked, roots=["."])


def test_every_argument_that_names_a_file_is_looked_at() -> None:
    pattern = msgspec.json.schema(FileName)["pattern"]
    named = {
        name
        for tool in TOOLS
        for name, field in msgspec.json.schema(tool.request)["$defs"][tool.request.__name__][
            "properties"
        ].items()
        if field.get("pattern") == pattern
    }
    assert named | {"expect"} == set(FIELDS)


def test_two_files_are_both_looked_at(folders: tuple[Path, Path]) -> None:
    inside, outside = (str(folder / "node.json") for folder in folders)
    for before, after in ((inside, outside), (outside, inside)):
        with pytest.raises(Exit, match=OUTSIDE):
            answer_text("compare", {"before": before, "after": after}, roots=[str(folders[0])])


def test_a_demo_is_no_file_whatever_is_called_so(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, outside = folders
    (outside / "dgx-1v").write_text("a secret line\n")
    monkeypatch.chdir(outside)
    told = answer_text("compare", {"before": "dgx-1v", "after": "dgx-1v"}, roots=[str(inside)])
    assert "verdict: same" in told
    with pytest.raises(Exit, match=OUTSIDE):
        answer_text("compare", {"before": "dgx-1v", "after": "dgx-1v.json"}, roots=[str(inside)])


def test_a_root_that_is_no_folder_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mcp", "--root", str(ROOT / "README.md")]) == 64
    assert capsys.readouterr().err.endswith("README.md: no such folder\n")
