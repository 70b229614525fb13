"""A root folder to read from: live, copied, or a tar; hostile ones included."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.sources.files.tree import (
    LIMIT_BYTES,
    FolderTree,
    Tree,
    Unread,
    Unreadable,
    answers,
    live_tree,
    resolve,
)


@pytest.fixture
def copied(tmp_path: Path) -> Tree:
    root = tmp_path / "copied"
    folder = root / "sys/devices/pci0000:00/0000:00:03.0"
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text("1\n")
    links = root / "sys/bus/pci/devices"
    links.mkdir(parents=True)
    (links / "0000:00:03.0").symlink_to("../../../devices/pci0000:00/0000:00:03.0")
    return FolderTree(root)


def test_a_copied_folder_is_read_through_its_links(copied: Tree) -> None:
    folder = "sys/bus/pci/devices/0000:00:03.0"
    assert copied.names("sys/bus/pci/devices") == ("0000:00:03.0",)
    assert copied.text(f"{folder}/numa_node") == "1"
    assert copied.resolved(folder) == "sys/devices/pci0000:00/0000:00:03.0"
    assert copied.size(f"{folder}/numa_node") == 2
    assert copied.link(folder) == "../../../devices/pci0000:00/0000:00:03.0"


def test_what_is_not_there_says_so(copied: Tree) -> None:
    assert copied.text("proc/cmdline") == Unreadable(Unread.ABSENT, "not in this recording")
    assert copied.names("proc") == ()
    assert copied.resolved("proc") is None
    assert not copied.exists("proc")
    assert answers(copied, "proc", ("cmdline",)) == {}


def test_a_copy_of_sys_alone_is_known(tmp_path: Path) -> None:
    device = tmp_path / "bus/pci/devices/0000:00:01.0"
    device.mkdir(parents=True)
    (device / "class").write_text("0x030200\n")
    tree = FolderTree(tmp_path)
    assert tree.text("sys/bus/pci/devices/0000:00:01.0/class") == "0x030200"
    assert not tree.exists("proc/cpuinfo")


@pytest.mark.parametrize("target", ["/secret", "../../../../../../secret", "/../secret"])
def test_links_of_a_copy_do_not_leave_it(tmp_path: Path, target: str) -> None:
    (tmp_path / "secret").write_text("outside")
    root = tmp_path / "copied"
    (root / "sys").mkdir(parents=True)
    (root / "sys/leak").symlink_to(target)
    (root / "sys/way").symlink_to(str(tmp_path))
    tree = FolderTree(root)
    assert isinstance(tree.text("sys/leak"), Unreadable)
    assert isinstance(tree.text("sys/way/secret"), Unreadable)
    assert isinstance(tree.text("../secret"), Unreadable)


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys/a").symlink_to("b")
    (tmp_path / "sys/b").symlink_to("a")
    (tmp_path / "sys/deep").symlink_to("deep/deep")
    tree = FolderTree(tmp_path)
    assert isinstance(tree.text("sys/a"), Unreadable)
    assert tree.resolved("sys/deep") is None


def test_a_pipe_in_a_copy_does_not_stop_us(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    os.mkfifo(tmp_path / "proc/cpuinfo")
    answer = FolderTree(tmp_path).text("proc/cpuinfo")
    assert answer == Unreadable(Unread.FAILED, "not a regular file")


def test_a_large_file_is_cut(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/modules").write_bytes(b"x" * (LIMIT_BYTES + 1))
    answer = FolderTree(tmp_path).text("proc/modules")
    assert isinstance(answer, str)
    assert len(answer) == LIMIT_BYTES


def test_bytes_that_are_no_text_become_text(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys/name").write_bytes(b"\xff\x1b[31m\n")
    assert FolderTree(tmp_path).text("sys/name") == "\ufffd\x1b[31m"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission_is_distinguished_from_absence(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/secret").write_text("x")
    (tmp_path / "proc/secret").chmod(0)
    assert FolderTree(tmp_path).text("proc/secret") == Unreadable(Unread.DENIED, "no permission")


def test_the_live_machine_is_read() -> None:
    tree = live_tree()
    assert tree.live
    assert isinstance(tree.text("proc/version"), str)
    assert tree.resolved("proc/self") == f"proc/{os.getpid()}"
    assert isinstance(tree.text("proc/no such file"), Unreadable)


def test_names_with_a_null_byte_are_absent() -> None:
    tree = live_tree()
    assert isinstance(tree.text("proc/\0"), Unreadable)
    assert tree.names("\0") == ()
    assert not tree.exists("\0")
    assert tree.size("\0") is None


@given(st.dictionaries(st.text("ab/.", max_size=6), st.text("ab/.", max_size=12)), st.text("ab/."))
def test_following_links_ends_inside_the_root(links: dict[str, str], path: str) -> None:
    found = resolve(path, links.get)
    assert found is None or (".." not in found.split("/") and not found.startswith("/"))
