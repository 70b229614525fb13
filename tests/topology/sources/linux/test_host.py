"""The host: CPUs, NUMA, memory, kernel, container, device nodes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.model.redact import redacted
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import Host
from gputop.topology.sources.files.tree import FolderTree, live_tree
from gputop.topology.sources.linux import host
from gputop.topology.sources.linux.host import flags
from tests.support.places import RECORDINGS

ARM = "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"
INTEL = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nflags\t\t: fpu lm hypervisor\n"

AZURE = "opt/microsoft/ndv5-topo.xml"
LOADED = "var/run/nvidia-topologyd/virtualTopology.xml"


def parsed(**raw: Any) -> Host:
    found = host.SOURCE.parse({"absent": "not there", **raw}).host
    assert found is not None
    return found


def with_files(**files: str) -> Host:
    return parsed(files={name.replace("__", "/"): text for name, text in files.items()})


def with_cpu(text: str, vendor: str = "", product: str = "") -> Host:
    return parsed(
        files={
            "proc/cpuinfo": text,
            "sys/class/dmi/id/sys_vendor": vendor,
            "sys/class/dmi/id/product_name": product,
        }
    )


def test_the_recorded_machine() -> None:
    raw = json.loads((RECORDINGS / "epyc-root-ports/host.json").read_text())
    part = host.SOURCE.parse(raw)
    machine, reading = part.host, part.host_reading
    assert machine is not None
    assert reading is not None
    assert [(socket.cores, socket.threads) for socket in machine.sockets] == [(64, 128), (64, 128)]
    assert [(node.socket, node.distances, node.gpu_memory) for node in machine.numa] == [
        (0, (10, 32), False),
        (1, (32, 10), False),
    ]
    assert (machine.cpu_vendor, machine.cpu_family, machine.cpu_model) == ("AuthenticAMD", 25, 17)
    assert (machine.architecture, machine.hypervisor) == ("x86_64", None)
    assert machine.memory_bytes == (791300000 + 792500000) * 1024
    assert (machine.memlock_bytes, machine.why("memlock_bytes")) == (None, "unlimited")
    assert machine.cmdline_flags == ("amd_iommu=on",)
    assert machine.numa_balancing is False
    assert {module.name: module.version for module in machine.modules}["nvidia"] == "570.133.20"
    assert machine.device_nodes is not None
    assert "/dev/nvidia3" in machine.device_nodes
    assert (reading.load_1min, reading.cpu_percent) == (3.2, 40.0)


def test_the_live_machine_has_no_surprises() -> None:
    reader = host.HostReader(live_tree())
    first = reader()
    json.dumps(first)
    part = host.SOURCE.parse(reader())
    assert part.host is not None
    assert part.host.memory_bytes is not None
    assert part.host.numa
    assert part.host_reading is not None
    assert part.host_reading.load_1min is not None


def test_the_quick_part_is_read_each_time(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    for name, text in (
        ("cpuinfo", INTEL + "\nprocessor : 1\n"),
        ("stat", "cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 1\n"),
        ("loadavg", "0.50 1 1 1/1 1"),
    ):
        (tmp_path / "proc" / name).write_text(text)
    reader = host.HostReader(FolderTree(tmp_path))
    first = host.SOURCE.parse(reader())
    assert first.host_reading is not None
    assert first.host_reading.why("cpu_percent") == "needs two readings"
    (tmp_path / "proc/stat").write_text("cpu  40 0 20 120 20 0 0 0 0 0\n")
    (tmp_path / "proc/loadavg").write_text("0.75 1 1 1/1 1")
    (tmp_path / "proc/cpuinfo").unlink()
    second = host.SOURCE.parse(reader())
    assert second.host_reading is not None
    assert second.host_reading.cpu_percent == 40.0
    assert second.host_reading.load_1min == 0.75
    assert second.host == first.host


def test_sockets_take_few_reads(tmp_path: Path) -> None:
    for cpu in range(8):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        socket = cpu // 2 % 2
        (folder / "physical_package_id").write_text(f"{socket}\n")
        (folder / "core_siblings_list").write_text(("0-1,4-5", "2-3,6-7")[socket] + "\n")
        (folder / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
    (tmp_path / "sys/devices/system/cpu/cpu9").mkdir()
    raw = host.read(FolderTree(tmp_path))
    assert [entry["cpus"] for entry in raw["sockets"]] == ["0-1,4-5", "2-3,6-7"]
    sockets = parsed(**{"sockets": raw["sockets"]}).sockets
    assert [(socket.socket, socket.cores, socket.threads) for socket in sockets] == [
        (0, 2, 4),
        (1, 2, 4),
    ]


@pytest.mark.parametrize(
    ("cpu", "vendor", "product", "expected"),
    [
        (INTEL, "QEMU", "Standard PC (Q35 + ICH9, 2009)", "KVM (QEMU)"),
        (INTEL, "Microsoft Corporation", "Virtual Machine", "Hyper-V"),
        (INTEL, "Amazon EC2", "p5.48xlarge", "Amazon EC2"),
        (INTEL, "SomeCloud", "Server", "SomeCloud"),
        (INTEL, "", "", "unknown hypervisor"),
        (INTEL.replace(" hypervisor", ""), "Amazon EC2", "p5.metal", None),
        (ARM, "NVIDIA", "GH200", None),
        (ARM, "QEMU", "QEMU Virtual Machine", "KVM (QEMU)"),
    ],
)
def test_hypervisors(cpu: str, vendor: str, product: str, expected: str | None) -> None:
    assert with_cpu(cpu, vendor, product).hypervisor == expected


def test_an_arm_cpu_says_less() -> None:
    machine = with_cpu(ARM)
    assert (machine.cpu_vendor, machine.cpu_model_name, machine.cpu_model) == (
        "ARM",
        "Neoverse-V2",
        0xD4F,
    )
    assert machine.architecture == "aarch64"
    assert machine.why("cpu_family") == "/proc/cpuinfo does not say"
    assert machine.why("hypervisor")


def test_a_node_with_memory_alone() -> None:
    numa = {
        "0": {"cpulist": "0-71", "distance": "10 80", "meminfo": "Node 0 MemTotal: 100 kB"},
        "1": {"cpulist": "", "distance": "80 10", "meminfo": "Node 1 MemTotal: 96 kB"},
    }
    driver = {"proc/driver/nvidia/version": "NVIDIA UNIX Open Kernel Module for aarch64  570.1 "}
    grace = parsed(numa=numa, files={"proc/cpuinfo": ARM, **driver})
    assert [node.gpu_memory for node in grace.numa] == [False, True]
    module = "NVIDIA UNIX ppc64le Kernel Module  418.87.00"
    power = {"proc/driver/nvidia/version": module, "proc/sys/kernel/arch": "ppc64le"}
    assert [node.gpu_memory for node in parsed(numa=numa, files=power).numa] == [False, True]
    assert grace.numa[1].memory_bytes == 96 * 1024
    other = parsed(numa=numa, files={"proc/cpuinfo": INTEL, **driver})
    assert other.numa[1].gpu_memory is None
    assert other.numa[1].why("gpu_memory")


def test_only_listed_kernel_arguments_are_kept() -> None:
    line = (
        "BOOT_IMAGE=/vmlinuz root=UUID=0b root_password=x iommu=pt intel_iommu=on pci=realloc=off "
        "pcie_acs_override=downstream numa_balancing=disable nvidia.NVreg_NvLinkDisable=1 "
        "nvidia-drm.modeset=1 iommu.passthrough=1 xpci=1 pci password=iommu=pt quiet"
    )
    kept = [
        "iommu=pt",
        "intel_iommu=on",
        "pci=realloc=off",
        "pcie_acs_override=downstream",
        "numa_balancing=disable",
        "nvidia.NVreg_NvLinkDisable=1",
        "nvidia-drm.modeset=1",
        "iommu.passthrough=1",
        "pci",
    ]
    assert flags(line) == kept
    machine = parsed(cmdline=[*kept, "secret=1"])
    assert machine.cmdline_flags == tuple(kept)


def test_the_nvidia_module_and_its_registry() -> None:
    closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 2024"
    params = (
        "NvLinkDisable: 0\nDmaRemapPeerMmio: 1\nEnablePCIERelaxedOrderingMode: 1\n"
        'RegistryDwords: "ForceP2P=0x11;RMForceStaticBar1=0x1;Other=1;PeerMappingOverride=1"\n'
    )
    machine = parsed(
        files={"proc/driver/nvidia/version": closed, "proc/driver/nvidia/params": params}
    )
    assert machine.nvidia_module == "closed"
    assert machine.nvidia_registry == (
        "NVreg_EnablePCIERelaxedOrderingMode=1",
        "ForceP2P=0x11",
        "RMForceStaticBar1=0x1",
        "PeerMappingOverride=1",
    )


def test_what_was_not_answered_is_a_gap() -> None:
    machine = parsed()
    for field in ("hostname", "kernel", "memory_bytes", "shm_bytes", "cmdline_flags"):
        assert getattr(machine, field) is None
        assert machine.why(field) == "not there"


def test_device_nodes_with_permission() -> None:
    machine = parsed(device_nodes=[["/dev/nvidia0", True], ["/dev/nvidia1", False]])
    assert machine.device_nodes == ("/dev/nvidia0", "/dev/nvidia1 (no permission)")
    assert parsed(device_nodes=[]).device_nodes == ()


def write(root: Path, path: str, text: str = "") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_shared_memory_of_the_live_machine() -> None:
    if not os.path.isdir("/dev/shm"):
        pytest.skip("no /dev/shm here")
    machine = host.SOURCE.parse(host.read(live_tree())).host
    assert machine is not None
    assert machine.shm_bytes is not None


def tree_with(root: Path, *paths: str, live: bool = False) -> FolderTree:
    (root / "sys").mkdir(exist_ok=True)
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("<system/>")
    return FolderTree(root, live=live)


def test_files_of_clouds_are_found(tmp_path: Path) -> None:
    tree = tree_with(tmp_path, AZURE, LOADED, "opt/microsoft/readme.txt", "opt/other/topo.xml")
    assert host.read_topology_files(tree) == [f"/{LOADED}", f"/{AZURE}"]


def test_a_folder_or_a_link_out_of_a_copy_is_no_file(tmp_path: Path) -> None:
    tree = tree_with(tmp_path, AZURE)
    (tmp_path / "opt/microsoft/old-topo.xml").mkdir()
    (tmp_path / "opt/microsoft/far-topo.xml").symlink_to("/etc/hostname")
    assert host.read_topology_files(tree) == [f"/{AZURE}"]


def test_none_found_is_an_answer_here_and_none_in_a_copy(tmp_path: Path) -> None:
    assert host.read_topology_files(tree_with(tmp_path, live=True)) == []
    assert host.read_topology_files(tree_with(tmp_path)) is None


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
    assert len(found.topology_files) <= host.LIMIT_FILES


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
