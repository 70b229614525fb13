"""AMD's GPUs through amdsmi of both majors: what is understood, what is refused, what is absent."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gputop.topology.sources.amd import amdsmi, parse_machine, parse_readings
from tests.support.amdsmi import fake
from tests.support.amdsmi.fake import asked, read, start

MAJORS = ("6", "7")
ADDRESSES = tuple(f"0000:{bus}:00.0" for bus in ("0c", "22", "38", "5c", "9f", "af", "bf", "df"))


@pytest.fixture(params=MAJORS)
def major(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_gpu_is_understood(major: str) -> None:
    part = parse_machine.parse(asked(fake.Binding(major)))
    assert tuple(gpu.address for gpu in part.gpus) == ADDRESSES
    assert (part.problems, part.assumptions) == ((), ())
    for number, gpu in enumerate(part.gpus):
        assert (gpu.index, gpu.vendor, gpu.name) == (number, "amd", "AMD Instinct MI300X")
        assert (gpu.architecture, gpu.compute_capability) == ("CDNA 3", "gfx942")
        assert (gpu.core_count, gpu.pci_id, gpu.module_id) == (304, "1002:74a1", number)
        assert gpu.memory_bytes == gpu.bar1_bytes == 206141652992
        assert (gpu.pcie_gen_max, gpu.pcie_width_max) == (5, 16)
        assert (gpu.power_limit_watts, gpu.power_limit_max_watts) == (750.0, 750.0)
        assert (gpu.temperature_slowdown_c, gpu.temperature_shutdown_c) == (100, 110)
        assert (gpu.temperature_memory_max_c, gpu.clock_graphics_max_mhz) == (105, 2100)
        assert (gpu.ecc_enabled, gpu.virtualization, gpu.numa_node) == (True, "none", number // 4)
        assert (gpu.compute_partition, gpu.memory_partition) == ("SPX", "NPS1")
        assert (gpu.partition, gpu.kfd_node, gpu.render_minor) == (
            None,
            2 + number,
            128 + 8 * number,
        )
        assert gpu.uuid is not None
        assert gpu.serial == f"DE30000000{number}"
        assert gpu.vbios == "022.040.003.041.000001"
        assert gpu.firmware == (("PM", "08.85.121.00"), ("SDMA0", "22"))
    assert len({gpu.xgmi_hive for gpu in part.gpus}) == 1
    assert part.software is not None
    assert part.software.rocm == {"6": "6.4.3", "7": "7.0.2"}[major]
    assert part.software.amd_driver == {"6": "6.12.12", "7": "6.14.14"}[major]


def test_every_pair_is_joined_by_one_wire_of_sixteen_lanes(major: str) -> None:
    part = parse_machine.parse(asked(fake.Binding(major)))
    for gpu in part.gpus:
        peers = [address for address in ADDRESSES if address != gpu.address]
        assert [link.remote_address for link in gpu.xgmi] == peers
        for link in gpu.xgmi:
            assert (link.active, link.links, link.hops, link.weight) == (True, 1, 1, 15)
            # 32 GT/s times 16 lanes, not the 50 GB/s that the kernel's topology says in 6.x.
            assert (link.speed_gts, link.width, link.raw_gbs) == (32.0, 16, 64.0)
            assert link.bandwidth_max_gbs == {"6": 50.0, "7": 64.0}[major]
            assert link.gaps == ()
    assert len(part.pairs) == 56
    for pair in part.pairs:
        assert (pair.link_type, pair.hops, pair.weight) == ("xgmi", 1, 15)
        assert (pair.p2p_read, pair.p2p_write, pair.p2p_atomics, pair.p2p_dma) == ("ok",) * 4


def test_readings_are_understood(major: str) -> None:
    part = parse_readings.parse(read(fake.Binding(major), thorough=True))
    busy, idle = part.gpu_readings[1], part.gpu_readings[5]
    assert (busy.utilization_percent, busy.memory_utilization_percent) == (97, 41)
    assert (busy.memory_used_bytes, busy.memory_free_bytes) == (165_000_000_000, 41_141_652_992)
    assert (busy.power_watts, busy.temperature_c, busy.temperature_memory_c) == (615.0, 72, 59)
    assert (busy.clock_graphics_mhz, busy.clock_memory_mhz) == (2090, 1300)
    assert (busy.pcie_gen, busy.pcie_width) == (5, 16)
    assert (busy.throttle_reasons, idle.throttle_reasons) == (("sw power cap",), ())
    assert busy.processes is not None
    assert [(p.pid, p.kind, p.memory_bytes) for p in busy.processes] == [
        (5001, "compute", 164_700_000_000)
    ]
    assert (idle.processes, idle.utilization_percent, idle.pcie_replays) == ((), 0, 2)
    assert idle.ecc is not None
    assert (idle.ecc.corrected_volatile, idle.ecc.uncorrected_volatile) == (3, 0)
    assert idle.ecc.why("corrected_aggregate") is not None
    counts = {block.block: block.corrected for block in idle.ecc_blocks}
    assert counts == {"UMC": 3, "SDMA": 0, "GFX": 0, "MMHUB": 0, "PCIE_BIF": 0, "XGMI_WAFL": 0}
    pages = part.gpu_readings[6].ecc
    assert pages is not None
    assert (pages.pages_retired_double, pages.retirement_pending) == (1, False)
    if major == "7":
        ends = {reading.remote_address for reading in busy.xgmi}
        assert ends == {address for address in ADDRESSES if address != busy.address}
        first = next(r for r in busy.xgmi if r.remote_address == ADDRESSES[2])
        assert (first.rx_bytes, first.tx_bytes) == (900_000 * 1024, 800_000 * 1024)
    else:
        assert busy.xgmi == ()
        assert busy.why("xgmi") == "the installed amdsmi does not know this function"


def test_rates_and_reasons_come_from_two_readings(major: str) -> None:
    binding = fake.Binding(major)
    binding.raw = copy.deepcopy(binding.raw)
    first = parse_readings.parse(read(binding)).gpu_readings[0]
    assert first.why("xgmi_tx_bytes_per_second") == "needs a second reading"
    assert first.why("throttle_reasons") == "needs a second reading"
    assert "amdsmi_get_violation_status" not in binding.calls  # it sleeps, GPU by GPU

    metrics = binding.raw["devices"][0]["amdsmi_get_gpu_metrics_info"]
    reads = iter(range(100))

    def growing(key: str, answer: Any) -> Any:
        if key != "amdsmi_get_gpu_metrics_info":
            return answer
        step = next(reads) // 8
        return answer | {
            "accumulation_counter": metrics["accumulation_counter"] + 1000 * step,
            "hbm_thm_residency_acc": 5 * step,
            "xgmi_write_data_acc": [count + 1_000_000 * step for count in range(8)],
        }

    binding.answering = growing
    second = parse_readings.parse(read(binding, times=2)).gpu_readings[0]
    assert second.throttle_reasons == ("hbm thermal",)
    assert second.xgmi_tx_bytes_per_second == 8 * 1_000_000 * 1024 / 10
    assert second.xgmi_rx_bytes_per_second == 0


def test_the_first_reading_of_a_session_asks_only_for_a_row(major: str) -> None:
    binding = fake.Binding(major)
    reader = amdsmi.AmdsmiReader(start(binding))
    first = parse_machine.parse(reader())
    assert first.gpus[0].name == "AMD Instinct MI300X"
    assert first.gpus[0].why("serial") == "not asked"
    assert not any(call.startswith("amdsmi_topo") for call in binding.calls)
    assert reader.again_seconds is not None
    assert parse_machine.parse(reader()).gpus[0].serial == "DE300000000"
    assert reader.again_seconds is None


@pytest.mark.parametrize("named", [True, False], ids=["the link is named", "by counting"])
def test_a_dead_wire_is_one_that_is_down(named: bool) -> None:
    binding = fake.Binding("7" if named else "6")
    devices = binding.raw["devices"]
    for a, b in ((2, 5), (5, 2)):
        pair = next(pair for pair in devices[a]["pairs"] if pair["peer"] == b)
        pair["amdsmi_topo_get_link_type"] = {"hops": 2, "type": 1}
        pair["amdsmi_topo_get_link_weight"] = 40
        states = devices[a]["amdsmi_get_gpu_xgmi_link_status"]["status"]
        down = 3
        if named:
            ends = [link["bdf"] for link in devices[a]["amdsmi_get_link_metrics"]["links"]]
            down = ends.index(ADDRESSES[b])
        states[down] = "D"
    part = parse_machine.parse(asked(binding))
    dead = [
        (gpu.address, link.remote_address)
        for gpu in part.gpus
        for link in gpu.xgmi
        if link.active is not True
    ]
    assert dead == [(ADDRESSES[2], ADDRESSES[5]), (ADDRESSES[5], ADDRESSES[2])]
    assert all(len(gpu.xgmi) == 7 for gpu in part.gpus)
    assert bool(part.assumptions) is not named
    assert next(p for p in part.pairs if p.src == ADDRESSES[2] and p.dst == ADDRESSES[5]).link_type


def test_links_that_are_down_somewhere_are_not_called_up() -> None:
    binding = fake.Binding("6")
    binding.raw["devices"][0]["amdsmi_get_gpu_xgmi_link_status"]["status"][0] = "D"
    links = parse_machine.parse(asked(binding)).gpus[0].xgmi
    assert {link.active for link in links} == {None}
    assert "1 of 7 links are down" in str(links[0].why("active"))


def test_peers_over_two_hops_have_no_wire_of_their_own() -> None:
    binding = fake.Binding("6")
    for device in binding.raw["devices"]:
        for pair in device["pairs"]:
            bandwidth = pair["amdsmi_get_minmax_bandwidth_between_processors"]
            if (pair["peer"] - device["index"]) % 2:
                bandwidth |= {"min_bandwidth": 50000, "max_bandwidth": 100000}
            elif device["index"] % 2:
                pair["amdsmi_topo_get_link_weight"] = 30
            else:
                bandwidth |= {"min_bandwidth": 0, "max_bandwidth": 0}
    for gpu in parse_machine.parse(asked(binding)).gpus:
        assert len(gpu.xgmi) == 4
        assert {(link.links, link.raw_gbs) for link in gpu.xgmi} == {(2, 128.0)}


def test_before_mi300_the_rate_is_the_kernels_and_said_to_be() -> None:
    binding = fake.Binding("6")
    for device in binding.raw["devices"]:
        metrics = device["amdsmi_get_gpu_metrics_info"]
        metrics |= {"xgmi_link_speed": "N/A", "xgmi_link_width": "N/A"}
        device["amdsmi_get_gpu_xgmi_link_status"] = None
    part = parse_machine.parse(asked(binding))
    link = part.gpus[0].xgmi[0]
    assert (link.raw_gbs, link.speed_gts, link.active) == (50.0, None, None)
    assert link.why("speed_gts") == "the driver does not say"
    assert link.why("active") == "Feature not supported"
    assert any("25 GT/s" in text for text in part.assumptions)


def test_parts_of_a_package_name_their_parent() -> None:
    binding = fake.Binding("7")
    for number, device in enumerate(binding.raw["devices"]):
        device["amdsmi_get_gpu_device_bdf"] = f"0000:0c:00.{number}"
        device["amdsmi_get_gpu_compute_partition"] = "CPX"
        device["amdsmi_get_gpu_kfd_info"]["current_partition_id"] = number
    gpus = parse_machine.parse(asked(binding)).gpus
    assert [gpu.partition for gpu in gpus] == [str(part) for part in range(8)]
    assert {gpu.parent for gpu in gpus} == {"0000:0c:00.0"}
    assert {gpu.compute_partition for gpu in gpus} == {"CPX"}


@pytest.mark.parametrize(
    ("version", "cap", "watts"),
    [
        (24, 750_000_000, 750.0),
        (24, 750, 750.0),
        (25, 750_000_000, 750.0),
        (25, 750, None),
        (25, 750_000, None),
        (25, 750_000_000_000, None),
        (25, 0, None),
        (25, "N/A", None),
    ],
)
def test_power_caps_are_watts_in_every_version(version: int, cap: Any, watts: float | None) -> None:
    binding = fake.Binding("6")
    binding.raw["system"]["amdsmi_get_lib_version"]["major"] = version
    binding.raw["devices"][0]["amdsmi_get_power_cap_info"]["power_cap"] = cap
    gpu = parse_machine.parse(asked(binding)).gpus[0]
    assert gpu.power_limit_watts == watts


def test_caches_beyond_level_one(major: str) -> None:
    first = parse_machine.parse(asked(fake.Binding(major))).gpus[0]
    assert [
        (cache.level, cache.kind, cache.size_bytes // 1024, cache.count) for cache in first.caches
    ] == [
        (2, "data", 4096, 1),
        (3, "data", 262_144, 1),
    ]


@pytest.mark.parametrize("answer", ["N/A", {"cache": "N/A"}, {"cache": []}, {"cache": [7, {}]}, 3])
def test_caches_that_are_none_are_a_gap(answer: Any) -> None:
    binding = fake.Binding("7")
    binding.raw["devices"][0]["amdsmi_get_gpu_cache_info"] = answer
    gpu = parse_machine.parse(asked(binding)).gpus[0]
    assert gpu.caches == ()
    assert gpu.why("caches") is not None
