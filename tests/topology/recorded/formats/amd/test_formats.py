"""What amd-smi and rocm-smi print, as sources of `--from`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gputop.topology.model.part import PartialNode
from gputop.topology.model.snapshot import decode, encode
from gputop.topology.recorded.formats.amd import amd_smi, rocm_smi
from gputop.topology.recorded.load import load
from tests.support.command import gputop
from tests.topology.recorded.formats.amd.printed import MESH, MI250X, MI300X, MI300X_7, peers, read


def test_all_commands_of_7_x_make_one_machine() -> None:
    loaded = load([str(MI300X_7)])
    machine, readings = loaded.snapshot.machine, loaded.snapshot.readings
    assert not loaded.skipped
    assert not loaded.snapshot.problems
    assert [gpu.address for gpu in machine.gpus] == MESH
    gpu = machine.gpus[1]
    assert (gpu.index, gpu.module_id, gpu.kfd_node, gpu.numa_node) == (1, 1, 3, 0)
    assert gpu.uuid == "01ff74a1-0000-1000-80aa-aaaaaaaaaa01"
    assert (gpu.name, gpu.pci_id, gpu.compute_capability, gpu.core_count) == (
        "AMD Instinct MI300X", "1002:74a1", "gfx942", 304,
    )  # fmt: skip
    assert gpu.memory_bytes == gpu.bar1_bytes == 196592 * 2**20
    assert (gpu.compute_partition, gpu.memory_partition, gpu.partition) == ("SPX", "NPS1", None)
    assert (gpu.pcie_gen_max, gpu.pcie_width_max, gpu.memory_bus_bits) == (5, 16, 8192)
    assert (gpu.temperature_slowdown_c, gpu.temperature_shutdown_c) == (100, 110)
    assert (gpu.clock_graphics_max_mhz, gpu.clock_memory_max_mhz) == (2100, 1300)
    assert gpu.ecc_enabled is True
    assert gpu.serial is None
    assert gpu.why("serial") == "amd-smi prints N/A"  # not what list or metric leave out
    assert [gpu.power_limit_watts for gpu in machine.gpus] == [750.0] * 5 + [600.0, 750.0, 750.0]
    assert [peers(gpu) for gpu in machine.gpus] == [
        [other for other in MESH if other != gpu.address] for gpu in machine.gpus
    ]
    down = {
        (gpu.address, link.remote_address)
        for gpu in machine.gpus
        for link in gpu.xgmi
        if not link.active
    }
    assert down == {(MESH[1], MESH[4]), (MESH[4], MESH[1])}
    for link in (link for gpu in machine.gpus for link in gpu.xgmi):
        assert (link.hops, link.weight, link.links, link.speed_gts, link.width) == (
            1, 15, 1, 32.0, 16,
        )  # fmt: skip
        assert (link.raw_gbs, link.bandwidth_max_gbs) == (64.0, 64.0)
    pair = machine.pair(MESH[0], MESH[7])
    assert pair is not None
    assert (pair.link_type, pair.hops, pair.weight) == ("xgmi", 1, 15)
    assert (pair.p2p_read, pair.p2p_write, pair.p2p_atomics, pair.p2p_dma) == ("ok",) * 4
    assert machine.software is not None
    assert (machine.software.rocm, machine.software.amd_driver) == ("7.0.2", "6.14.14")

    now = readings.gpu(MESH[5])
    assert now is not None
    assert now.throttle_reasons == ("sw power cap",)
    assert (now.utilization_percent, now.memory_utilization_percent) == (97.0, 31.0)
    assert (now.power_watts, now.temperature_c, now.temperature_memory_c) == (712.0, 76, 58)
    assert (now.clock_graphics_mhz, now.clock_memory_mhz) == (1890, 1300)
    assert now.memory_used_bytes == 150000 * 2**20
    assert now.processes is not None
    assert [(process.pid, process.memory_bytes) for process in now.processes] == [
        (4205, 157286400000)
    ]
    assert {link.remote_address: (link.rx_bytes, link.tx_bytes) for link in now.xgmi}[MESH[2]] == (
        5002 * 1024, 2005 * 1024,
    )  # fmt: skip
    slow, idle = readings.gpu(MESH[3]), readings.gpu(MESH[7])
    assert slow is not None
    assert (slow.pcie_gen, slow.pcie_width, slow.pcie_replays) == (5, 8, 17)
    assert slow.throttle_reasons == ()
    assert slow.why("throttle_reasons") is None
    assert idle is not None
    assert idle.processes == ()
    faulty = readings.gpu(MESH[2])
    assert faulty is not None
    assert faulty.ecc is not None
    assert (faulty.ecc.corrected_volatile, faulty.ecc.uncorrected_volatile) == (3, 0)
    assert [(block.block, block.corrected) for block in faulty.ecc_blocks] == [
        ("UMC", 3), ("XGMI_WAFL", 0),
    ]  # fmt: skip
    assert decode(encode(loaded.snapshot)).machine == machine


def test_what_is_decided_from_the_files_alone() -> None:
    done = gputop("explain", "--json", "--from", str(MI300X_7))
    assert done.returncode == 0, done.stderr
    pairs = {(p["src"], p["dst"]): p for p in json.loads(done.stdout)["pairs"]}
    assert len(pairs) == 56
    for ends, pair in pairs.items():
        # xGMI ends at a GPU, never at a switch; the pair whose link is down goes over PCIe.
        down = set(ends) == {1, 4}
        assert (pair["path"], pair["hops"]) == (("SYS", 3) if down else ("XGMI", 1)), ends
    checked = gputop("check", "--json", "--from", str(MI300X_7))
    assert checked.returncode == 1, checked.stderr
    found = {row["id"]: row["devices"] for row in json.loads(checked.stdout)["findings"]}
    assert found["xgmi-link-down"] == [MESH[1], MESH[4]]
    assert found["pcie-width"] == [MESH[3]]


def test_the_rates_and_counters_of_an_old_xgmi_list_are_left_out() -> None:
    part = read(amd_smi.FORMAT, (MI300X / "xgmi.json").read_text())
    assert [gpu.address for gpu in part.gpus] == MESH
    assert not any(gpu.xgmi for gpu in part.gpus)
    assert not part.gpu_readings
    (problem,) = part.problems
    assert "prints the rate of PCIe" in problem.text


def test_eight_dies_of_four_packages() -> None:
    part = read(rocm_smi.FORMAT, (MI250X / "rocm-smi.json").read_text())
    assert len(part.gpus) == 8
    gpu, second = part.gpus[:2]
    assert (gpu.address, gpu.index, gpu.kfd_node, gpu.numa_node) == ("0000:c1:00.0", 0, 4, 3)
    assert (gpu.compute_capability, gpu.pci_id) == ("gfx90a", "1002:7408")
    assert gpu.memory_bytes == 68702699520
    assert (gpu.power_limit_watts, second.power_limit_watts) == (560.0, None)
    assert "second die" in str(second.why("power_limit_watts"))
    # Every pair is called XGMI at one hop; the weight tells which ones have wires of their own.
    assert {pair.hops for pair in part.pairs} == {1}
    assert len(part.pairs) == 56
    assert sum(len(gpu.xgmi) for gpu in part.gpus) == 24
    assert all(link.hops == 1 for gpu in part.gpus for link in gpu.xgmi)
    assert peers(gpu) == [part.gpus[n].address for n in (1, 2, 6)]
    now = part.gpu_readings[1]
    assert (now.temperature_c, now.clock_graphics_mhz, now.pcie_gen, now.pcie_width) == (
        45, 800, 4, 16,
    )  # fmt: skip
    assert (now.power_watts, now.why("power_watts")) == (
        None, "rocm-smi prints N/A (Secondary die)",
    )  # fmt: skip
    assert now.processes is None
    assert part.software is not None
    assert part.software.amd_driver == "6.3.6"


def test_readings_find_their_gpu_in_another_file(tmp_path: Path) -> None:
    metric = [{"gpu": 1, "usage": {"gfx_activity": {"value": 42, "unit": "%"}}}]
    listed = [{"gpu": n, "bdf": MESH[n], "uuid": f"0000000{n}"} for n in range(2)]
    (tmp_path / "a.json").write_text(json.dumps(metric))
    (tmp_path / "b.json").write_text(json.dumps(listed))
    snapshot = load([str(tmp_path)]).snapshot
    assert [gpu.uuid for gpu in snapshot.machine.gpus] == ["00000000", "00000001"]
    now = snapshot.readings.gpu(MESH[1])
    assert now is not None
    assert now.utilization_percent == 42.0


def test_topology_of_6_1_0_has_no_addresses() -> None:
    # ROCm/amdsmi CHANGELOG.md, ROCm 6.1.1: "Previous format".
    old = [
        {
            "gpu": n,
            "link_accessibility": {"gpu_0": "DISABLED", "gpu_1": "DISABLED", f"gpu_{n}": "ENABLED"},
            "weight": {"gpu_0": 40, "gpu_1": 40, f"gpu_{n}": 0},
            "hops": {"gpu_0": 2, "gpu_1": 2, f"gpu_{n}": 0},
            "link_type": {"gpu_0": "PCIE", "gpu_1": "PCIE", f"gpu_{n}": "SELF"},
            "numa_bandwidth": {"gpu_0": "N/A", "gpu_1": "N/A"},
        }
        for n in range(2)
    ]
    part = read(amd_smi.FORMAT, old)
    assert [(p.src, p.dst) for p in part.pairs] == [
        ("topo:AMD0", "topo:AMD1"), ("topo:AMD1", "topo:AMD0"),
    ]  # fmt: skip
    pair = part.pairs[0]
    assert (pair.link_type, pair.weight, pair.hops, pair.p2p_read) == (
        "pcie", 40, 2, "not supported",
    )  # fmt: skip


def topology(weight: int, bandwidth: str) -> PartialNode:
    far = {"gpu": 1, "bdf": MESH[1], "weight": weight, "link_status": "ENABLED",
           "link_type": "XGMI", "num_hops": 1, "bandwidth": bandwidth, "dma": "F",
           "atomics": "32"}  # fmt: skip
    own = {"gpu": 0, "bdf": MESH[0], "weight": 0, "link_status": "ENABLED", "link_type": "SELF",
           "num_hops": 0, "bandwidth": "N/A"}  # fmt: skip
    return read(amd_smi.FORMAT, [{"gpu": 0, "bdf": MESH[0], "links": [own, far]}])


@pytest.mark.parametrize(
    ("weight", "bandwidth", "links"),
    [(15, "50000-200000", [4]), (15, "50000-120000", [None]), (15, "N/A", [None]),
     (30, "0-0", []), (15, "0-0", []), (30, "50000-50000", []), (41, "50000-50000", [1])],
)  # fmt: skip
def test_which_pairs_have_wires_of_their_own(
    weight: int, bandwidth: str, links: list[int | None]
) -> None:
    part = topology(weight, bandwidth)
    assert [link.links for link in part.gpus[0].xgmi] == links
    (pair,) = part.pairs
    assert (pair.link_type, pair.p2p_dma, pair.p2p_atomics) == (
        "xgmi", "not supported", "not supported",
    )  # fmt: skip


def test_states_by_port_say_nothing_of_a_pair() -> None:
    """ROCm 6.4 lists eight ports of each GPU without saying where they lead."""
    by_port = {"link_status": [
        {"gpu": n, "bdf": MESH[n], "link_status": ["U", "U", "D", "X", "X", "X", "X", "X"]}
        for n in range(8)
    ]}  # fmt: skip
    assert not any(gpu.xgmi for gpu in read(amd_smi.FORMAT, by_port).gpus)


def test_states_of_bundles() -> None:
    states = ["SELF", "U/U/U/U", "U/D", "D", "N/A", "X", "U/?", "q"]
    entries = [
        {"gpu": n, "bdf": MESH[n], "link_status": states if n == 0 else ["N/A"] * 8}
        for n in range(8)
    ]
    gpu = read(amd_smi.FORMAT, {"link_status": entries}).gpus[0]
    assert [(link.remote_address, link.active, link.links) for link in gpu.xgmi] == [
        (MESH[1], True, 4), (MESH[2], True, 1), (MESH[3], False, None),
    ]  # fmt: skip


def test_parts_of_a_package() -> None:
    entries = [
        {"gpu": n, "bdf": f"0000:0c:00.{n}", "partition": {
            "accelerator_partition": "CPX", "memory_partition": "NPS4", "partition_id": n}}
        for n in range(8)
    ]  # fmt: skip
    part = read(amd_smi.FORMAT, {"gpu_data": entries})
    assert [(gpu.partition, gpu.parent) for gpu in part.gpus] == [
        (None, None), *((str(n), "0000:0c:00.0") for n in range(1, 8)),
    ]  # fmt: skip
    assert {(gpu.compute_partition, gpu.memory_partition) for gpu in part.gpus} == {("CPX", "NPS4")}
