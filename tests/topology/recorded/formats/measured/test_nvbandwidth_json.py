"""JSON of nvbandwidth says what its text says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.load import LoadError, load

TEXT = """nvbandwidth Version: v0.8
Driver Version: 570.133.20

node-a
Device 0: NVIDIA H100 80GB HBM3 (00000000:1b:00)
Device 1: NVIDIA H100 80GB HBM3 (00000000:43:00)

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     55.63     24.70

Running device_to_device_bidirectional_memcpy_read_ce.
memcpy CE GPU(row) <-> GPU(column) Read1 bandwidth (GB/s)
           0         1
 0       N/A    391.10
 1    391.20       N/A

memcpy CE GPU(row) <-> GPU(column) Read2 bandwidth (GB/s)
           0         1
 0       N/A    390.90
 1    390.80       N/A

memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)
           0         1
 0       N/A    782.00
 1    782.00       N/A

Running host_device_latency_sm.
memory latency SM CPU(row) <-> GPU(column) (ns)
           0         1
 0    772.58    772.66

Running device_to_device_memcpy_read_ce.
 Invalid value when checking the pattern at 0x735f80000000
 Current offset : 200064
"""
WRONG = "Invalid value when checking the pattern at 0x735f80000000:  Current offset : 200064"


def test(name: str, title: str, *rows: list[str]) -> dict[str, Any]:
    return {"name": name, "status": "Passed", "bandwidth_description": title,
            "bandwidth_matrix": list(rows), "sum": 1}  # fmt: skip


test.__test__ = False  # type: ignore[attr-defined]


def said() -> dict[str, Any]:
    both = "memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)"
    rates = ("391.1", "391.2"), ("390.9", "390.8"), ("782", "782")
    rows = [row for there, back in rates for row in (["N/A", there], [back, "N/A"])]
    return {
        "CUDA Runtime Version": 12080,
        "Driver Version": "570.133.20",
        "GPU Device list": [
            f"{n}: NVIDIA H100 80GB HBM3 (00000000:{bus}:00): (node-a)"
            for n, bus in enumerate(("1b", "43"))
        ],
        "error": WRONG,
        "testcases": [
            test("host_to_device_memcpy_ce",
                 "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", ["55.63", "24.7"]),
            test("device_to_device_bidirectional_memcpy_read_ce", both, *rows),
            test("host_device_latency_sm",
                 "memory latency SM CPU(row) <-> GPU(column) (ns)", ["772.58", "772.66"]),
            {"name": "device_to_device_memcpy_read_ce", "status": "Running"},
        ],
    }  # fmt: skip


def read(folder: Path, text: str) -> NodeSnapshot:
    (folder / "paste.txt").write_text(text)
    return load([str(folder / "paste.txt")]).snapshot


@pytest.mark.parametrize("around", ["{}", "$ nvbandwidth -j\n{}\n\nand then it hung\n"])
def test_it_says_what_the_text_says(around: str, tmp_path: Path) -> None:
    shown = json.dumps({"nvbandwidth": said()}, indent="\t", separators=(",", " : "))
    of_json = read(tmp_path, around.replace("{}", shown.replace('" : {', '" : \n\t{')))
    of_text = read(tmp_path, TEXT)
    assert of_json.measurements == of_text.measurements
    assert of_json.machine == of_text.machine


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"testcases": []}, "no test in it that can be compared"),
        ({"testcases": [test("a_name", "bandwidth (GB/s)", ["1"], [])]}, "different numbers of"),
        ({"testcases": [test("a_name", "bandwidth (GB/s)", ["1"] * 999)]}, "no test in it"),
        ({"testcases": 7, "GPU Device list": {"0": 1}, "Driver Version": None}, "no test in it"),
    ],
)
def test_what_is_none_of_it_is_refused(changed: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=why):
        read(tmp_path, json.dumps({"nvbandwidth": {**said(), "error": "", **changed}}, indent=1))


def test_a_cut_document_is_refused_in_one_line(tmp_path: Path) -> None:
    text = json.dumps({"nvbandwidth": said()}, indent=1)
    for end in range(20, len(text), 97):
        with pytest.raises(LoadError) as refused:
            read(tmp_path, text[:end])
        assert "\n" not in str(refused.value)
