"""What NVML answered on a machine with four H200, and every number that stands for a word."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.model.format import FormatError
from gputop.topology.model.part import PartialNode
from gputop.topology.recorded.formats.nvidia.nvml_json import FORMAT
from gputop.topology.sources.nvidia import parse_machine as nvml_machine
from gputop.topology.sources.nvidia import parse_readings as nvml_moving
from gputop.topology.sources.nvidia import words as nvml_words
from gputop.topology.sources.pci.address import pci_address
from tests.support.places import RECORDINGS

RECORDING = RECORDINGS / "hgx-h200-4gpu-vm/nvml.json"
ADDRESSES = tuple(f"0000:00:0{n}.0" for n in (6, 7, 8, 9))


@pytest.fixture(scope="module")
def part() -> PartialNode:
    data = RECORDING.read_bytes()
    assert FORMAT.recognises(data[:65536], RECORDING)
    return FORMAT.parse(data, RECORDING)


@pytest.fixture
def raw() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(RECORDING.read_bytes())
    return document


def test_every_device_of_the_recording_is_understood(part: PartialNode) -> None:
    assert tuple(gpu.address for gpu in part.gpus) == ADDRESSES
    assert [gpu.index for gpu in part.gpus] == [0, 1, 2, 3]
    assert len({gpu.uuid for gpu in part.gpus}) == 4
    for gpu in part.gpus:
        assert (gpu.name, gpu.architecture, gpu.compute_capability) == (
            "NVIDIA H200",
            "Hopper",
            "9.0",
        )
        assert (gpu.pci_id, gpu.memory_bytes) == ("10de:2335", 150754820096)
        assert (gpu.pcie_gen_max, gpu.pcie_gen_max_device, gpu.pcie_width_max) == (5, 5, 16)
        assert (gpu.power_limit_watts, gpu.power_limit_min_watts) == (700.0, 200.0)
        assert (gpu.ecc_enabled, gpu.mig_enabled, gpu.persistence) == (True, False, True)
        assert (gpu.compute_mode, gpu.virtualization) == ("default", "passthrough")
        assert (gpu.cpu_affinity, gpu.memory_affinity) == ("0-63", (0,))
        assert gpu.clock_memory_max_mhz == 3201
        assert gpu.why("gpu_numa_id") == "Not Supported"
        assert gpu.why("temperature_shutdown_c") == "not asked"


def test_every_gpu_has_eighteen_links_of_the_raw_rate(part: PartialNode) -> None:
    for gpu in part.gpus:
        assert [link.link for link in gpu.nvlinks] == list(range(18))
        for link in gpu.nvlinks:
            assert (link.active, link.version, link.raw_gbs) == (True, "4.0", 26.562)
            assert (link.remote_kind, link.p2p_capable) == ("nvswitch", True)
            assert link.remote_address is None
            assert link.why("remote_address") == "the driver hides it"
    assert any("one value a GPU" in text for text in part.assumptions)


def test_the_fabric_is_completed(part: PartialNode) -> None:
    for gpu in part.gpus:
        assert gpu.fabric is not None
        assert (gpu.fabric.state, gpu.fabric.status) == ("completed", "Success")
        assert (gpu.fabric.clique_id, gpu.fabric.health_mask) == (0, 0)
        assert {word for _, word in gpu.fabric.health} == {"not supported"}


def test_every_ordered_pair_has_its_grants(part: PartialNode) -> None:
    wanted = {(a, b) for a in ADDRESSES for b in ADDRESSES if a != b}
    assert {(pair.src, pair.dst) for pair in part.pairs} == wanted
    for pair in part.pairs:
        assert pair.ancestor == "hostbridge"
        assert (pair.p2p_read, pair.p2p_write, pair.p2p_nvlink) == ("ok", "ok", "ok")
        assert (pair.p2p_atomics, pair.p2p_pci) == ("ok", "not supported")


def test_the_versions_are_read(part: PartialNode) -> None:
    assert part.software is not None
    assert part.software.nvidia_driver == "580.159.04"
    assert part.software.cuda_driver == "13.0"
    assert part.software.confidential_computing == "off"
    assert part.problems == ()


def test_the_figures_of_the_moment_are_read(part: PartialNode) -> None:
    first = part.gpu_readings[0]
    assert (first.address, first.lost) == (ADDRESSES[0], False)
    assert first.power_watts == pytest.approx(79.808)
    assert first.throttle_reasons == ("gpu idle",)
    assert (first.performance_state, first.pcie_gen, first.pcie_width) == (0, 5, 16)
    assert first.processes == ()
    assert len(first.nvlinks) == 18
    assert first.ecc is not None
    assert first.ecc.rows_remapped_corrected == 0
    assert first.ecc.unrepairable is False
    assert first.ecc.why("corrected_volatile") == "not asked"


@pytest.mark.parametrize(
    ("mask", "word"),
    [(0x00, "not supported"), (0x55, "true"), (0xAA, "false"), (0xFF, "unknown (3)")],
)
def test_two_bit_health_fields(mask: int, word: str) -> None:
    health = dict(nvml_words.fabric_health(mask))
    names = ("degraded bandwidth", "route recovery in progress", "route unhealthy")
    assert {health[name] for name in (*names, "access timeout recovery")} == {word}
    assert health["incorrect configuration"] == "not supported"


def test_the_other_health_fields() -> None:
    health = dict(nvml_words.fabric_health(0x55AA))
    assert health["incorrect configuration"] == "insufficient NVLinks"
    assert health["partition assigned"] == "yes"
    assert health["fabric manager state"] == "connected"
    assert dict(nvml_words.fabric_health(0xF00))["incorrect configuration"] == "unknown (15)"


def test_throttle_reasons_are_named_and_the_unknown_shown() -> None:
    assert nvml_words.throttle_reasons(0) == ()
    assert nvml_words.throttle_reasons(0x48) == ("hw slowdown", "hw thermal")
    assert nvml_words.throttle_reasons(0x204) == ("sw power cap", "unknown (0x200)")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:00:06.0", "0000:00:06.0"),
        ("0000:C1:00.0", "0000:c1:00.0"),
        ("00010000:01:00.1", "10000:01:00.1"),
        ("FFFFFFFF:FF:FF.0", None),
        ("FFFFFFF:FF:FF.0", None),
        ("", None),
        ("no address", None),
        (None, None),
    ],
)
def test_pci_addresses(text: str | None, address: str | None) -> None:
    assert pci_address(text) == address


def test_numbers_that_mean_unknown_become_gaps(raw: dict[str, Any]) -> None:
    device = raw["devices"][0]
    device["nvmlDeviceGetMaxPcieLinkWidth"] = 0xFFFFFFFF
    device["nvmlDeviceGetBoardPartNumber"] = "N/A"
    device["nvmlDeviceGetArchitecture"] = 77
    device["links"][0]["remote_type"] = 255
    device["links"][1]["state"] = 0
    device["links"][2]["fields"] = {"NVML_FI_DEV_NVLINK_GET_SPEED": {"value": 0xFFFFFFFF}}
    device["pairs"][1]["p2p"]["2"] = 6
    gpu = nvml_machine.parse(raw).gpus[0]
    assert (gpu.pcie_width_max, gpu.why("pcie_width_max")) == (None, "the driver says unknown")
    assert (gpu.board_part_number, gpu.architecture) == (None, "unknown (77)")
    assert gpu.nvlinks[0].remote_kind is None
    assert gpu.nvlinks[1].why("raw_gbs") == "the link is not active"
    assert gpu.nvlinks[2].why("raw_gbs") == "the driver says unknown"
    pair = nvml_machine.parse(raw).pairs[0]
    assert (pair.p2p_nvlink, pair.why("p2p_nvlink")) == (None, "the driver says unknown")


def test_a_refusal_keeps_its_reason(raw: dict[str, Any]) -> None:
    device = raw["devices"][0]
    device["nvmlDeviceGetSerial"] = {"error": "NVMLError_NoPermission: Insufficient Permissions"}
    device["nvmlDeviceGetModuleId"] = {"error": "AttributeError: no attribute"}
    device["fabric"] = {"error": "NVMLError_FunctionNotFound: Function Not Found"}
    device["links"] = [{"link": 0, "error": "NVMLError_NotSupported: Not Supported"}]
    gpu = nvml_machine.parse(raw).gpus[0]
    assert gpu.why("serial") == "no permission"
    assert gpu.why("module_id") == "the installed nvidia-ml-py does not know this function"
    assert gpu.why("fabric") == "the installed driver does not know this function"
    assert gpu.nvlinks == ()
    assert gpu.why("nvlinks") == "Not Supported, though others of its model have some"


def test_rates_come_from_two_readings() -> None:
    device = {
        "nvmlDeviceGetPciInfo": {"busId": "00000000:01:00.0"},
        "nvlink_counters": {"seconds": 2.0, "tx_kib": [1000, 3000], "rx_kib": [5000, 4000]},
        "pcie_counters": {
            "seconds": 0.02,
            "tx_bytes": [2**32 - 500, 1_259_500],
            "rx_bytes": [7, 7],
        },
    }
    reading = nvml_moving.parse({"devices": [device]}).gpu_readings[0]
    assert reading.nvlink_tx_bytes_per_second == 2000 * 1024 / 2
    assert reading.nvlink_rx_bytes_per_second is None
    assert "went back" in str(reading.why("nvlink_rx_bytes_per_second"))
    assert reading.pcie_tx_bytes_per_second == pytest.approx(1_260_000 / 0.02)
    assert reading.pcie_rx_bytes_per_second == 0


def test_pcie_counters_that_may_have_wrapped_twice_give_no_rate() -> None:
    device = {
        "nvmlDeviceGetPciInfo": {"busId": "00000000:01:00.0"},
        "pcie_counters": {"seconds": 1.0, "tx_bytes": [0, 5], "rx_bytes": [0, 5]},
    }
    reading = nvml_moving.parse({"devices": [device]}).gpu_readings[0]
    assert reading.pcie_tx_bytes_per_second is None
    assert "1000 ms apart" in str(reading.why("pcie_tx_bytes_per_second"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1, 2]",
        b'{"devices": 3}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"devices": [' + b"9" * 5000 + b"]}",
        RECORDING.read_bytes()[:50_000],
    ],
    ids=["empty", "open", "list", "no devices", "binary", "deep", "long number", "truncated"],
)
def test_bad_json_is_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        FORMAT.parse(data, RECORDING)
    assert str(caught.value)
    assert "\n" not in str(caught.value)


NAMES = sorted({key for device in json.loads(RECORDING.read_bytes())["devices"] for key in device})
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=20)
    | st.just("half a pair \ud800")
    | st.sampled_from(["00000000:01:00.0", 0xFFFFFFFF, 2**64 - 1])
)
KEYS = st.sampled_from(
    [*NAMES, "busId", "link", "state", "total", "peer", "p2p", "0", "index", "lost", "mig", "ret",
     "error", "value", "seconds", "tx_kib", "pcie_counters", "nvlink_counters", "pid", "retired0"]
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@given(
    st.lists(
        st.dictionaries(KEYS, VALUES, max_size=12).map(
            lambda d: {"nvmlDeviceGetPciInfo": {"busId": "00000000:01:00.0"}} | d
        ),
        max_size=3,
    ),
    VALUES,
)
def test_any_answer_gives_a_part(devices: list[Any], system: Any) -> None:
    raw = {"devices": devices, "system": system}
    # A part that cannot be written as JSON could not become a snapshot.
    assert msgspec.json.encode(nvml_machine.parse(raw))
    assert msgspec.json.encode(nvml_moving.parse(raw))


@given(VALUES)
def test_any_json_gives_a_part_or_a_format_error(value: Any) -> None:
    with contextlib.suppress(FormatError):
        assert isinstance(FORMAT.parse(json.dumps(value).encode(), RECORDING), PartialNode)
