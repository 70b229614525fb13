"""A tar as a tree in memory; hostile ones end with one error."""

from __future__ import annotations

import contextlib
import gzip
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputop.topology.model.format import FormatError
from gputop.topology.recorded.formats import sysfs_tar
from gputop.topology.sources.files import archive
from gputop.topology.sources.files.archive import ArchiveError, TarTree
from gputop.topology.sources.files.tree import LIMIT_BYTES, FolderTree, Unreadable
from tests.support.places import RECORDINGS

RECORDING = RECORDINGS / "hgx-h200-4gpu-vm/sysfs.tar.gz"


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


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
    assert tree.text("proc/cmdline") == Unreadable("absent", "not in this recording")


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


def test_a_tar_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "LIMIT_UNPACKED_BYTES", 1024 * 1024)
    data = gzip.compress(packed((member("sys/zeros"), bytes(4 * 1024 * 1024))))
    assert len(data) < 10_000
    with pytest.raises(ArchiveError, match="unpacks to more than"):
        TarTree(data)


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


def test_a_tar_that_was_cut_off_is_named_so() -> None:
    data = RECORDING.read_bytes()
    with pytest.raises(FormatError, match="cut off"):
        sysfs_tar.parse(data[: len(data) // 2], RECORDING)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=2000))
def test_any_bytes_end_with_a_tree_or_one_error(data: bytes) -> None:
    for content in (data, b"\x1f\x8b\x08" + data, gzip.compress(data)):
        with contextlib.suppress(ArchiveError):
            TarTree(content)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_damaged_tar_ends_with_a_tree_or_one_error(data: st.DataObject) -> None:
    whole = bytearray(
        packed(
            (member("sys/class/net/eth0", tarfile.SYMTYPE, "../../devices/eth0"), b""),
            (member("sys/" + "long" * 40), b"1" * 600),
            (member("proc/cpuinfo"), b"processor : 0\n"),
        )
    )
    for _ in range(data.draw(st.integers(1, 8))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(FormatError):
        sysfs_tar.parse(bytes(whole), Path("damaged.tar"))


def test_a_sysfs_tar_is_recognised_by_content() -> None:
    data = RECORDING.read_bytes()
    assert sysfs_tar.recognises(data[:65536], Path("any name"))
    assert sysfs_tar.recognises(gzip.decompress(data)[:65536], Path("x"))
    other = packed((member("home/notes.txt"), b"sys/class/"))
    assert not sysfs_tar.recognises(other, Path("sysfs.tar"))
    assert not sysfs_tar.recognises(gzip.compress(b"not a tar"), Path("sysfs.tar.gz"))
    assert not sysfs_tar.recognises(b"\x1f\x8b broken", Path("sysfs.tar.gz"))
    assert not sysfs_tar.recognises(b"", Path("sysfs.tar.gz"))


def test_a_tar_without_a_machine_is_refused() -> None:
    with pytest.raises(FormatError, match="no PCI device"):
        sysfs_tar.parse(packed((member("sys/class/leds/x"), b"1")), Path("x"))


def test_the_recorded_vm() -> None:
    part = sysfs_tar.parse(RECORDING.read_bytes(), RECORDING)
    gpus = [device for device in part.pci if device.kind == "gpu"]
    assert [gpu.address for gpu in gpus] == [f"0000:00:0{slot}.0" for slot in (6, 7, 8, 9)]
    assert {device.parent for device in part.pci} == {"pci0000:00"}
    assert {(gpu.link_speed_max_gts, gpu.link_width_now, gpu.driver) for gpu in gpus} == {
        (32.0, 16, "nvidia")
    }
    assert {gpu.why("numa_node") for gpu in gpus} == {"-1: the firmware does not say"}
    assert {gpu.bars for gpu in gpus} == {(1 << 24, 1 << 38, 1 << 25)}
    host = part.host
    assert host is not None
    assert [(socket.cores, socket.threads) for socket in host.sockets] == [(64, 64)]
    assert [(node.cpus, node.distances, node.socket) for node in host.numa] == [("0-63", (10,), 0)]
    assert (host.cpu_vendor, host.cpu_family, host.cpu_model) == ("GenuineIntel", 6, 207)
    assert host.hypervisor == "unknown hypervisor"
    assert host.nvidia_module == "open"
    assert [module.name for module in host.modules] == ["nvidia", "nvidia_uvm"]
    for field in ("cmdline_flags", "shm_bytes", "device_nodes", "container", "boot_id"):
        assert getattr(host, field) is None
        assert host.why(field) == "not in this recording"
    interface = {one.name: one for one in part.interfaces}["eth0"]
    assert (interface.address, interface.driver, interface.up) == (
        "0000:00:03.0",
        "virtio_net",
        True,
    )
    assert part.software is not None
    assert part.software.nvidia_driver == "580.159.04"


def test_a_copied_folder_says_the_same_as_its_tar(tmp_path: Path) -> None:
    with tarfile.open(RECORDING) as tar:
        tar.extractall(tmp_path, filter="data")
    assert sysfs_tar.looks_like_sysfs(tmp_path)
    assert sysfs_tar.looks_like_sysfs(tmp_path / "sys")
    assert not sysfs_tar.looks_like_sysfs(tmp_path / "etc")
    assert not sysfs_tar.looks_like_sysfs(tmp_path / "no such folder")
    whole = sysfs_tar.parse(RECORDING.read_bytes(), RECORDING)
    assert sysfs_tar.part_from_tree(FolderTree(tmp_path)) == whole
    assert sysfs_tar.part_from_tree(FolderTree(tmp_path / "sys")).pci == whole.pci
