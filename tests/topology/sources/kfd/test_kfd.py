"""KFD's topology and amdgpu's files: real trees of public origin, and trees made by hand."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.model.machine import PciDevice, PciKind
from gputop.topology.model.part import PartialNode
from gputop.topology.model.source import SourceAbsent
from gputop.topology.sources.collect import merge_machine
from gputop.topology.sources.files.archive import TarTree
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.kfd import kfd
from gputop.topology.sources.kfd.gpus import CONSTANT_MBS, OF_PARTS, OLD_CONSTANT, gfx
from gputop.topology.wiring.graph import build_graph
from tests.support import kfd_trees
from tests.support.places import TESTS

RECORDINGS = TESTS / "recordings/kfd"


def recorded(name: str) -> PartialNode:
    """Read one of the public recordings through the source's own reader and parser."""
    return kfd.SOURCE.parse(kfd.read(TarTree((RECORDINGS / f"{name}.tar.gz").read_bytes())))


def of_folder(root: Path) -> PartialNode:
    """Read a folder in the same way."""
    return kfd.SOURCE.parse(kfd.read(FolderTree(root)))


def test_two_hives_of_four_mi210() -> None:
    part = recorded("mi210-8")
    assert [gpu.address for gpu in part.gpus] == [
        f"0000:{bus}:00.0" for bus in ("03", "26", "43", "63", "83", "a3", "c3", "e3")
    ]
    hives = {gpu.xgmi_hive for gpu in part.gpus}
    assert len(hives) == 2
    for gpu in part.gpus:
        assert (gpu.compute_capability, gpu.core_count) == ("gfx90a", 104)
        peers = {other.address for other in part.gpus if other.xgmi_hive == gpu.xgmi_hive}
        assert {link.remote_address for link in gpu.xgmi} == peers - {gpu.address}
        assert {(x.links, x.raw_gbs, x.hops, x.weight) for x in gpu.xgmi} == {(1, 50.0, 1, 15)}
    pairs = {(pair.src, pair.dst): pair for pair in part.pairs}
    assert len(pairs) == 56
    near, far = pairs["0000:03:00.0", "0000:26:00.0"], pairs["0000:03:00.0", "0000:83:00.0"]
    assert (near.link_type, near.hops, near.weight, near.p2p_read) == ("xgmi", 1, 15, "ok")
    assert (far.link_type, far.hops, far.weight, far.p2p_read) == ("pcie", 3, 72, "ok")


def test_parts_of_an_mi300x_in_cpx() -> None:
    part = recorded("mi300x-8-cpx")
    # The capture lacks the last part of the last package.
    assert len(part.gpus) == 63
    assert {gpu.compute_partition for gpu in part.gpus} == {"CPX"}
    one = next(gpu for gpu in part.gpus if gpu.address == "0000:05:00.3")
    assert (one.partition, one.parent, one.core_count) == ("3", "0000:05:00.0", 38)
    assert one.uuid is None
    assert one.why("uuid") == "all parts of a package have one unique_id"
    inside = [x for x in one.xgmi if x.remote_address.startswith("0000:05:")]
    outside = [x for x in one.xgmi if x not in inside]
    assert (len(inside), len(outside)) == (7, 55)
    assert {(x.weight, x.hops, x.bandwidth_max_gbs, x.raw_gbs) for x in inside} == {
        (13, 1, 819.2, None)
    }
    assert {(x.weight, x.hops, x.bandwidth_max_gbs, x.raw_gbs) for x in outside} == {
        (41, 1, None, None)
    }
    assert {x.why("bandwidth_max_gbs") for x in outside} == {OF_PARTS}


def test_parts_of_an_mi308x_are_cpx_because_each_has_one_xcd() -> None:
    part = recorded("mi308x-8-cpx")
    assert len(part.gpus) == 32
    assert {gpu.compute_partition for gpu in part.gpus} == {"CPX"}
    assert {gpu.memory_bytes for gpu in part.gpus} == {51_522_830_336, 51_539_607_552}
    assert {gpu.address[:4] for gpu in part.gpus} == {"0000", "0001"}


