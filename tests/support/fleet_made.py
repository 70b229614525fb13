"""Fleets of made-up nodes: files as `gputop check -o` writes them, some of them sick."""

from __future__ import annotations

import copy
import gzip
import os
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from gputop import __version__
from gputop.answers.check import CheckRequest, answer
from gputop.topology.fleet.facts import digests_of

NOW = 1_700_000_000.0
"""The middle of the run; no test asks the real clock."""
RACK = 18
"""Nodes of four GPUs in a rack of 72."""
Document = dict[str, Any]
_FIGURES = (
    ("p2p write_bandwidth", "NV18", "GB/s", 390.0),
    ("p2p read_bandwidth", "NV18", "GB/s", 385.0),
    ("p2p both_ways_bandwidth", "NV18", "GB/s", 370.0),
    ("p2p latency", "NV18", "us", 1.4),
    ("host h2d_bandwidth", "GPU", "GB/s", 55.0),
    ("host d2h_bandwidth", "GPU", "GB/s", 54.0),
    ("memory memory_copy", "GPU", "GB/s", 2900.0),
    ("memory memory_read", "GPU", "GB/s", 3000.0),
    ("memory memory_triad", "GPU", "GB/s", 2950.0),
    ("gemm gemm bf16", "GPU", "TFLOP/s", 680.0),
    ("gemm gemm fp8", "GPU", "TFLOP/s", 1250.0),
    ("collectives all_reduce_busbw", "node", "GB/s", 470.0),
    ("collectives all_gather_busbw", "node", "GB/s", 350.0),
    ("collectives all_to_all_busbw", "node", "GB/s", 330.0),
)


@cache
def _template(demo: str) -> bytes:
    made = msgspec.to_builtins(answer(CheckRequest(demo=demo, quick=True, as_json=True)).document())
    made["elapsed_seconds"] = 12.3
    made["fleet"]["simulated"] = False
    return msgspec.json.encode(made)


def node(host: str, demo: str = "hgx-h100-8", *, at: float = NOW, noise: float = 0.01) -> Document:
    """The document of one healthy node; its figures are scattered by `noise`, as a share."""
    dice = random.Random(host)
    made: Document = msgspec.json.decode(_template(demo))
    fleet = made["fleet"]
    made["gputop"] = __version__
    made["node"] = fleet["host"] = host
    made["taken_at"] = at + dice.uniform(-60, 60)
    fleet["written_at"] = made["taken_at"] + dice.uniform(1, 20)
    fleet["machine"] = f"{dice.getrandbits(64):016x}"
    fleet["boot_id"] = f"{dice.getrandbits(64):016x}"
    fleet["job"] = "41"
    for key, kind, unit, value in _FIGURES:
        middle, low = value * dice.gauss(1, noise), abs(dice.gauss(0, noise))
        worst = middle * (1 + low if unit == "us" else 1 - low)
        band = {"healthy": value, "low": value * 0.85, "basis": "typical"}
        figure = {"key": key, "kind": kind, "unit": unit, "value": middle, "worst": worst}
        fleet["figures"].append({**figure, "at": "GPU1 to GPU2", "count": 8, **band})
    return made


def rack_node(host: str, *, at: float = NOW) -> Document:
    """A node of four GPUs of a rack of 72."""
    made = node(host, at=at)
    fleet = made["fleet"]
    fleet["product"] = fleet["facts"]["hardware"]["GPUs"] = "4 × NVIDIA GB200"
    return made


def slower(made: Document, key: str, share: float) -> Document:
    """The same node with a worst figure that is so much worse."""
    for figure in made["fleet"]["figures"]:
        if figure["key"] == key:
            figure["worst"] *= 1 + share if figure["unit"] == "us" else 1 - share
    return made


def other(made: Document, category: str, what: str, value: str) -> Document:
    """The same node with another fact."""
    made["fleet"]["facts"][category][what] = value
    return made


def calls_itself(made: Document, verdict: str, id_: str, title: str) -> Document:
    """The same node with a verdict and a finding."""
    made["verdict"] = verdict
    severity = "cannot-tell" if verdict == "cannot tell" else verdict
    row = copy.deepcopy(made["findings"][0]) if made["findings"] else {"devices": []}
    made["findings"].append({**row, "id": id_, "severity": severity, "title": title})
    return made


def _links_down(made: Document) -> Document:
    other(made, "wiring", "NVLinks up", "18 18 18 16 18 18 18 18")
    return calls_itself(made, "slow", "nvlink-down", "2 NVLinks of GPU3 are down")


def _gpu_lost(made: Document) -> Document:
    fleet = made["fleet"]
    count, _, name = fleet["product"].partition(" × ")
    fleet["product"] = fleet["facts"]["hardware"]["GPUs"] = f"{int(count) - 1} × {name}"
    return made


def _half(made: Document) -> bytes:
    return packed(made)[:700]


SICK: dict[str, Callable[[Document], Document | bytes | None]] = {
    "NVLinks down": _links_down,
    "a GPU lost": _gpu_lost,
    "an older driver": lambda made: other(made, "driver", "driver", "550.54.15"),
    "a lower power limit": lambda made: other(made, "settings", "power limit", "500 W"),
    "slow compute": lambda made: slower(made, "gemm gemm bf16", 0.15),
    "a slow pair": lambda made: slower(made, "p2p write_bandwidth", 0.3),
    "a NIC port down": lambda made: other(
        made, "wiring", "NIC ports", "ACTIVE, 400 Gb/sec (4X NDR); DOWN at port 3"
    ),
    "a hanging driver": lambda made: calls_itself(
        made, "cannot tell", "check-late", "the check did not end within 60 s"
    ),
    "a dead node": lambda made: None,
    "half a file": _half,
}
"""Ten ways to be sick; None: no file at all."""


def packed(made: Document) -> bytes:
    """A document as its file holds it."""
    made["fleet"]["digests"] = digests_of(made["fleet"]["facts"])
    return gzip.compress(msgspec.json.encode(made), 1, mtime=0)


def hosts(count: int) -> list[str]:
    """Names of nodes: a fifth of them in racks of 72 GPUs."""
    racks = count // 5
    named = [f"g{number}" for number in range(1, count - racks + 1)]
    return named + [f"r{n // RACK + 1:03}n{n % RACK + 1:02}" for n in range(racks)]


def write(folder: Path, count: int, sick_share: float = 0.01) -> dict[str, str]:
    """Write a fleet; host -> in which way it is sick, for the sick ones."""
    folder.mkdir(parents=True, exist_ok=True)
    names = hosts(count)
    dice = random.Random(count)
    chosen = dice.sample(names, max(len(SICK), round(count * sick_share)))
    sick = dict(zip(chosen, _round(tuple(SICK)), strict=False))
    for name in names:
        made = rack_node(name) if name[0] == "r" else node(name)
        written = made["fleet"]["written_at"]
        result = SICK[sick[name]](made) if name in sick else made
        if result is None:
            continue
        path = folder / f"{name}.json.gz"
        path.write_bytes(result if isinstance(result, bytes) else packed(result))
        os.utime(path, (written, written + 0.1))
    return sick


def _round(words: tuple[str, ...]) -> Iterator[str]:
    while True:
        yield from words
