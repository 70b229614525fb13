"""Parts of several sources become one machine."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gputop.topology.model.machine import Gpu, GpuPair, PciDevice
from gputop.topology.model.part import PartialNode
from gputop.topology.model.record import Gap
from gputop.topology.sources.amd import amdsmi
from gputop.topology.sources.collect import LIMIT, differences, merge, merge_machine
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.kfd import kfd
from tests.support import kfd_trees
from tests.support.places import RECORDINGS

ADDRESS = "0000:01:00.0"


def device(address: str = ADDRESS, **more: object) -> PciDevice:
    values: dict[str, object] = {
        "address": address,
        "parent": "pci0000:00",
        "kind": "gpu",
        "vendor_id": 0x10DE,
        "device_id": 0x2335,
        **more,
    }
    return PciDevice(**values)  # type: ignore[arg-type]


def test_the_first_source_wins_a_field_and_gaps_go_when_another_knows() -> None:
    first = Gpu(
        address=ADDRESS,
        vendor="nvidia",
        name="A",
        gaps=(Gap("serial", "Not Supported"), Gap("vbios", "Not Supported")),
    )
    second = Gpu(address=ADDRESS, vendor="nvidia", name="B", serial="1")
    (gpu,) = merge_machine([PartialNode(gpus=(first,)), PartialNode(gpus=(second,))]).gpus
    assert (gpu.name, gpu.serial) == ("A", "1")
    assert [gap.field for gap in gpu.gaps] == ["vbios"]


def test_a_gpu_without_library_is_shown_with_the_reason() -> None:
    (gpu,) = merge_machine([PartialNode(pci=(device(),))]).gpus
    assert gpu.uuid is None
    assert "no management library" in (gpu.why("uuid") or "")


def test_the_display_chip_of_the_server_is_no_gpu() -> None:
    assert merge_machine([PartialNode(pci=(device(vendor_id=0x1A03),))]).gpus == ()


def test_what_pci_knows_completes_a_gpu() -> None:
    gpu = Gpu(address=ADDRESS, vendor="nvidia", gaps=(Gap("numa_node", "unknown"),))
    (merged,) = merge_machine(
        [PartialNode(gpus=(gpu,)), PartialNode(pci=(device(numa_node=1),))]
    ).gpus
    assert merged.numa_node == 1
    assert merged.why("numa_node") is None


def test_a_text_without_addresses_is_joined_by_index() -> None:
    real = Gpu(address=ADDRESS, vendor="nvidia", index=0, name="real")
    named = Gpu(address="topo:GPU0", vendor="nvidia", index=0)
    other = Gpu(address="topo:GPU1", vendor="nvidia", index=1)
    pair = GpuPair(src="topo:GPU0", dst="topo:GPU1", nvlinks_reported=4)
    machine = merge_machine(
        [PartialNode(gpus=(real,)), PartialNode(gpus=(named, other), pairs=(pair,))]
    )
    assert [gpu.address for gpu in machine.gpus] == [ADDRESS, "topo:GPU1"]
    assert machine.pairs[0].src == ADDRESS


# KFD against another source that was asked the same.
@pytest.fixture
def kernel(tmp_path: Path) -> PartialNode:
    kfd_trees.mi300x(tmp_path)
    return kfd.SOURCE.parse(kfd.read(FolderTree(tmp_path)))


def library(kernel: PartialNode, **changed: object) -> PartialNode:
    """Make what a library would say of the same node."""
    return PartialNode(gpus=kernel.gpus, pairs=kernel.pairs, origin="amdsmi", **changed)  # type: ignore[arg-type]


def test_two_that_agree_say_nothing(kernel: PartialNode) -> None:
    assert differences([library(kernel), kernel]) == ()


def test_one_alone_says_nothing(kernel: PartialNode) -> None:
    assert differences([kernel]) == ()
    assert differences([library(kernel)]) == ()


def test_a_pair_is_reported_once_though_both_directions_differ(kernel: PartialNode) -> None:
    ends = {"0000:0c:00.0", "0000:22:00.0"}
    pairs = tuple(
        msgspec.structs.replace(pair, weight=72, link_type="pcie")
        if {pair.src, pair.dst} == ends
        else pair
        for pair in kernel.pairs
    )
    other = msgspec.structs.replace(library(kernel), pairs=pairs)
    problems = differences([other, kernel])
    assert [problem.text for problem in problems] == [
        "0000:0c:00.0 and 0000:22:00.0: link xgmi by KFD, pcie by amdsmi",
        "0000:0c:00.0 and 0000:22:00.0: weight 15 by KFD, 72 by amdsmi",
    ]
    assert {problem.devices for problem in problems} == {("0000:0c:00.0", "0000:22:00.0")}


def test_gpus_that_one_lacks_and_facts_that_differ(kernel: PartialNode) -> None:
    gpus = tuple(
        msgspec.structs.replace(gpu, compute_partition="CPX") if "0c:" in gpu.address else gpu
        for gpu in kernel.gpus[:7]
    )
    problems = differences([msgspec.structs.replace(library(kernel), gpus=gpus), kernel])
    assert [problem.text for problem in problems] == [
        "KFD shows 0000:df:00.0, amdsmi does not",
        "0000:0c:00.0: compute partition is SPX by KFD and sysfs, CPX by amdsmi",
    ]
    assert {(problem.source, problem.kind) for problem in problems} == {("kfd", "mismatch")}
    # That one lists fewer is a matter of presence, and not of what the GPU is.
    assert [problem.devices for problem in problems] == [(), ("0000:0c:00.0",)]


@pytest.mark.parametrize(("share", "differ"), [(0.95, 0), (0.75, 1), (1.3, 1)])
def test_of_the_memory_each_may_leave_some_out(
    kernel: PartialNode, share: float, differ: int
) -> None:
    whole = 192 * 2**30
    kernel = msgspec.structs.replace(
        kernel, gpus=tuple(msgspec.structs.replace(g, memory_bytes=whole) for g in kernel.gpus)
    )
    first, *others = kernel.gpus
    gpus = (msgspec.structs.replace(first, memory_bytes=int(whole * share)), *others)
    problems = differences([msgspec.structs.replace(library(kernel), gpus=gpus), kernel])
    assert [problem.devices for problem in problems] == [(first.address,)] * differ


def test_links_that_are_counted_otherwise(kernel: PartialNode) -> None:
    first = kernel.gpus[0]
    links = (msgspec.structs.replace(first.xgmi[0], links=2), *first.xgmi[1:])
    gpus = (msgspec.structs.replace(first, xgmi=links), *kernel.gpus[1:])
    (problem,) = differences([msgspec.structs.replace(library(kernel), gpus=gpus), kernel])
    assert problem.text == "0000:0c:00.0 and 0000:22:00.0: 1 xGMI links by KFD, 2 by amdsmi"


def test_what_either_does_not_know_is_no_difference(kernel: PartialNode) -> None:
    gpus = tuple(msgspec.structs.replace(gpu, xgmi_hive=None, xgmi=()) for gpu in kernel.gpus)
    pairs = tuple(msgspec.structs.replace(pair, weight=None) for pair in kernel.pairs)
    other = msgspec.structs.replace(library(kernel), gpus=gpus, pairs=pairs)
    assert differences([other, kernel]) == ()


def test_many_differences_are_counted(kernel: PartialNode) -> None:
    pairs = tuple(msgspec.structs.replace(pair, weight=1) for pair in kernel.pairs)
    problems = differences([msgspec.structs.replace(library(kernel), pairs=pairs), kernel])
    assert len(problems) == LIMIT + 1
    assert problems[-1].text == f"KFD and amdsmi differ in {28 - LIMIT} more points"
    assert {kernel.gpus[0].address, kernel.gpus[-1].address} <= {
        end for problem in problems for end in problem.devices
    }


def test_a_snapshot_shows_them_and_the_library_wins_the_field(kernel: PartialNode) -> None:
    pairs = tuple(msgspec.structs.replace(pair, weight=30) for pair in kernel.pairs)
    other = msgspec.structs.replace(library(kernel), pairs=pairs)
    snapshot = merge([other, kernel], taken_at=0.0, source=("test",), gputop="")
    assert {pair.weight for pair in snapshot.machine.pairs} == {30}
    assert any("weight 15 by KFD, 30 by amdsmi" in problem.text for problem in snapshot.problems)


@pytest.mark.parametrize("major", [6, 7])
def test_the_two_sources_mean_the_same_by_the_same_words(tmp_path: Path, major: int) -> None:
    """amdsmi's recording and a KFD tree of one node, made independently, differ in nothing."""
    answer = (RECORDINGS / f"mi300x-amdsmi-{major}/amdsmi.json").read_bytes()
    other = amdsmi.SOURCE.parse(msgspec.json.decode(answer))
    hive = int(other.gpus[0].xgmi_hive or 0)
    kfd_trees.mi300x(tmp_path, mbs=50_000 if major == 6 else 64_000, hive_id=hive)
    kernel = kfd.SOURCE.parse(kfd.read(FolderTree(tmp_path)))
    ignored = ("KFD node", "render node")
    texts = [problem.text for problem in differences([other, kernel])]
    assert [text for text in texts if not any(word in text for word in ignored)] == []
    snapshot = merge([other, kernel], taken_at=0.0, source=("test",), gputop="")
    link = snapshot.machine.gpus[0].xgmi[0]
    assert (link.raw_gbs, link.links, link.hops, link.why("raw_gbs")) == (64.0, 1, 1, None)