def test_an_old_kernel_and_two_nodes_with_one_address() -> None:
    part = recorded("vega10")
    (gpu,) = part.gpus
    assert (gpu.memory_bytes, gpu.xgmi_hive, gpu.xgmi) == (17_163_091_968, None, ())
    # Its memory bank is of the public kind: the BAR shows all of it.
    assert gpu.bar1_bytes == gpu.memory_bytes
    assert gpu.why("xgmi_hive") == "KFD: in no hive"
    (problem,) = part.problems
    assert problem.text == "KFD nodes 1 and 2 are both 0000:19:00.0"


@pytest.mark.parametrize("mbs", [CONSTANT_MBS, 64_000])
def test_a_full_mesh_with_kfd_alone(tmp_path: Path, mbs: int) -> None:
    kfd_trees.mi300x(tmp_path, mbs)
    machine = merge_machine([of_folder(tmp_path)])
    joined = {frozenset((g.address, x.remote_address)) for g in machine.gpus for x in g.xgmi}
    everyone = [gpu.address for gpu in machine.gpus]
    assert joined == {frozenset(pair) for pair in combinations(everyone, 2)}
    link = machine.gpus[0].xgmi[0]
    assert link.links == 1
    if mbs == CONSTANT_MBS:
        assert (link.raw_gbs, link.why("raw_gbs")) == (None, OLD_CONSTANT)
    else:
        assert link.raw_gbs == 64.0
    assert machine.gpus[0].compute_partition == "SPX"


def test_links_of_mi250x_are_counted_and_two_hops_are_no_link(tmp_path: Path) -> None:
    kfd_trees.mi250x(tmp_path)
    part = of_folder(tmp_path)
    first = part.gpus[0]
    counted = {x.remote_address[5:7]: (x.links, x.hops, x.raw_gbs) for x in first.xgmi}
    assert counted == {"c6": (4, 1, 200.0), "c9": (1, 1, 50.0), "d9": (2, 1, 100.0)}
    far = next(pair for pair in part.pairs if (pair.src[5:7], pair.dst[5:7]) == ("c1", "d1"))
    assert (far.link_type, far.weight) == ("xgmi", 30)


def test_the_drivers_own_count_of_links_fills_what_kfd_leaves_out(tmp_path: Path) -> None:
    tree = kfd_trees.Tree(tmp_path)
    for node, bus in ((2, "05"), (3, "27")):
        address = f"0000:{bus}:00.0"
        for number in (0, 1):
            tree.gpu(
                node + 2 * number, f"0000:{bus}:00.{number}", 0x74A1, 90402, cpu=0,
                num_xcc=4, unique_id=node,
            )  # fmt: skip
        folder = tree.device(
            address, xgmi_num_hops="00 41 " if bus == "05" else "41 00 ",
            xgmi_num_links="00 01 " if bus == "05" else "01 00 ",
            current_compute_partition="DPX", current_memory_partition="NPS1",
            mem_info_vis_vram_total="206141652992",
        )  # fmt: skip
        for place, member in enumerate(("05", "27"), 1):
            (folder / "xgmi_hive_info").mkdir(exist_ok=True)
            (folder / f"xgmi_hive_info/node{place}").symlink_to(f"../../0000:{member}:00.0")
    for one in (2, 3, 4, 5):
        for other in (2, 3, 4, 5):
            if one != other:
                same = one % 2 == other % 2
                rate = 819_200 if same else 0
                tree.link(
                    one, other, type=11, weight=13 if same else 41,
                    min_bandwidth=rate, max_bandwidth=rate, flags=1,
                )  # fmt: skip
    part = of_folder(tmp_path)
    first = part.gpus[0]
    assert (first.compute_partition, first.memory_partition) == ("DPX", "NPS1")
    assert first.bar1_bytes == 206_141_652_992
    links = {x.remote_address: (x.links, x.weight) for x in first.xgmi}
    assert links == {"0000:05:00.1": (None, 13), "0000:27:00.0": (1, 41), "0000:27:00.1": (1, 41)}


