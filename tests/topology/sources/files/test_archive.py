"""A tar as a tree in memory; hostile ones end with one error."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import tarfile
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputop.topology.sources.files import archive, unpacking
from gputop.topology.sources.files.archive import TarTree
from gputop.topology.sources.files.tree import LIMIT_BYTES, Unread, Unreadable
from gputop.topology.sources.files.unpacking import ArchiveError
from tests.support.tars import member, packed


class Packer(Protocol):
    __name__: str

    def compress(self, data: bytes) -> bytes: ...


def test_files_links_and_folders_are_found() -> None:
    tree = TarTree(
        packed(
            (member("./sys/devices/pci0000:00/0000:00:01.0/class"), b"0x030200\n"),
            (
                member("./sys/bus/pci/devices/0000:00:01.0", tarfile.SYMTYPE,
                       "../../../devices/pci0000:00/0000:00:01.0"),
                b"",
            ),
        )
    )  # fmt: skip
    assert tree.names("sys/bus/pci/devices") == ("0000:00:01.0",)
    assert tree.text("sys/bus/pci/devices/0000:00:01.0/class") == "0x030200"
    assert tree.resolved("sys/bus/pci/devices/0000:00:01.0") == (
        "sys/devices/pci0000:00/0000:00:01.0"
    )
    assert tree.size("sys/bus/pci/devices/0000:00:01.0/class") == 9
    assert tree.text("proc/cmdline") == Unreadable(Unread.ABSENT, "not in this recording")


def test_a_folder_around_the_tree_is_looked_through() -> None:
    tree = TarTree(packed((member("node7/sys/class/net/eth0/mtu"), b"1500\n")))
    assert tree.text("sys/class/net/eth0/mtu") == "1500"
    assert tree.resolved("sys/class/net/eth0") == "sys/class/net/eth0"


@pytest.mark.parametrize("name", ["../etc/passwd", "sys/../../x", "/../sys/x"])
def test_names_that_climb_out_are_passed_over(name: str) -> None:
    tree = TarTree(packed((member(name), b"x"), (member("sys/y"), b"y")))
    assert tree.names("") == ("sys",)
    assert tree.names("sys") == ("y",)


def test_links_stay_inside_and_loops_end() -> None:
    tree = TarTree(
        packed(
            (member("sys/out", tarfile.SYMTYPE, "../../../../etc/passwd"), b""),
            (member("sys/a", tarfile.SYMTYPE, "b"), b""),
            (member("sys/b", tarfile.SYMTYPE, "a"), b""),
            (member("sys/self", tarfile.SYMTYPE, "self/self"), b""),
            (member("sys/hard", tarfile.LNKTYPE, "sys/real"), b""),
            (member("sys/real"), b"content"),
        )
    )
    for name in ("out", "a", "b", "self"):
        assert tree.resolved(f"sys/{name}") is None
        assert isinstance(tree.text(f"sys/{name}"), Unreadable)
    assert tree.text("sys/hard") == "content"


def test_devices_and_pipes_are_ignored() -> None:
    tree = TarTree(
        packed(
            (member("sys/null", tarfile.CHRTYPE), b""),
            (member("sys/disk", tarfile.BLKTYPE), b""),
            (member("sys/pipe", tarfile.FIFOTYPE), b""),
            (member("sys/file"), b"1"),
        )
    )
    assert tree.names("sys") == ("file",)


def test_a_large_member_is_cut() -> None:
    tree = TarTree(packed((member("sys/large"), b"x" * (LIMIT_BYTES * 2))))
    assert len(str(tree.text("sys/large"))) == LIMIT_BYTES
    assert tree.size("sys/large") == LIMIT_BYTES * 2


@pytest.mark.parametrize("packer", [gzip, bz2, lzma], ids=lambda packer: packer.__name__)
def test_a_tar_that_unpacks_to_too_much_is_refused(
    packer: Packer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "LIMIT_UNPACKED_BYTES", 1024 * 1024)
    data = packer.compress(packed((member("sys/zeros"), bytes(4 * 1024 * 1024))))
    assert len(data) < 10_000
    with pytest.raises(ArchiveError, match="unpacks to more than"):
        TarTree(data)


@pytest.mark.parametrize("packer", [gzip, bz2, lzma], ids=lambda packer: packer.__name__)
def test_a_packed_tar_is_read_and_a_cut_one_refused(packer: Packer) -> None:
    plain = packed((member("sys/class/net/eth0/mtu"), b"1500\n"))
    data = packer.compress(plain)
    assert TarTree(data).text("sys/class/net/eth0/mtu") == "1500"
    with pytest.raises(ArchiveError):
        TarTree(data[: len(data) // 2])
    damaged = data[: len(data) // 2] + bytes(20) + data[len(data) // 2 + 20 :]
    with pytest.raises(ArchiveError):
        TarTree(damaged)


def test_streams_that_follow_each_other_are_one_tar() -> None:
    plain = packed((member("sys/class/net/eth0/mtu"), b"1500\n"))
    data = bz2.compress(plain[:700]) + bz2.compress(plain[700:])
    assert TarTree(data).text("sys/class/net/eth0/mtu") == "1500"


def test_xz_that_wants_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "LIMIT_MEMORY_BYTES", 1024)
    with pytest.raises(ArchiveError, match="broken"):
        TarTree(lzma.compress(packed((member("sys/y"), b"y"))))


def test_too_many_members_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "LIMIT_MEMBERS", 10)
    with pytest.raises(ArchiveError, match="more than 10 members"):
        TarTree(packed(*((member(f"sys/{number}"), b"") for number in range(11))))


def test_a_negative_size_is_refused() -> None:
    data = bytearray(packed((member("sys/file"), b"1"), (member("sys/more"), b"2")))
    data[124:136] = b"\xff" * 12  # -1 in base 256
    data[148:156] = b" " * 8
    data[148:156] = f"{sum(data[:512]):06o}\0 ".encode()
    with pytest.raises(ArchiveError):
        TarTree(bytes(data))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=2000))
def test_any_bytes_end_with_a_tree_or_one_error(data: bytes) -> None:
    heads = (b"", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\0")
    for content in (*(head + data for head in heads), gzip.compress(data), bz2.compress(data)):
        with contextlib.suppress(ArchiveError):
            TarTree(content)
