"""A container with some of the AMD GPUs: its /sys shows all devices, KFD hides the other nodes."""

from __future__ import annotations

from pathlib import Path

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.model.machine import PciDevice, PciKind
from gputop.topology.model.part import PartialNode
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import Container, ContainerKind, Host
from gputop.topology.node import Node
from gputop.topology.sources.collect import ONLY_PCI, merge
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.kfd import kfd

from ....support import kfd_trees

DOCKER = PartialNode(host=Host(container=Container(kind=ContainerKind.DOCKER)))


def tree_of(root: Path, *, mode: str = "SPX") -> FolderTree:
    tree = kfd_trees.Tree(root)
    for place, bus in enumerate(("05", "27")):
        address = f"0000:{bus}:00.0"
        tree.gpu(2 + place, address, 0x74A1, 90402, cpu=0, num_xcc=8 if mode == "SPX" else 4)
        tree.device(address, unique_id=f"{place:016X}", current_compute_partition=mode)
    return FolderTree(root)


def pci(bus: str) -> PciDevice:
    return PciDevice(
        address=f"0000:{bus}:00.0", parent="pci0000:00", kind=PciKind.GPU, vendor_id=0x1002,
        class_code=0x120000, driver="amdgpu",
    )  # fmt: skip


def given(
    tree: FolderTree, *hidden: str, why: str = "no permission", host: PartialNode = DOCKER
) -> NodeSnapshot:
    raw = kfd.read(tree)
    for number in hidden:
        raw["nodes"][number] = {"properties": {"error": why}}
    parts = [kfd.SOURCE.parse(raw), PartialNode(pci=(pci("05"), pci("27"))), host]
    return merge(parts, taken_at=0.0, source=("test",), gputop="0")


def counted(snapshot: NodeSnapshot) -> list[str]:
    return [gpu.address for gpu in Case(Node(snapshot)).gpus]


def test_a_gpu_that_was_not_given_does_not_count(tmp_path: Path) -> None:
    snapshot = given(tree_of(tmp_path), "3")
    assert counted(snapshot) == ["0000:05:00.0"]
    other = snapshot.machine.gpus[1]
    assert (other.address, other.why("uuid")) == ("0000:27:00.0", ONLY_PCI)
    assert [problem.kind for problem in snapshot.problems] == ["denied"]


def test_a_gpu_that_a_job_was_not_given_is_no_fault_without_a_container(tmp_path: Path) -> None:
    """The devices cgroup of a Slurm job: KFD denies the other nodes, /sys shows all devices."""
    guest = Host(container=Container(), hypervisor="KVM")  # two of a board are no whole host
    snapshot = given(tree_of(tmp_path), "3", host=PartialNode(host=guest))
    assert Case(Node(snapshot)).in_container is False
    assert counted(snapshot) == ["0000:05:00.0"]
    found = diagnose(Case(Node(snapshot))).findings
    assert [finding.id for finding in found if finding.devices] == ["evidence-missing"]
    assert counted(snapshot)[0] in found[0].devices


def test_all_gpus_count_where_none_is_hidden(tmp_path: Path) -> None:
    assert len(counted(given(tree_of(tmp_path)))) == 2


def test_a_gpu_without_a_node_counts_where_nothing_is_denied(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    raw = kfd.read(tree)
    del raw["nodes"]["3"]
    for node in raw["nodes"].values():
        node["io_links"] = {
            key: text for key, text in node["io_links"].items() if "node_to 3" not in text
        }
    gpus = kfd.SOURCE.parse(raw).gpus
    assert [gpu.address for gpu in gpus] == ["0000:05:00.0", "0000:27:00.0"]
    assert gpus[1].why("kfd_node") == "KFD shows no node of this GPU"


def test_a_package_whose_first_part_was_not_given_is_no_gpu(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, mode="DPX")
    made = kfd_trees.Tree(tmp_path)
    made.links = {0: 90}
    made.gpu(4, "0000:05:00.1", 0x74A1, 90402, cpu=0, num_xcc=4)
    snapshot = given(tree, "2", "3")
    (mine,) = [gpu for gpu in snapshot.machine.gpus if gpu.kfd_node is not None]
    assert (mine.address, mine.partition, mine.parent) == ("0000:05:00.1", "1", "0000:05:00.0")
    assert counted(snapshot) == ["0000:05:00.1"]
