"""`amd-smi bad-pages`, `firmware` and the caches of `static`; CSV and text are refused in one line.

Made by hand in the forms of amdsmi_cli: ROCm/amdsmi amdsmi_commands.py (6.3) and
ROCm/rocm-systems projects/amdsmi/amdsmi_cli/subcommands (7.x), which print the same here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.model.machine import CacheKind, Gpu, GpuCache
from gputop.topology.model.readings import EccCounts
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.formats.amd.smi.metric import reading
from gputop.topology.recorded.load import LoadError, load
from gputop.topology.sources.amd.caches import caches_of
from tests.support.places import RECORDINGS

RECORDED = RECORDINGS / "amd-smi-mi300x-7"
NONE = "No bad pages found."


def page(address: int | str, status: str) -> dict[str, object]:
    return {"page_address": address, "page_size": 4096, "status": status}


BAD_PAGES = [
    {"gpu": 0, "retired": NONE, "pending": NONE, "un_res": NONE},
    {
        "gpu": 1,
        "retired": [page(4096, "RESERVED"), page("0x2000", "RESERVED")],
        "pending": page(12288, "PENDING"),
        "un_res": NONE,
    },
    {"gpu": 2, "retired": "N/A", "pending": "N/A", "un_res": "N/A"},
    {"gpu": 3, "retired": page(4096, "RESERVED")},
]
FIRMWARE = [
    {"gpu": 0, "fw_list": [
        {"fw_id": "CP_MEC1", "fw_version": "149"}, {"fw_id": "PM", "fw_version": "00.85.113.00"},
    ]},
    {"gpu": 1, "fw_list": "N/A"},
]  # fmt: skip
CACHES = [
    {"cache": 0, "cache_properties": ["DATA_CACHE", "SIMD_CACHE"],
     "cache_size": {"value": 32, "unit": "KB"}, "cache_level": 1, "max_num_cu_shared": 1,
     "num_cache_instance": 304},
    {"cache": 4, "cache_properties": ["DATA_CACHE", "SIMD_CACHE"],
     "cache_size": {"value": 262144, "unit": "KB"}, "cache_level": 3, "max_num_cu_shared": 304,
     "num_cache_instance": 1},
    {"cache": 3, "cache_properties": ["DATA_CACHE", "SIMD_CACHE"],
     "cache_size": {"value": 4096, "unit": "KB"}, "cache_level": 2, "max_num_cu_shared": 304,
     "num_cache_instance": 1},
]  # fmt: skip


def loaded(tmp_path: Path, *documents: Any, beside: str = "") -> NodeSnapshot:
    paths = [beside] if beside else []
    for number, document in enumerate(documents):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(document))
        paths.append(str(path))
    return load(paths).snapshot


def ecc_of(snapshot: NodeSnapshot, address: str) -> EccCounts:
    found = snapshot.readings.gpu(address)
    assert found is not None
    assert found.ecc is not None
    return found.ecc


def test_bad_pages_are_counted_and_silence_is_no_zero(tmp_path: Path) -> None:
    snapshot = loaded(tmp_path, BAD_PAGES)
    none, some, unread, part = (ecc_of(snapshot, f"topo:AMD{n}") for n in range(4))
    assert (none.pages_retired_double, none.retirement_pending) == (0, False)
    assert (some.pages_retired_double, some.retirement_pending) == (3, True)
    assert (unread.pages_retired_double, unread.retirement_pending) == (None, None)
    assert unread.why("pages_retired_double") == "amd-smi prints no pages"
    assert part.pages_retired_double is None
    assert "lists some kinds" in (part.why("pages_retired_double") or "")
    assert none.corrected_volatile is None


@pytest.mark.parametrize("first", [True, False])
def test_bad_pages_join_the_counters_of_metric(tmp_path: Path, first: bool) -> None:
    """In whichever order the files are given, each fills in what the other leaves out."""
    pages = loaded(tmp_path, BAD_PAGES).source[0]
    paths = [str(tmp_path / pages), str(RECORDED)]
    snapshot = load(paths if first else paths[::-1]).snapshot
    address = snapshot.machine.gpus[1].address
    assert address.startswith("0000:")
    ecc = ecc_of(snapshot, address)
    assert (ecc.pages_retired_double, ecc.retirement_pending) == (3, True)
    assert ecc.corrected_volatile is not None
    assert ecc.why("pages_retired_double") is None


def test_firmware_is_read_and_na_is_a_gap(tmp_path: Path) -> None:
    first, second = loaded(tmp_path, FIRMWARE).machine.gpus
    assert first.firmware == (("CP_MEC1", "149"), ("PM", "00.85.113.00"))
    assert (second.firmware, second.why("firmware")) == ((), "amd-smi prints N/A")


@pytest.mark.parametrize("wrapped", [True, False])
def test_caches_of_static(tmp_path: Path, wrapped: bool) -> None:
    entries = [{"gpu": 0, "bus": {"bdf": "0000:0C:00.0"}, "cache_info": CACHES}]
    (gpu,) = loaded(tmp_path, {"gpu_data": entries} if wrapped else entries).machine.gpus
    assert gpu.caches == (
        GpuCache(level=2, kind=CacheKind.DATA, size_bytes=4 * 1024**2, count=1),
        GpuCache(level=3, kind=CacheKind.DATA, size_bytes=256 * 1024**2, count=1),
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("gpu,gfx_activity,umc_activity,mm_activity\r\n0,0,0,N/A\r\n", "CSV of amd-smi, "),
        ("gpu,gpu_bdf,gpu_uuid,kfd_id\n0,0000:05:00.0,x,1\n", "CSV of amd-smi, "),
        ("WARNING: groups: video\ntimestamp,gpu,power_usage\n1,0,9\n", "CSV of amd-smi, "),
        ("gpu,fw_id,fw_version\n0,PM,1\n", "CSV of amd-smi, "),
        ("gpu,retired,pending,un_res\n0,No bad pages found.,x,y\n", "CSV of amd-smi, "),
        ("device,GPU ID,VBIOS version\ncard0,0x740c,113\n", "CSV of rocm-smi, "),
        ("GPU: 0\n    ASIC:\n        MARKET_NAME: x\n", "text of amd-smi, of which --from reads"),
        ("+----+\n| AMD-SMI 26.0.0+37d158ab  amdgpu version: 6.16.13 |\n", "text of amd-smi, "),
    ],
)
def test_what_is_not_read_is_refused_in_one_line(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "it"
    path.write_text(text)
    with pytest.raises(LoadError) as error:
        load([str(path)])
    said = str(error.value)
    assert said.startswith(f"{path}: {line}")
    assert said.endswith("print the same with --json")
    assert "\n" not in said


def test_a_csv_of_something_else_is_not_called_amds(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_text("gpu,price\nH100,1\n")
    with pytest.raises(LoadError, match="not a format that gputop knows"):
        load([str(path)])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    | st.sampled_from([NONE, "N/A", "0x10", "4096 KB", {"value": 4096, "unit": "KB"}]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(
            ["retired", "pending", "un_res", "page_address", "cache_size", "cache_level",
             "cache_properties", "num_cache_instance", "ecc", "value", "unit"]
        ),
        inner, max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip


@given(JSON, JSON, JSON)
def test_hostile_pages_and_caches_never_raise(retired: Any, pending: Any, listed: Any) -> None:
    entry = {"retired": retired, "pending": pending, "un_res": listed}
    ecc = reading(entry, "0000:0c:00.0").ecc
    assert ecc is not None
    assert ecc.pages_retired_double is None or ecc.pages_retired_double >= 0
    assert all(cache.level > 1 and cache.size_bytes > 0 for cache in caches_of(listed))
    assert Gpu(address="x", vendor="amd", caches=caches_of([listed])).caches is not None


def test_what_a_real_mi210_printed() -> None:
    """Static output in the test data of ROCm/device-metrics-exporter (pkg/testrunner)."""
    path = RECORDED.parent / "amd-public/mi210-static.json"
    (gpu,) = load([str(path)]).snapshot.machine.gpus
    assert gpu.caches == (GpuCache(level=2, kind=CacheKind.DATA, size_bytes=8 * 1024**2, count=1),)
    assert (gpu.name, gpu.compute_capability, gpu.core_count) == (
        "AMD Instinct MI210", "gfx90a", 104,
    )  # fmt: skip
    assert (gpu.memory_bus_bits, gpu.clock_memory_max_mhz, gpu.numa_node) == (4096, 1600, 1)
    assert (gpu.partition, gpu.why("partition")) == (None, None)
    assert (gpu.serial, gpu.why("serial")) == (None, "the board says 0")


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        # A real gfx950 in SPX, as amdsmi's own test of `static --cache` has it
        # (ROCm/rocm-systems): one L2 of 4 MiB for the 256 compute units of eight XCDs.
        ([(32, 1, 256), (64, 1, 112), (16, 1, 32), (4096, 2, 1), (229_376, 3, 1)],
         [(2, 4096, 1), (3, 229_376, 1)]),
        # A Radeon at 0000:03:00.0 in ROCm/amdsmi pull request 58.
        ([(32, 1, 96), (32, 1, 30), (4096, 2, 1), (65_536, 3, 1)],
         [(2, 4096, 1), (3, 65_536, 1)]),
    ],
)  # fmt: skip
def test_answers_of_the_binding_on_real_gpus(
    listed: list[tuple[int, int, int]], expected: list[tuple[int, int, int]]
) -> None:
    answer = [
        {"cache_properties": ["DATA_CACHE", "SIMD_CACHE"], "cache_size": size,
         "cache_level": level, "max_num_cu_shared": 1, "num_cache_instance": count}
        for size, level, count in listed
    ]  # fmt: skip
    found = caches_of({"cache": answer})
    assert [(cache.level, cache.size_bytes // 1024, cache.count) for cache in found] == expected