def test_a_mesh_is_read_from_sysfs_alone(tmp_path: Path) -> None:
    tree = kfd_trees.Tree(tmp_path, cpus=0)
    for place, bus in enumerate(("05", "27", "47")):
        hops = ["00" if n == place else "02" if n + place == 3 else "41" for n in range(3)]
        folder = tree.device(f"0000:{bus}:00.0", xgmi_num_hops=" ".join(hops))
        (folder / "xgmi_hive_info").mkdir()
        for number, member in enumerate(("05", "27", "47"), 1):
            (folder / f"xgmi_hive_info/node{number}").symlink_to(f"../../0000:{member}:00.0")
    part = of_folder(tmp_path)
    joined = [
        (gpu.address[5:7], x.remote_address[5:7], x.hops) for gpu in part.gpus for x in gpu.xgmi
    ]
    assert joined == [("05", "27", 1), ("05", "47", 1), ("27", "05", 1), ("47", "05", 1)]
    assert part.gpus[0].why("kfd_node") == "KFD shows no node of this GPU"


def test_parts_get_from_pci_what_it_says_of_their_package() -> None:
    amd = recorded("mi300x-8-cpx")
    package = PciDevice(
        address="0000:05:00.0", parent="pci0000:00", kind=PciKind.GPU, vendor_id=0x1002,
        numa_node=1,
        device_name="Aqua Vanjaram [Instinct MI300X]", link_width_max=16,
    )  # fmt: skip
    machine = merge_machine([amd, PartialNode(pci=(package,))])
    parts = [gpu for gpu in machine.gpus if gpu.parent == package.address]
    assert len(parts) == 8
    assert {(gpu.name, gpu.numa_node, gpu.pcie_width_max) for gpu in parts} == {
        (package.device_name, 1, 16)
    }
    assert {gpu.why("name") for gpu in parts} == {None}
    # In the graph all of them hang on the one PCIe link of the package.
    graph = build_graph(machine)
    assert all(graph.has_edge(gpu.address, "pci0000:00") for gpu in parts)


def test_pairs_without_a_way_of_their_own_go_by_the_cpus(tmp_path: Path) -> None:
    tree = kfd_trees.Tree(tmp_path)
    for node, (bus, cpu) in enumerate((("03", 0), ("04", 0), ("83", 1)), 2):
        tree.gpu(node, f"0000:{bus}:00.0", 0x66A1, 90006, cpu=cpu, hive_id=0)
    pairs = {(pair.src[5:7], pair.dst[5:7]): pair for pair in of_folder(tmp_path).pairs}
    near, far = pairs["03", "04"], pairs["03", "83"]
    assert (near.link_type, near.hops, near.weight, near.p2p_read) == ("pcie", 2, 40, None)
    assert (far.link_type, far.hops, far.weight) == ("pcie", 3, 72)
    assert near.why("p2p_read") == "KFD lists no way between the two, and HIP was not asked"


def test_flags_of_a_link_say_what_it_cannot(tmp_path: Path) -> None:
    tree = kfd_trees.Tree(tmp_path)
    for node, bus in ((2, "03"), (3, "04")):
        tree.gpu(node, f"0000:{bus}:00.0", 0x66A1, 90006, cpu=0)
    tree.link(2, 3, type=2, weight=40, flags=1 | 1 << 2 | 1 << 3 | 1 << 4)
    tree.link(3, 2, type=2, weight=40, flags=1)
    there, back = of_folder(tmp_path).pairs
    assert (there.p2p_atomics, there.p2p_dma) == ("not supported", "not supported")
    assert (back.p2p_atomics, back.p2p_dma) == ("ok", "ok")


def test_a_node_that_a_container_may_not_see_is_reported(tmp_path: Path) -> None:
    kfd_trees.mi300x(tmp_path)
    raw = kfd.read(FolderTree(tmp_path))
    raw["nodes"]["9"]["properties"] = {"error": "no permission"}
    part = kfd.SOURCE.parse(raw)
    assert len(part.gpus) == 7
    (problem,) = part.problems
    assert (problem.kind, problem.text.split(";")[0]) == ("denied", "KFD node 9: no permission")


