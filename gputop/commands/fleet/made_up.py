"""A made-up cluster: 32 nodes as `gputop check -o` would have written them, some of them odd."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from gputop.answers.check import CheckRequest, answer
from gputop.exits import INTERRUPTED
from gputop.terminal.writing import write_whole
from gputop.topology.fleet.facts import digests_of
from gputop.topology.model.characters import json_text

LEAVES = {f"leaf{leaf}": [f"g{8 * leaf + place}" for place in range(1, 9)] for leaf in range(4)}
HOSTS = tuple(host for hosts in LEAVES.values() for host in hosts)
ASKED = "g[1-34]"
"""The nodes that should be there: two wrote nothing."""
SICK, HEALTHY = "sick-h100-8", "hgx-h100-8"
LINKS_DOWN, OLD_DRIVER, SLOW_COMPUTE, LATE = "g9", "g5", "g7", "g12"
SLOW_RAIL = ("g11", 3)
"""A node, and its rail that gives half."""
_RAILS, _ROUNDS = 4, 6
_RAIL_GBS = 48.5
_SPREAD = 0.004
"""How much the figures of healthy nodes differ, as a share."""
Document = dict[str, Any]


def make_fleet(folder: Path) -> Path:
    """Write the files of a cluster into a new folder; returns the file of its leaf switches."""
    folder.mkdir()
    (folder / "net").mkdir()
    now = time.time()
    templates = {name: _document(name) for name in (HEALTHY, SICK)}
    for host in HOSTS:
        made = _node(host, templates[SICK if host == LINKS_DOWN else HEALTHY], now)
        path = folder / f"{host}.json"
        write_whole(path, json_text(made))
        os.utime(path, (made["fleet"]["written_at"],) * 2)
    for number, (first, second) in enumerate(_pairs()):
        name = f"{first}-{second}-{number}.json"
        write_whole(folder / "net" / name, json_text(_pair(first, second, number, now)))
    leaves = folder.parent / "topology.conf"
    lines = [f"SwitchName={leaf} Nodes={','.join(hosts)}" for leaf, hosts in LEAVES.items()]
    lines.append(f"SwitchName=spine Switches={','.join(LEAVES)}")
    write_whole(leaves, "\n".join(lines) + "\n")
    return leaves


def _document(demo: str) -> bytes:
    asked = CheckRequest(demo=demo, as_json=True, with_snapshot=True)
    found = answer(asked)
    if found.exit_code == INTERRUPTED:
        raise KeyboardInterrupt  # it ended what was measured, and is to end the command
    return json_text(found.document()).encode()


def _node(host: str, template: bytes, now: float) -> Document:
    """The document of one node: scattered as equal nodes are, and odd where it is to be."""
    dice = random.Random(host)
    made: Document = msgspec.json.decode(template)
    fleet = made["fleet"]
    made["node"] = fleet["host"] = host
    made["taken_at"] = now - dice.uniform(60, 90)
    fleet["written_at"] = made["taken_at"] + dice.uniform(1, 20)
    fleet["machine"], fleet["boot_id"] = (f"{dice.getrandbits(64):016x}" for _ in range(2))
    fleet["job"] = "41"
    share = dice.gauss(1, _SPREAD)
    for figure in fleet["figures"]:
        compute = figure["key"].startswith("gemm") and host == SLOW_COMPUTE
        figure["value"] *= share
        figure["worst"] *= share * (0.85 if compute else 1)
    if host == OLD_DRIVER:
        fleet["facts"]["driver"]["driver"] = "550.54.15"
        fleet["facts"]["settings"]["power limit"] = "500 W"
    if host == LATE:
        made["verdict"] = "cannot tell"
        row = {"devices": [], "id": "check-late", "severity": "cannot-tell"}
        made["findings"].append({**row, "title": "the check did not end in 60 s"})
    fleet["digests"] = digests_of(fleet["facts"])
    return made


def _pairs() -> Iterator[tuple[str, str]]:
    """Pairs across leaves, each node once a round."""
    half = len(HOSTS) // 2
    for number in range(_ROUNDS):
        for place in range(half):
            yield HOSTS[place], HOSTS[half + (place + 3 * number) % half]


def _pair(first: str, second: str, number: int, now: float) -> Document:
    """The result of one pair, as `gputop probe net` writes it."""
    dice = random.Random(number)
    return {
        "schema": "gputop.net/1",
        "hosts": [first, second],
        "status": "finished",
        "round": 1 + number // (len(HOSTS) // 2),
        "taken_at": now - 60 + number,
        "results": [
            {
                "what": "send_recv",
                "rail": rail,
                "from": one,
                "to": two,
                "bytes": 1 << 26,
                "gbs": dice.gauss(_RAIL_GBS, 0.4) * (0.5 if slow else 1),
            }
            for rail in range(_RAILS)
            for one, two in ((first, second), (second, first))
            for slow in (SLOW_RAIL in ((one, rail), (two, rail)),)
        ],
    }
