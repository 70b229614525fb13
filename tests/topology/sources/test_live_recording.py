"""What gputop itself read on a machine with four H200: every field that NVML answers is there."""

from __future__ import annotations

import json
from typing import Any

from gputop.topology.model.machine import Gpu
from gputop.topology.model.readings import GpuReading
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.sources.nvidia.parse_machine import parse as parse_machine
from gputop.topology.sources.nvidia.parse_readings import parse as parse_readings
from gputop.topology.wiring.relations import format_matrix
from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "hgx-h200-4gpu-live"


def raw(name: str) -> Any:
    return json.loads((FOLDER / name).read_text())


def unknown(record: Gpu | GpuReading) -> set[str]:
    return {name for name in record.__struct_fields__ if getattr(record, name) is None}


AMD = {
    "compute_partition", "memory_partition", "package_parts", "xcd_count", "xgmi_hive", "kfd_node",
    "render_minor",
}  # fmt: skip
AMD_READINGS = {"xgmi_tx_bytes_per_second", "xgmi_rx_bytes_per_second"}


def test_what_stays_is_complete() -> None:
    part = parse_machine(raw("nvml.json"))
    assert len(part.gpus) == 4
    assert part.problems == ()
    assert part.assumptions == ()  # every link was asked for itself
    for gpu in part.gpus:
        # A whole GPU has no parent, and the merge gives places; NUMA nodes come from sysfs; GPU
        # memory is no NUMA node here, and no C2C joins it to the CPU.
        assert unknown(gpu) - AMD == {
            "partition", "parent", "numa_node", "gpu_numa_id", "c2c_gbs", "place"
        }  # fmt: skip
        assert gpu.why("gpu_numa_id") == "Not Supported"
        assert (gpu.temperature_slowdown_c, gpu.temperature_shutdown_c) == (89, 95)
        assert (gpu.temperature_gpu_max_c, gpu.temperature_memory_max_c) == (87, 95)
        assert [(link.active, link.raw_gbs, link.version) for link in gpu.nvlinks] == [
            (True, 26.562, "4.0")
        ] * 18
        # In this virtual machine the driver hides the far end, and then names link 0 for all.
        assert {link.remote_link for link in gpu.nvlinks} == {None}
        assert {link.remote_kind for link in gpu.nvlinks} == {"nvswitch"}
    assert len(part.pairs) == 12
    for pair in part.pairs:
        assert (pair.ancestor, pair.p2p_read, pair.p2p_write) == ("hostbridge", "ok", "ok")
        assert (pair.p2p_nvlink, pair.p2p_atomics, pair.p2p_pci) == ("ok", "ok", "not supported")


def test_what_moves_is_complete_from_the_second_reading_on() -> None:
    first, _, last = (parse_readings(answer).gpu_readings for answer in raw("nvml_readings.json"))
    for reading in first:
        assert reading.throttle_reasons in ((), ("gpu idle",))
        assert reading.temperature_memory_c is not None
    for reading in last:
        # The recording is older than the question for it.
        assert unknown(reading) == AMD_READINGS | {"recovery_action"}
        assert reading.why("recovery_action") == "not asked"
        assert [link.replay_errors for link in reading.nvlinks] == [0] * 18
        assert reading.ecc is not None
        assert reading.ecc.uncorrected_aggregate == 0
        assert reading.ecc.why("pages_retired_single") == "Not Supported"


def test_the_whole_snapshot_loads_and_makes_the_matrix() -> None:
    snapshot = load([str(FOLDER / "snapshot.json")]).snapshot
    assert snapshot.problems == ()
    host = snapshot.machine.host
    assert host is not None
    assert host.shm_bytes is not None
    assert host.cmdline_flags is not None
    assert (host.nvidia_module, host.why("memlock_bytes")) == ("open", "unlimited")
    assert {variable.name for variable in snapshot.environment} >= {"NCCL_NVLS_ENABLE"}
    text = format_matrix(Node(snapshot).matrix)
    assert text.splitlines()[1] == "GPU0\t X \tNV18\tNV18\tNV18\t0-63\t0\t\tN/A"