def test_what_sysfs_says_of_a_gpu(tmp_path: Path) -> None:
    tree = kfd_trees.Tree(tmp_path)
    tree.gpu(2, "0000:0c:00.0", 0x74A1, 90402, cpu=0)
    tree.device(
        "0000:0c:00.0", product_name="AMD Instinct MI300X", unique_id="0123456789ABCDEF",
        mem_info_vram_total="206141652992", serial_number="42", vbios_version="113-M3000100-102",
        current_compute_partition="SPX", current_memory_partition="NPS1",
        hwmon__hwmon3__name="amdgpu", hwmon__hwmon3__power1_cap="750000000",
        hwmon__hwmon3__temp2_label="junction", hwmon__hwmon3__temp2_crit="100000",
        hwmon__hwmon3__temp2_emergency="105000", hwmon__hwmon3__temp3_label="mem",
        hwmon__hwmon3__temp3_crit="95000",
    )  # fmt: skip
    (gpu,) = of_folder(tmp_path).gpus
    assert gpu.name == "AMD Instinct MI300X"
    assert (gpu.serial, gpu.vbios) == ("42", "113-M3000100-102")
    assert (gpu.compute_partition, gpu.memory_partition) == ("SPX", "NPS1")
    assert (gpu.memory_bytes, gpu.power_limit_watts) == (206_141_652_992, 750.0)
    assert (gpu.temperature_slowdown_c, gpu.temperature_shutdown_c) == (100, 105)
    assert gpu.temperature_memory_max_c == 95


def test_a_gpu_that_sleeps_is_not_asked(tmp_path: Path) -> None:
    tree = kfd_trees.Tree(tmp_path)
    tree.gpu(2, "0000:0c:00.0", 0x74A1, 90402, cpu=0)
    tree.device("0000:0c:00.0", product_name="secret", power__runtime_status="suspended")
    (gpu,) = of_folder(tmp_path).gpus
    assert gpu.name is None
    assert gpu.why("name") == "the GPU sleeps, and asking would wake it"


def test_nothing_of_amd_is_absence(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsent, match="amdgpu"):
        kfd.read(FolderTree(tmp_path))


def test_links_are_read_again_when_the_generation_changes(tmp_path: Path) -> None:
    tree = kfd_trees.mi300x(tmp_path)
    reader = kfd.KfdReader(FolderTree(tmp_path))
    assert len(kfd.SOURCE.parse(reader()).gpus) == 8
    tree.gpu(10, "0000:e0:00.0", 0x74A1, 90402, cpu=0)
    assert len(kfd.SOURCE.parse(reader()).gpus) == 8
    tree.file(tree.topology / "generation_id", "2")
    assert len(kfd.SOURCE.parse(reader()).gpus) == 9


@pytest.mark.parametrize(
    ("version", "name"),
    [(90010, "gfx90a"), (90402, "gfx942"), (90500, "gfx950"), (90006, "gfx906"),
     (110000, "gfx1100"), (120001, "gfx1201"), (0, None)],
)  # fmt: skip
def test_names_of_targets(version: int, name: str | None) -> None:
    """The field `gfx_target_version` packs major, minor and stepping in two decimal digits each;
    90402 is MI300X by the public recording, whose target AMD names gfx942."""
    assert gfx(version) == name


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(
        ["type 11\nnode_to 3\nweight 15\n", "simd_count 8\nvendor_id 4098\nlocation_id 3072\n",
         "node_to 99999999999999999999\n", "01 41 zz", "node_to 2\nmin_bandwidth 9\n"]
    ),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.text(max_size=3) | st.sampled_from(
            ["nodes", "devices", "2", "3", "io_links", "p2p_links", "properties", "gpu_id", "hive",
             "hwmon", "mem_banks", "0000:0c:00.0", "xgmi_num_hops", "1", "asleep"]
        ),
        inner, max_size=5,
    ),
    max_leaves=30,
)  # fmt: skip


@given(JSON)
def test_no_answer_makes_the_parser_raise(raw: object) -> None:
    part = kfd.SOURCE.parse(raw)
    assert len(merge_machine([part]).gpus) == len(part.gpus)
