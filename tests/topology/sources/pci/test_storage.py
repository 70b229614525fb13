"""NVMe drives of a copied sysfs: places, sizes, what lies on them, and what cuFile is set to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.model.surroundings import DirectStorage, Drive
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.pci import storage

PCI = "sys/devices/pci0000:16/0000:16:01.0/0000:1a:00.0"
SUBSYSTEM = "sys/devices/virtual/nvme-subsystem/nvme-subsys7"
CUFILE = """{
    // "allow_compat_mode": false,
    "properties": {
        "use_pci_p2pdma": false, // GDS by P2PDMA
        "allow_compat_mode": true,
        "force_compat_mode": false
    }
}"""


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text + "\n", encoding="ascii")


def link(root: Path, path: str, target: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    os.symlink(os.path.relpath(root / target, (root / path).parent), root / path)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Two local drives, one of them behind a subsystem; a drive behind a network; an array."""
    for name, place in (
        ("nvme0", f"{PCI}/nvme/nvme0"),
        ("nvme3", "sys/devices/pci0000:26/0000:26:01.0/0000:2b:00.0/nvme/nvme3"),
    ):
        put(tmp_path, f"{place}/transport", "pcie")
        put(tmp_path, f"{place}/model", "SAMSUNG MZWLO3T8HCLS-00A07          ")
        put(tmp_path, f"{place.rpartition('/nvme/')[0]}/numa_node", "0")
        link(tmp_path, f"{place}/device", place.rpartition("/nvme/")[0])
        link(tmp_path, f"sys/class/nvme/{name}", place)
    put(tmp_path, f"{PCI}/nvme/nvme0/nvme0n1/size", "2048")
    put(tmp_path, f"{PCI}/nvme/nvme0/nvme0n2/size", "4096")
    put(tmp_path, f"{PCI}/nvme/nvme0/nvme0n1/nvme0n1p1/size", "1024")
    # With multipathing the disk hangs on the subsystem, whose number is another.
    put(tmp_path, f"{SUBSYSTEM}/nvme7n1/size", "8192")
    put(tmp_path, "sys/class/nvme/nvme3/nvme7c3n1/size", "8192")
    link(tmp_path, f"{SUBSYSTEM}/nvme3", "sys/class/nvme/nvme3")
    far = "sys/devices/virtual/nvme-fabrics/ctl/nvme9"
    put(tmp_path, f"{far}/transport", "rdma")
    link(tmp_path, "sys/class/nvme/nvme9", far)
    array = "sys/devices/virtual/block/md1"
    link(tmp_path, f"{array}/slaves/nvme0n1p1", f"{PCI}/nvme/nvme0/nvme0n1/nvme0n1p1")
    link(tmp_path, f"{array}/slaves/nvme7n1", f"{SUBSYSTEM}/nvme7n1")
    link(tmp_path, "sys/class/block/nvme0n1p1", f"{PCI}/nvme/nvme0/nvme0n1/nvme0n1p1")
    link(tmp_path, "sys/class/block/nvme7n1", f"{SUBSYSTEM}/nvme7n1")
    link(tmp_path, "sys/dev/block/9:1", array)
    link(tmp_path, "sys/dev/block/259:5", f"{PCI}/nvme/nvme0/nvme0n2")
    put(
        tmp_path,
        "proc/self/mountinfo",
        "30 1 9:1 / /raid rw - xfs /dev/md1 rw,attr2\n"
        "31 1 259:5 / /a rw - ext4 /dev/nvme0n2 rw,data=journal\n"
        "32 1 259:5 /b /b rw - ext4 /dev/nvme0n2 rw\n"
        "35 1 0:51 / /d rw - btrfs /dev/nvme7n1 rw\n"
        "33 1 0:44 / /c rw - tmpfs tmpfs rw\n"
        "34 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
    )
    put(tmp_path, "sys/module/nvme_core/parameters/multipath", "Y")
    put(tmp_path, "etc/cufile.json", CUFILE)
    return tmp_path


def read(machine: Path) -> tuple[dict[str, Drive], DirectStorage]:
    found = storage.parse(storage.read(FolderTree(machine)))
    assert found.direct_storage is not None
    return {drive.name: drive for drive in found.drives}, found.direct_storage


def test_drives_their_place_and_size(machine: Path) -> None:
    drives, _ = read(machine)
    assert list(drives) == ["nvme0", "nvme3", "nvme9"]
    first, second, far = drives.values()
    assert (first.address, first.numa_node, first.transport) == ("0000:1a:00.0", 0, "pcie")
    assert first.model == "SAMSUNG MZWLO3T8HCLS-00A07"
    assert (first.size_bytes, second.size_bytes) == (6144 * 512, 8192 * 512)
    assert (far.address, far.transport, far.size_bytes) == (None, "rdma", None)
    assert far.why("address") == "no PCI device is behind it"


def test_what_lies_on_a_drive_through_partitions_arrays_and_subsystems(machine: Path) -> None:
    drives, _ = read(machine)
    assert drives["nvme0"].filesystems == ("xfs", "ext4 data=journal")
    assert drives["nvme0"].arrays == drives["nvme3"].arrays == ("md1",)
    assert drives["nvme3"].filesystems == ("xfs", "btrfs")
    assert drives["nvme9"].filesystems == ()


def test_without_a_list_of_mounts_their_file_systems_are_not_known(machine: Path) -> None:
    (machine / "proc/self/mountinfo").unlink()
    drives, direct = read(machine)
    assert drives["nvme0"].filesystems is None
    assert drives["nvme0"].why("filesystems") is not None
    assert direct.library is None
    assert direct.compat_allowed is True


def test_settings_of_cufile_with_comments_in_it(machine: Path) -> None:
    _, direct = read(machine)
    assert (direct.compat_allowed, direct.compat_forced, direct.p2pdma) == (True, False, False)
    assert direct.multipath is True
    (machine / "etc/cufile.json").unlink()
    _, none = read(machine)
    assert (none.compat_allowed, none.p2pdma) == (None, None)
    assert none.why("compat_allowed") is not None


def test_a_setting_far_down_a_long_file_is_found(machine: Path) -> None:
    long = CUFILE.replace("{\n", "{\n" + "    // words\n" * 900, 1)
    (machine / "etc/cufile.json").write_text(long, encoding="ascii")
    assert read(machine)[1].compat_allowed is True


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"drives": {"nvme0": None}},
        {"drives": {"nvme0": {"sizes": ["x", -1, "-5"], "path": 7}}, "mounts": [[], ["a"], 3]},
        {"drives": {"nvme0": {"path": "../../nvme"}}, "mounts": {"a": 1}, "cufile": 5},
    ],
)
def test_nonsense_gives_gaps(raw: dict[str, Any]) -> None:
    for drive in storage.parse(raw | {"absent": "not there"}).drives:
        assert drive.size_bytes is None
        assert drive.why("size_bytes") is not None


def test_no_drive_says_nothing_of_direct_storage(tmp_path: Path) -> None:
    put(tmp_path, "etc/cufile.json", CUFILE)
    found = storage.parse(storage.read(FolderTree(tmp_path)))
    assert (found.drives, found.direct_storage) == ((), None)
