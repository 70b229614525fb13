"""Governors, peer-memory clients, limits, caches of kernels, routes and plugins as read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.model.machine import Machine
from gputop.topology.model.redact import redacted
from gputop.topology.model.snapshot import NodeSnapshot, encode
from gputop.topology.model.surroundings import CacheFolder, Host, Interface, Software
from gputop.topology.sources.files.tree import FolderTree, live_tree
from gputop.topology.sources.linux import host, settings, software
from gputop.topology.sources.pci import network

MOUNTS = """\
22 1 0:20 / / rw,relatime - overlay overlay rw,lowerdir=/a
30 22 0:31 / /home rw - nfs4 server:/home rw
31 30 0:32 / /home/with\\040blank rw master:1 - ext4 /dev/sda1 rw
32 22 0:33 / /tmp rw - ext4 /dev/sdb1 rw
33 22 0:34 / /tmp rw - tmpfs tmpfs rw
rubbish
"""


def parsed(**raw: Any) -> Host:
    found = host.SOURCE.parse({"absent": "not there", **raw}).host
    assert found is not None
    return found


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_governors_and_their_cpus(tmp_path: Path) -> None:
    folder = tmp_path / settings.POLICIES
    for number, (governor, cpus) in enumerate(
        (("performance", "0 1"), ("powersave", "2 3 4"), ("performance", "5 6"))
    ):
        (folder / f"policy{number}").mkdir(parents=True)
        (folder / f"policy{number}" / "scaling_governor").write_text(f"{governor}\n")
        (folder / f"policy{number}" / "affected_cpus").write_text(f"{cpus}\n")
    (folder / "policy0" / "scaling_driver").write_text("acpi-cpufreq\n")
    (folder / "boost").write_text("1")
    (tmp_path / settings.MEMORY_PEERS / "nv_mem").mkdir(parents=True)
    found = host.SOURCE.parse(host.read(FolderTree(tmp_path))).host
    assert found is not None
    assert found.cpu_governors == (("performance", 4), ("powersave", 3))
    assert found.cpu_frequency_driver == "acpi-cpufreq"
    assert found.memory_peers == ("nv_mem",)
    assert found.compile_caches == ()


def test_a_guest_without_scaling_has_no_governor_and_an_unread_one_a_gap(tmp_path: Path) -> None:
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    found = host.SOURCE.parse(host.read(FolderTree(tmp_path))).host
    assert found is not None
    assert found.cpu_governors == ()
    assert found.memory_peers is None
    assert found.why("memory_peers") == "not in this recording"
    unread = parsed()
    assert (unread.cpu_governors, unread.why("cpu_governors")) == (None, "not there")
    assert unread.why("cpu_frequency_driver") == "not there"
    assert parsed(frequency_driver="two words").cpu_frequency_driver is None


@pytest.mark.parametrize(
    "answer", [{"policy0": "performance"}, {"policy0": ["a b", "0"]}, {"policy0": [1, 2]}, {"x": 3}]
)
def test_odd_governors_count_nothing(answer: Any) -> None:
    assert parsed(governors=answer).cpu_governors == ()


@pytest.mark.parametrize(
    ("text", "limit", "why"),
    [
        ("Max open files            1024     524288    files", 1024, None),
        ("Max open files            unlimited unlimited files", None, "unlimited"),
        ("Max cpu time  1 1 s", None, "/proc/self/limits does not say"),
        ("Max open files  lots", None, "no number: lots"),
    ],
)
def test_the_limit_of_open_files(text: str, limit: int | None, why: str | None) -> None:
    found = parsed(files={"proc/self/limits": text})
    assert (found.open_files_limit, found.why("open_files_limit")) == (limit, why)


@pytest.mark.parametrize("uid", [0, 1000])
def test_whether_root_asks(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    raw = host.read(live_tree())
    assert isinstance(raw, dict)
    assert parsed(asked_as_root=raw["asked_as_root"]).asked_as_root is (uid == 0)
    copied = parsed()
    assert (copied.asked_as_root, copied.why("asked_as_root")) == (None, "not there")


def test_where_compiled_kernels_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_temporary", lambda: "/tmp")
    monkeypatch.setattr(settings, "_user", lambda: "ann")
    environment = {"HOME": "/home/with blank/ann", "TRITON_CACHE_DIR": "/scratch/triton"}
    raw = settings.caches(environment, MOUNTS)
    found = parsed(caches=raw).compile_caches
    assert [(cache.name, cache.path, cache.variable, cache.filesystem) for cache in found] == [
        ("CUDA", "/home/with blank/ann/.nv/ComputeCache", None, "ext4"),
        ("Triton", "/scratch/triton", "TRITON_CACHE_DIR", "overlay"),
        ("Inductor", "/tmp/torchinductor_ann", None, "tmpfs"),
    ]
    off = settings.caches({"CUDA_CACHE_DISABLE": "1", "TRITON_CACHE_DIR": "here"}, None)
    assert [entry["name"] for entry in off] == ["Inductor"]
    (one,) = parsed(caches=off).compile_caches
    assert (one.filesystem, one.why("filesystem")) == (None, "not there")


def test_the_folder_for_temporary_files_is_the_first_that_can_be_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    monkeypatch.setenv("TEMP", f"{tmp_path}/")
    assert settings._temporary() == str(tmp_path)


@pytest.mark.parametrize("raw", ["x", [1], [{"name": "CUDA"}], [{"path": "/x"}], {"a": 1}])
def test_odd_caches_are_none(raw: Any) -> None:
    assert parsed(caches=raw).compile_caches == ()


def test_mount_points_end_at_the_root() -> None:
    table = settings.mounted(MOUNTS)
    assert settings.filesystem("/etc/../home/x", table) == "nfs4"
    assert settings.filesystem("/", table) == "overlay"
    assert settings.filesystem("/x", {}) is None


ROUTES = """\
Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
eth0 00000000 0102A8C0 0003 0 0 100 00000000 0 0 0
eth1 00000000 0102A8C0 0002 0 0 100 00000000 0 0 0
docker0 000011AC 00000000 0001 0 0 0 0000FFFF 0 0 0
short
"""


def test_the_default_route_and_the_order_of_interfaces() -> None:
    raw = {
        "absent": "not there",
        "interfaces": {name: {"ifindex": "7"} for name in ("eth0", "eth1", "docker0")},
        "proc/net/route": ROUTES,
    }
    found = {interface.name: interface for interface in network.SOURCE.parse(raw).interfaces}
    assert {name: one.default_route for name, one in found.items()} == {
        "eth0": True,
        "eth1": False,
        "docker0": False,
    }
    assert found["eth0"].index == 7


def test_routes_that_were_not_read_say_so() -> None:
    raw = {"absent": "not there", "interfaces": {"eth0": {}}}
    (found,) = network.SOURCE.parse(raw).interfaces
    assert (found.default_route, found.why("default_route")) == (None, "not there")
    denied = {**raw, "proc/net/route": {"error": "no permission"}}
    (found,) = network.SOURCE.parse(denied).interfaces
    assert found.why("default_route") == "no permission"


def test_plugins_where_the_loader_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, name in (("a", "libnccl-net.so"), ("b", "librccl-net.so.1"), ("b", "other.so")):
        write(tmp_path, **{f"{folder}__{name}": ""})
    write(tmp_path, **{"etc__ld.so.conf.d__efa.conf": f"# a note\n{tmp_path}/b\n"})
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}/a:relative")
    monkeypatch.setattr(software, "LIBRARY_FOLDERS", ())
    found = software._plugins(FolderTree(tmp_path))
    assert found == [f"{tmp_path}/a/libnccl-net.so", f"{tmp_path}/b/librccl-net.so.1"]
    said = software.SOURCE.parse({"absent": "x", "packages": [], "plugins": found}).software
    assert said is not None
    assert said.nccl_plugins == tuple(found)
    unread = software.SOURCE.parse({"absent": "x", "packages": []}).software
    assert unread is not None
    assert unread.nccl_plugins is None
    assert unread.why("nccl_plugins") == "x"


def test_this_machine_is_read_and_nobody_is_named() -> None:
    found = host.SOURCE.parse(host.read(live_tree())).host
    assert found is not None
    assert found.cpu_governors is not None
    assert found.open_files_limit is not None or found.why("open_files_limit") == "unlimited"
    secret = Host(compile_caches=(CacheFolder(name="CUDA", path="/home/zebedee/.nv/Cache"),))
    snapshot = NodeSnapshot(
        taken_at=0.0,
        machine=Machine(
            host=secret,
            software=Software(nccl_plugins=("/home/zebedee/lib/libnccl-net.so",)),
            interfaces=(Interface(name="eth0", index=2),),
        ),
    )
    assert "zebedee" not in encode(redacted(snapshot)).decode()
