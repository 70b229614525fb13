"""Records of NCCL's Inspector as a job would have written them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

START_US = 1_795_651_729_000_000


def record(rank: int, number: int, microseconds: float, **other: Any) -> dict[str, Any]:
    """One line as a document: an all-reduce of 64 MiB of two ranks, one every 50 ms."""
    ranks = other.get("ranks", 2)
    size = other.get("size", 64 << 20)
    bus = size * 2 * (ranks - 1) / ranks / (microseconds or 1.0) / 1e3
    return {
        "header": {
            "id": other.get("communicator", "0x9f64"),
            "rank": rank,
            "n_ranks": ranks,
            "nnodes": 1,
        },
        "metadata": {
            "inspector_output_format_version": other.get("version", "v4.0"),
            "dump_timestamp_us": START_US + 50_000 * number,
            "hostname": "vm",
            "pid": other.get("first_pid", 700) + rank,
        },
        "coll_perf": {
            "coll": other.get("name", "AllReduce"),
            "coll_sn": number,
            "coll_msg_size_bytes": size,
            "coll_exec_time_us": microseconds,
            "coll_timing_source": other.get("timing", "kernel_gpu"),
            "coll_busbw_gbs": other.get("bus", bus),
            **_trace(rank, number, microseconds, other.get("ahead")),
        },
    }


def _trace(
    rank: int, number: int, microseconds: float, ahead: Callable[[int, int], int] | None
) -> dict[str, Any]:
    """The event trace; `ahead`: by rank and number, microseconds from the call to the kernel."""
    if ahead is None:
        return {}
    begun = START_US + 50_000 * number - 1000 - round(microseconds)
    kernels = [{"channel_id": at, "kernel_start_ts": begun + at} for at in range(2)]
    called = begun - ahead(rank, number)
    return {"event_trace_ts": {"coll_start_ts": called, "kernel_events": kernels}}


def lines(took: Callable[[int, int], float], count: int = 20, **other: Any) -> dict[int, bytes]:
    """The file of each rank; `took`: microseconds by rank and number."""
    ranks = range(other.get("ranks", 2))
    return {
        rank: b"".join(
            json.dumps(record(rank, number, took(rank, number), **other)).encode() + b"\n"
            for number in range(count)
        )
        for rank in ranks
    }
