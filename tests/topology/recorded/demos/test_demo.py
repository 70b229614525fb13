"""Demos: reference nodes, through the ordinary parsers, equal to what the tables say."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from gputop.topology.hardware.specs import sku_for, skus, table
from gputop.topology.model.snapshot import decode, encode
from gputop.topology.recorded.demos import demo
from gputop.topology.recorded.demos.pci_tree import functions
from gputop.topology.recorded.demos.shape import load
from gputop.topology.wiring.wires import NVLINK_PAYLOAD_GBS
from tests.support.snapshots import demo_node, gpus_of

NAMES = demo.names()
REQUIRED = {
    "dgx-1v",
    "gb200-nvl72-tray",
    "hgx-a100-8",
    "hgx-h100-8",
    "mi250x-8",
    "mi300x-8",
    "mi355x-8",
    "pcie-l40s-8",
    "sick-h100-8",
    "sick-mi300x-8",
}
WELL = [name for name in NAMES if not name.startswith("sick")]


def node_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = table("nodes")["node"][load(name).like]
    return found


def test_the_promised_demos_are_there() -> None:
    assert set(NAMES) >= REQUIRED
    assert all(demo.title(name) for name in NAMES)


@pytest.mark.parametrize("name", ["", "nothing", "../data/specs", "hgx-h100-8.toml"])
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(demo.DemoError, match="hgx-h100-8"):
        demo.raw(name, 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_demo_is_plain_data_and_says_that_it_is_one(name: str) -> None:
    raw = demo.raw(name, 3)
    assert json.loads(json.dumps(raw)) == raw
    assert all(answer["demo"] is True for answer in raw.values())
    snapshot = demo_node(name).snapshot
    assert snapshot.source == (f"demo {name}",)
    assert decode(encode(snapshot)) == snapshot
    assert snapshot.problems == ()


@pytest.mark.parametrize("name", NAMES)
def test_addresses_are_unique_and_every_parent_exists(name: str) -> None:
    found = functions(load(name))
    addresses = [function.address for function in found]
    assert len(set(addresses)) == len(addresses)
    for function in found:
        assert function.parent in addresses or function.parent == f"pci{function.root}"
    numbers = [function.number for function in found if function.kind == "gpu"]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("name", NAMES)
def test_the_gpus_are_of_the_model_that_the_shape_names(name: str) -> None:
    shape, report = load(name), demo_node(name)
    sku = skus()[shape.sku]
    for gpu in report.snapshot.machine.gpus:
        assert sku_for(gpu) == sku
        if gpu.why("power_limit_watts") is None:
            assert gpu.power_limit_watts == table("specs")["sku"][sku.name]["tdp_w"]
        assert gpu.pcie_gen_max == sku.pcie_gen
        assert gpu.compute_capability in (
            table("specs")["sku"][sku.name].get("compute_capability"),
            table("specs")["sku"][sku.name].get("gfx"),
        )
        assert gpu.pci_id in table("specs")["sku"][sku.name]["pci_ids"]
    assert len(report.snapshot.machine.gpus) == node_of(name)["gpus"]
    assert shape.sku in node_of(name)["sku"]


@pytest.mark.parametrize("name", WELL)
def test_links_are_those_of_the_tables(name: str) -> None:
    node, report = node_of(name), demo_node(name)
    sku = skus()[load(name).sku]
    uneven = node.get("xgmi_matrix")
    for number, gpu in enumerate(report.snapshot.machine.gpus):
        links = len(gpu.nvlinks) or sum(link.links or 0 for link in gpu.xgmi)
        wanted = sum(uneven[number]) if uneven else node["links_per_gpu"]
        assert links == wanted
        assert uneven or wanted == (sku.link_count or 0)
        assert all(link.active for link in gpu.nvlinks)
        edges = report.graph[gpu.address].values()
        fast = [e["wire"] for e in edges if e["wire"].kind in ("nvlink", "xgmi")]
        assert sum(wire.payload_gbs for wire in fast) == wanted * (sku.link_gbs or 0)
        assert uneven or wanted * (sku.link_gbs or 0) == pytest.approx(sku.total_gbs or 0)
        assert not any(wire.assumed for wire in fast)
    switches = [d for d in report.snapshot.machine.pci if d.kind == "nvswitch"]
    assert len(switches) == node["nvswitch"]


@pytest.mark.parametrize("name", WELL)
def test_relations_are_those_of_the_tables(name: str) -> None:
    node, report = node_of(name), demo_node(name)
    gpus = gpus_of(report)
    for i, a in enumerate(gpus):
        for j, b in enumerate(gpus):
            cell = report.matrix.cell(a, b)
            assert cell is not None
            assert cell.code == expected(node, i, j), (name, i, j)


def expected(node: dict[str, Any], i: int, j: int) -> str:
    if i == j:
        return "X"
    if node["topo_pair"] == "matrix":
        links = node["topo_matrix"][i][j]
        return f"NV{links}" if links else str(node["topo_no_link"])
    if node["topo_pair"] != "mixed":
        return str(node["topo_pair"])
    if any({i, j} <= set(group["gpus"]) for group in node["nic_groups"]):
        return "PIX"
    return "NODE" if any({i, j} <= set(near["gpus"]) for near in node["numa"]) else "SYS"


@pytest.mark.parametrize("name", NAMES)
def test_every_gpu_has_its_nic_as_near_as_the_table_says(name: str) -> None:
    node, report = node_of(name), demo_node(name)
    gpus, nics = gpus_of(report), [row for row in report.matrix.rows if row.kind == "nic"]
    assert len(nics) == node["nics"]
    allowed = (node["topo_gpu_nic"], *node.get("topo_gpu_nic_also", ()))
    words = {word for text in allowed for word in text.split(" or ")}
    for place, group in enumerate(node["nic_groups"]):
        many = len(group["nics"])
        for number in group["gpus"]:
            for nic in nics[place * many : (place + 1) * many]:
                cell = report.matrix.cell(gpus[number], nic.address)
                assert cell is not None
                assert cell.code in words


@pytest.mark.parametrize("name", NAMES)
def test_numa_is_that_of_the_table(name: str) -> None:
    report = demo_node(name)
    for near in node_of(name)["numa"]:
        for number in near["gpus"]:
            gpu = report.snapshot.machine.gpus[number]
            assert gpu.numa_node == near["node"]
            assert gpu.cpu_affinity == near.get("cpus", gpu.cpu_affinity)


def test_the_sick_one_differs_from_the_healthy_one_in_one_gpu() -> None:
    sick, well = demo_node("sick-h100-8"), demo_node("hgx-h100-8")
    for index, (ill, fit) in enumerate(
        zip(sick.snapshot.machine.gpus, well.snapshot.machine.gpus, strict=True)
    ):
        assert (ill == fit) == (index != 3)
    ill = sick.snapshot.machine.gpus[3]
    assert [link.link for link in ill.nvlinks if not link.active] == [4, 11]
    reading = sick.snapshot.readings.gpu(ill.address)
    assert reading is not None
    assert (reading.pcie_width, ill.pcie_width_max) == (8, 16)


def test_the_sick_mesh_lacks_one_wire_at_both_ends() -> None:
    sick, well = demo_node("sick-mi300x-8"), demo_node("mi300x-8")
    gpus = gpus_of(sick)
    down = {
        frozenset((gpu.address, link.remote_address))
        for gpu in sick.snapshot.machine.gpus
        for link in gpu.xgmi
        if link.active is False
    }
    assert down == {frozenset((gpus[2], gpus[5]))}
    assert not sick.graph.has_edge(gpus[2], gpus[5])
    assert sick.graph.number_of_edges() == well.graph.number_of_edges() - 1
    pair = sick.snapshot.machine.pair(gpus[5], gpus[2])
    assert pair is not None
    assert (pair.link_type, pair.weight) == ("pcie", 72)


def test_the_matrix_of_gcds_is_that_of_the_table_and_of_the_driver() -> None:
    rows = node_of("mi250x-8")["xgmi_matrix"]
    machine = demo_node("mi250x-8").snapshot.machine
    places = {gpu.address: number for number, gpu in enumerate(machine.gpus)}
    for a, gpu in enumerate(machine.gpus):
        links = {places[link.remote_address]: link.links for link in gpu.xgmi}
        assert [links.get(b, 0) for b in range(8)] == rows[a]
    for pair in machine.pairs:
        near = rows[places[pair.src]][places[pair.dst]] > 0
        # The driver's own count of hops is 1 for every pair of a hive (ROCm/rocm-systems#5763).
        assert (pair.link_type, pair.hops, pair.weight) == ("xgmi", 1, 30 - 15 * near)


@pytest.mark.parametrize("name", NAMES)
def test_figures_move_as_a_function_of_the_tick_and_stay_possible(name: str) -> None:
    assert demo.moving(name, 7) == demo.moving(name, 7)
    assert demo.moving(name, 7) != demo.moving(name, 8)
    assert demo.raw(name, 7).items() >= demo.moving(name, 7).items()
    shape = load(name)
    for tick in (0, 1, 13, 100, 86_400):
        for part in demo.parts(demo.moving(name, tick)).values():
            for number, reading in enumerate(part.gpu_readings):
                assert 0 <= (reading.utilization_percent or 0) <= 100
                if reading.why("power_watts") is None:
                    assert 0 < (reading.power_watts or 0) <= shape.gpu.power_watts
                assert (reading.memory_used_bytes or 0) < shape.gpu.memory_bytes
                assert (reading.temperature_c or 0) < shape.gpu.temperature_slowdown_c
                assert (reading.clock_graphics_mhz or 0) <= shape.gpu.clock_graphics_mhz
                busy = number not in shape.idle
                assert ((reading.utilization_percent or 0) > 30) == busy
                assert bool(reading.processes) == busy


@pytest.mark.parametrize("name", ["sick-h100-8", "sick-mi300x-8", "slow-job-h100-8"])
def test_gpus_that_wait_are_busy_and_cool_and_a_hang_moves_nothing(name: str) -> None:
    shape = load(name)
    assert shape.job is not None
    readings = [
        reading
        for part in demo.parts(demo.moving(name, 13)).values()
        for number, reading in enumerate(part.gpu_readings)
        if number not in shape.idle
    ]
    late, limit = readings.pop(shape.job.late), shape.gpu.power_watts
    assert all((one.utilization_percent or 0) >= 98 for one in readings)
    known = [one.power_watts for one in readings if one.power_watts is not None]
    assert max(known) < 0.65 * limit
    moved = {one.nvlink_tx_bytes_per_second or 0.0 for one in (*readings, late)}
    assert (moved == {0.0}) or not shape.job.hangs
    assert ((late.power_watts or limit) > 0.9 * limit) == shape.job.hangs


def test_nvlink_traffic_stays_below_what_the_links_carry_and_counts_up() -> None:
    most = 18 * NVLINK_PAYLOAD_GBS[4] * 1e9
    totals: list[int] = []
    for tick in range(60):
        answer = demo.moving("hgx-h100-8", tick)["nvml_readings"]
        counters = answer["devices"][0]["nvlink_counters"]
        totals += counters["tx_kib"]
        part = demo.parts(demo.moving("hgx-h100-8", tick))["nvml_readings"]
        rate = part.gpu_readings[0].nvlink_tx_bytes_per_second
        assert rate is not None
        assert 0 < rate < most
    assert totals[1::2] == sorted(totals[1::2])
    assert totals[1:-1:2] == totals[2::2], "one tick begins where the one before ended"


def test_a_sleeping_card_shows_a_slow_link_of_full_width() -> None:
    report = demo_node("pcie-l40s-8")
    idle = report.snapshot.readings.gpus[5]
    assert (idle.pcie_gen, idle.pcie_width, idle.performance_state) == (1, 16, 8)
    speeds = {r.address: r.link_speed_gts for r in report.snapshot.readings.pci}
    assert speeds[idle.address] == 2.5
    assert speeds[gpus_of(report)[0]] == 16.0


@pytest.mark.timing
def test_a_demo_is_made_quickly() -> None:
    demo.raw("hgx-h100-8", 0)
    started = time.perf_counter()
    for tick in range(20):
        demo.moving("hgx-h100-8", tick)
    # About 0.2 ms each; the limit leaves room for a busy machine.
    assert (time.perf_counter() - started) / 20 < 0.01


def test_a_tray_of_gb200_has_coherent_cpus_and_switches_out_of_sight() -> None:
    machine = demo_node("gb200-nvl72-tray").snapshot.machine
    addresses = ["0008:01:00.0", "0009:01:00.0", "0018:01:00.0", "0019:01:00.0"]
    assert [gpu.address for gpu in machine.gpus] == addresses
    for gpu in machine.gpus:
        assert gpu.c2c_enabled
        assert gpu.c2c_gbs == pytest.approx(223.56)
        assert len(gpu.nvlinks) == 18
        assert {link.remote_kind for link in gpu.nvlinks} == {"nvswitch"}
        assert {link.remote_address for link in gpu.nvlinks} == {None}
    assert machine.host is not None
    assert (machine.host.architecture, machine.host.cpu_vendor) == ("aarch64", "ARM")
    nics = [device.address for device in machine.pci if device.kind == "nic"]
    assert nics == [
        f"{domain}:03:00.0" for domain in ("0000", "0002", "0006", "0010", "0012", "0016")
    ]
    ids = {device.device_id for device in machine.pci if device.kind == "switch upstream"}
    assert ids == {0x1979, 0x197B}  # the adapters' own switches, none of a board
