"""A tar of /sys as a recording: recognised by content, read or refused with a reason."""

from __future__ import annotations

import contextlib
import gzip
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.model.format import FormatError
from gputop.topology.recorded.formats import sysfs_tar
from gputop.topology.sources.files.tree import FolderTree
from tests.support.places import RECORDINGS
from tests.support.tars import member, packed

RECORDING = RECORDINGS / "hgx-h200-4gpu-vm/sysfs.tar.gz"


def test_a_tar_that_was_cut_off_is_named_so() -> None:
    data = RECORDING.read_bytes()
    with pytest.raises(FormatError, match="cut off"):
        sysfs_tar.parse(data[: len(data) // 2], RECORDING)


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


def test_files_that_tar_filled_with_zero_bytes_read_as_they_were(tmp_path: Path) -> None:
    """GNU tar states a page for each file of sysfs, and fills what is not there."""
    filled = io.BytesIO()
    whole_file = io.BytesIO(gzip.decompress(RECORDING.read_bytes()))
    with tarfile.open(fileobj=whole_file) as old, tarfile.open(fileobj=filled, mode="w") as new:
        for item in old:
            # A link is copied as it is: the file that it leads to may not be in the archive.
            content = old.extractfile(item) if item.isreg() else None
            data = content.read() if content is not None else b""
            if item.isreg() and not item.name.endswith("/config"):
                data = data.ljust(4096, b"\0")
                item.size = len(data)
            new.addfile(item, io.BytesIO(data))
    whole = sysfs_tar.parse(RECORDING.read_bytes(), RECORDING)
    assert sysfs_tar.parse(filled.getvalue(), RECORDING) == whole
    folder = tmp_path / "copy"
    (folder / "sys").mkdir(parents=True)
    (folder / "sys/answer").write_bytes(b"0x10de\n".ljust(4096, b"\0"))
    assert FolderTree(folder).text("sys/answer") == "0x10de"
