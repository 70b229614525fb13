"""Caches and memory banks of KFD's topology: one public tree, and trees made by hand."""

from __future__ import annotations

from pathlib import Path

from gputop.topology.model.machine import CacheKind, Gpu, GpuCache, MemoryBank
from gputop.topology.sources.files.archive import TarTree
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.kfd import files, kfd
from tests.support import kfd_trees
from tests.support.places import TESTS

RECORDINGS = TESTS / "recordings/kfd"
MIB = 1024**2
L1, L2, L3 = (
    "level 1\nsize 16\ntype 9",
    "level 2\nsize 4096\ntype 9",
    "level 3\nsize 262144\ntype 9",
)


def with_files(root: Path, **texts: str) -> kfd_trees.Tree:
    """One MI300X; "__" in a name is a folder of its node."""
    tree = kfd_trees.Tree(root)
    tree.gpu(2, "0000:0c:00.0", 0x74A1, 90402, cpu=0)
    tree.file(tree.topology / "nodes/2/gpu_id", "1002")
    for name, text in texts.items():
        tree.file(tree.topology / "nodes/2" / name.replace("__", "/") / "properties", text)
    return tree


def gpu_of(root: Path) -> Gpu:
    (gpu,) = kfd.SOURCE.parse(kfd.read(FolderTree(root))).gpus
    return gpu


def test_caches_and_banks_of_a_part_of_an_mi308x() -> None:
    tree = TarTree((RECORDINGS / "mi308x-8-cpx.tar.gz").read_bytes())
    gpu = kfd.SOURCE.parse(kfd.read(tree)).gpus[1]
    # In NPS4 a part reaches a quarter of the 256 MB at the memory.
    assert gpu.caches == (
        GpuCache(level=2, kind=CacheKind.DATA, size_bytes=4 * MIB, count=1),
        GpuCache(level=3, kind=CacheKind.DATA, size_bytes=64 * MIB, count=1),
    )
    assert gpu.memory_banks == (
        MemoryBank(kind="public", size_bytes=51_539_607_552, width_bits=8192, clock_mhz=1300),
    )
    assert gpu.xcd_count == 1


def test_a_gpu_whose_kernel_lists_no_cache_beyond_level_one() -> None:
    tree = TarTree((RECORDINGS / "vega10.tar.gz").read_bytes())
    (gpu,) = kfd.SOURCE.parse(kfd.read(tree)).gpus
    assert gpu.caches == ()
    assert gpu.why("caches") == "KFD lists none beyond level 1"
    assert gpu.memory_banks[0].width_bits == 2048


def test_a_copy_without_the_files_of_its_caches_says_so() -> None:
    tree = TarTree((RECORDINGS / "mi300x-8-cpx.tar.gz").read_bytes())
    gpu = kfd.SOURCE.parse(kfd.read(tree)).gpus[0]
    assert gpu.why("caches") == "KFD counts 80 caches, and none could be read"


def test_only_the_last_caches_are_read(tmp_path: Path) -> None:
    caches = {f"caches__{n}": L1 for n in range(300)}
    with_files(tmp_path, **caches, caches__300=L2, caches__301=L3)
    raw = files.read_nodes(FolderTree(tmp_path), files.ROOTS[0])["2"]
    assert isinstance(raw, dict)
    assert set(raw["caches"]) == {"299", "300", "301"}
    assert [cache.size_bytes // MIB for cache in gpu_of(tmp_path).caches] == [4, 256]


def test_kinds_of_caches_are_told_apart_and_counted(tmp_path: Path) -> None:
    with_files(
        tmp_path, caches__0=L2, caches__1=L2, caches__2="level 2\nsize 512\ntype 10",
        caches__3="level 3\nsize 16384\ntype 5", caches__4="level 3\nsize 0\ntype 9",
    )  # fmt: skip
    found = [
        (cache.kind, cache.size_bytes // 1024, cache.count) for cache in gpu_of(tmp_path).caches
    ]
    # A processor's own cache and one without a size are left out.
    assert found == [("data", 4096, 2), ("instruction", 512, 1)]


def test_a_bank_out_of_the_cpus_reach_is_private(tmp_path: Path) -> None:
    with_files(
        tmp_path, mem_banks__0="heap_type 2\nsize_in_bytes 206141652992\nwidth 8192",
        mem_banks__1="heap_type 4\nsize_in_bytes 65536",
    )  # fmt: skip
    gpu = gpu_of(tmp_path)
    assert gpu.memory_banks == (
        MemoryBank(kind="private", size_bytes=206_141_652_992, width_bits=8192),
    )
    assert gpu.bar1_bytes is None
    assert gpu.memory_bytes == 206_141_652_992


def test_a_tree_without_banks_says_so(tmp_path: Path) -> None:
    with_files(tmp_path)
    gpu = gpu_of(tmp_path)
    assert (gpu.memory_banks, gpu.why("memory_banks")) == ((), "KFD lists no bank")
    assert gpu.why("caches") == "KFD lists none"


def test_hostile_caches_are_no_caches(tmp_path: Path) -> None:
    huge = "level 2\nsize 18446744073709551615\ntype 9"
    with_files(tmp_path, caches__0=huge, caches__1="level 99999999999999999999\nsize 1\n\x00")
    assert gpu_of(tmp_path).caches == ()
