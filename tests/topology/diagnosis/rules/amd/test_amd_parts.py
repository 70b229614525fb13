"""A part that the kernel made no GPU of: proven on a public tree, and no alarm where none is."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.model.finding import Finding
from gputop.topology.model.machine import PciDevice
from gputop.topology.model.part import PartialNode, Raw
from gputop.topology.model.severity import SLOW
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.sources.collect import merge
from gputop.topology.sources.files.archive import TarTree
from gputop.topology.sources.files.tree import FolderTree, Tree
from gputop.topology.sources.kfd import kfd
from tests.support import kfd_trees
from tests.support.places import RECORDINGS

KFD = RECORDINGS / "kfd"
RULE = "amd-part-missing"
NODES = "sys/class/kfd/kfd/topology/nodes"


def read(name: str) -> Raw:
    return kfd.read(TarTree((KFD / f"{name}.tar.gz").read_bytes()))


def snapshot_of(raw: Raw, *more: PartialNode) -> NodeSnapshot:
    parts = [kfd.SOURCE.parse(raw), *more]
    return merge(parts, taken_at=0.0, source=("test",), gputop="0")


def found(snapshot: NodeSnapshot) -> list[Finding]:
    return [finding for finding in diagnose(Case(Node(snapshot))).findings if finding.id == RULE]


def made(tree: Tree) -> NodeSnapshot:
    return snapshot_of(kfd.read(tree))


def split(root: Path, parts: dict[str, int], mode: str = "CPX", *, cores: int = 32) -> FolderTree:
    """Packages of an unlisted model by bus and number of parts."""
    tree = kfd_trees.Tree(root)
    node = 2
    for bus, count in parts.items():
        for number in range(count):
            tree.gpu(
                node, f"0000:{bus}:00.{number}", 0x7FFF, 90402, cpu=0,
                num_xcc=1 if mode == "CPX" else 2, simd_count=4 * cores,
            )  # fmt: skip
            node += 1
        tree.device(f"0000:{bus}:00.0", current_compute_partition=mode)
    return FolderTree(root)


def test_the_last_part_of_a_public_tree_is_missing_and_the_proof_is_reported() -> None:
    (one,) = found(snapshot_of(read("mi300x-8-cpx")))
    assert one.severity == SLOW
    assert one.title == "1 part of 0000:e5:00.0 is missing"
    assert one.evidence[0].value == (
        "7, numbers 0, 1, 2, 3, 4, 5, 6; CPX makes 8 of 304 compute units, 38 in each"
    )
    # Sixty-three render nodes, and the display adapter of the server, which nobody read here.
    assert one.evidence[1].value.startswith("63, renderD128 to renderD190; ")
    assert one.evidence[2].source == "assumption"
    assert one.fix[0].command == ""


def test_the_driver_of_the_display_adapter_is_named_where_pci_was_read() -> None:
    adapter = PciDevice(
        address="0000:c4:00.0", parent="pci0000:c0", class_code=0x030000, driver="ast"
    )
    (one,) = found(snapshot_of(read("mi300x-8-cpx"), PartialNode(pci=(adapter,))))
    assert one.evidence[2].value == "driven by ast, a DRM device too"
    assert one.fix[0].command == "grubby --update-kernel=ALL --args=modprobe.blacklist=ast"
    other = msgspec.structs.replace(adapter, driver="bochs-drm", class_code=0x010802)
    (one,) = found(snapshot_of(read("mi300x-8-cpx"), PartialNode(pci=(other,))))
    assert [fix.command for fix in one.fix] == ["dmesg | grep -i -e 'drm node' -e amdgpu_xcp"]


def test_all_parts_of_another_public_tree_are_there() -> None:
    snapshot = snapshot_of(read("mi308x-8-cpx"))
    assert {gpu.package_parts for gpu in snapshot.machine.gpus} == {4}
    assert found(snapshot) == []


def _denied(raw: dict[str, Raw], number: str) -> None:
    raw[number] = {"properties": {"error": "no permission"}}


def _cut(raw: dict[str, Raw], number: str) -> None:
    del raw[number]


@pytest.mark.parametrize("hide", [_denied, _cut])
def test_a_container_or_a_copy_with_some_of_the_parts_is_no_alarm(
    hide: Callable[[dict[str, Raw], str], None],
) -> None:
    raw = read("mi308x-8-cpx")
    for number in ("5", "9"):
        hide(raw["nodes"], number)
    snapshot = snapshot_of(raw)
    assert len(snapshot.machine.gpus) == 30
    assert {gpu.package_parts for gpu in snapshot.machine.gpus} == {None}
    assert "KFD hides nodes" in (snapshot.machine.gpus[0].why("package_parts") or "")
    assert found(snapshot) == []
    assert any("node 5" in problem.text for problem in snapshot.problems)


def test_a_container_with_one_part_calls_it_a_part(tmp_path: Path) -> None:
    raw = kfd.read(split(tmp_path, {"05": 2, "27": 2}, "DPX"))
    for number in ("3", "4", "5"):
        _denied(raw["nodes"], number)
    snapshot = snapshot_of(raw)
    mine = snapshot.machine.gpus[0]
    assert (mine.address, mine.partition, mine.parent) == ("0000:05:00.0", "0", "0000:05:00.0")
    assert mine.compute_partition == "DPX"
    assert found(snapshot) == []


def test_one_of_two_halves_is_missing(tmp_path: Path) -> None:
    (one,) = found(made(split(tmp_path, {"05": 1, "27": 2}, "DPX")))
    assert one.title == "1 part of 0000:05:00.0 is missing"
    assert one.evidence[0].value == "1, numbers 0; DPX makes 2 of it"
    assert one.devices == ("0000:05:00.0",)


def test_an_unlisted_model_is_held_against_its_sisters(tmp_path: Path) -> None:
    (one,) = found(made(split(tmp_path, {"05": 4, "27": 3, "47": 3, "65": 4})))
    assert one.title == "2 parts of 2 packages are missing"
    assert one.evidence[0].value == "3, numbers 0, 1, 2; 4 of 2 packages of its kind"


def test_whole_gpus_and_parts_that_are_all_there_are_no_alarm(tmp_path: Path) -> None:
    assert found(made(FolderTree(kfd_trees.mi300x(tmp_path / "whole").root))) == []
    assert found(made(split(tmp_path / "parts", {"05": 4, "27": 4}, "QPX"))) == []


def test_a_tar_of_the_same_tree_says_the_same(tmp_path: Path) -> None:
    split(tmp_path / "tree", {"05": 1, "27": 2}, "DPX")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(tmp_path / "tree", arcname=".")
    assert len(found(made(TarTree(packed.getvalue())))) == 1
