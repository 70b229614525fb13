"""Topology files of clouds: found by path, on this machine and in a copy of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gputop.topology.model.redact import redacted
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.linux import host, topology_files

AZURE = "opt/microsoft/ndv5-topo.xml"
LOADED = "var/run/nvidia-topologyd/virtualTopology.xml"


def tree_with(root: Path, *paths: str, live: bool = False) -> FolderTree:
    (root / "sys").mkdir(exist_ok=True)
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("<system/>")
    return FolderTree(root, live=live)


def test_files_of_clouds_are_found(tmp_path: Path) -> None:
    tree = tree_with(tmp_path, AZURE, LOADED, "opt/microsoft/readme.txt", "opt/other/topo.xml")
    assert topology_files.read(tree) == [f"/{LOADED}", f"/{AZURE}"]


def test_a_folder_or_a_link_out_of_a_copy_is_no_file(tmp_path: Path) -> None:
    tree = tree_with(tmp_path, AZURE)
    (tmp_path / "opt/microsoft/old-topo.xml").mkdir()
    (tmp_path / "opt/microsoft/far-topo.xml").symlink_to("/etc/hostname")
    assert topology_files.read(tree) == [f"/{AZURE}"]


def test_none_found_is_an_answer_here_and_none_in_a_copy(tmp_path: Path) -> None:
    assert topology_files.read(tree_with(tmp_path, live=True)) == []
    assert topology_files.read(tree_with(tmp_path)) is None


def test_the_reader_of_the_host_asks_for_them(tmp_path: Path) -> None:
    raw = host.read(tree_with(tmp_path, AZURE))
    found = host.SOURCE.parse(raw).host
    assert found is not None
    assert found.topology_files == (f"/{AZURE}",)
    assert found.why("topology_files") is None


@pytest.mark.parametrize("raw", [None, "x", 5, {"error": "y"}])
def test_no_answer_is_a_gap(raw: Any) -> None:
    found = host.SOURCE.parse({"absent": "not there", "topology_files": raw}).host
    assert found is not None
    assert found.topology_files is None
    assert found.why("topology_files") == "not there"


def test_what_is_no_path_is_left_out() -> None:
    raw = ["/a.xml", 7, None, "b.xml", "/c\x1b[2J.xml", ["/d.xml"], *["/e.xml"] * 99]
    found = host.SOURCE.parse({"absent": "", "topology_files": raw}).host
    assert found is not None
    assert found.topology_files is not None
    assert found.topology_files[:2] == ("/a.xml", "/e.xml")
    assert len(found.topology_files) <= topology_files.LIMIT_FILES


def test_paths_below_a_home_are_redacted() -> None:
    found = host.SOURCE.parse({"topology_files": ["/home/anna/topo.xml", f"/{AZURE}"]}).host
    assert found is not None
    whole = NodeSnapshot(taken_at=0.0)
    machine = type(whole.machine)(host=found)
    plain = redacted(NodeSnapshot(taken_at=0.0, machine=machine)).machine.host
    assert plain is not None
    assert plain.topology_files is not None
    assert "anna" not in str(plain.topology_files)
    assert plain.topology_files[1] == f"/{AZURE}"
