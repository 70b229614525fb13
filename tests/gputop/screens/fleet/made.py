"""Made-up folders of nodes and of pairs, and the app on them, without a thread that watches."""

from __future__ import annotations

import json
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from gputop.fleet_app import FleetApp, FleetReady
from gputop.live.fleet_watch import FleetWatch
from gputop.topology.fleet.planning.fabric import SwitchFabric, fabric_of
from tests.support.app import settle
from tests.support.fleet_made import Document, calls_itself, node, other, packed, slower

LEAVES = {f"leaf{leaf}": [f"g{8 * leaf + place}" for place in range(1, 9)] for leaf in range(4)}
HOSTS = tuple(host for hosts in LEAVES.values() for host in hosts)
ASKED = (*HOSTS, "g33", "g34")
SICK_RAIL = ("g11", 3)
"""A node, and its rail that gives half."""


def fabric() -> SwitchFabric:
    """Four leaves of eight nodes below one spine."""
    return fabric_of("topology.conf", LEAVES, {"spine": tuple(LEAVES)})


def put(folder: Path, made: Document, name: str | None = None) -> None:
    """Write the file of a node as `gputop check -o` does."""
    path = folder / f"{name or made['node']}.json.gz"
    path.write_bytes(packed(made))
    at = made["fleet"]["written_at"]
    os.utime(path, (at, at + 0.1))


def nodes(folder: Path) -> None:
    """32 nodes: four are odd, slow or undecided, two more never wrote."""
    for host in HOSTS:
        made = node(host)
        match host:
            case "g5":
                other(made, "driver", "driver", "550.54.15")
                other(made, "settings", "power limit", "500 W")
            case "g7":
                slower(made, "gemm gemm bf16", 0.15)
            case "g9":
                calls_itself(made, "slow", "nvlink-down", "2 NVLinks of GPU3 are down")
            case "g12":
                calls_itself(made, "cannot tell", "check-late", "the check did not end in 60 s")
        put(folder, made)


def pairs(folder: Path, rounds: int = 6) -> None:
    """Looks at pairs across leaves, of four rails; one rail of one node gives half."""
    (folder / "net").mkdir()
    dice = random.Random(7)
    for number in range(rounds):
        for place in range(len(HOSTS) // 2):
            first = HOSTS[place]
            second = HOSTS[len(HOSTS) // 2 + (place + 3 * number) % (len(HOSTS) // 2)]
            pair(folder, first, second, number + 1, dice)


def pair(folder: Path, first: str, second: str, number: int, dice: random.Random) -> None:
    """Write the result of one pair."""
    flows = [
        {
            "what": "send_recv",
            "rail": rail,
            "from": one,
            "to": two,
            "bytes": 1 << 26,
            "gbs": dice.gauss(48.5, 0.4) * (0.5 if SICK_RAIL in ((one, rail), (two, rail)) else 1),
        }
        for rail in range(4)
        for one, two in ((first, second), (second, first))
    ]
    document = {
        "schema": "gputop.net/1",
        "hosts": [first, second],
        "status": "finished",
        "round": number,
        "taken_at": 1_700_000_000.0 + number,
        "results": flows,
    }
    name = f"{first}-{second}-{number}.json"
    (folder / "net" / name).write_text(json.dumps(document), "utf-8")


@asynccontextmanager
async def shown(
    folder: Path, size: tuple[int, int] = (160, 50), *, links: bool = False
) -> AsyncIterator[tuple[Pilot[Any], FleetWatch]]:
    """The app on a folder; `look_again` reads it again."""
    watch = FleetWatch(str(folder), ASKED, fabric() if links else None)
    watch.look()
    async with FleetApp(watch).run_test(size=size) as pilot:
        await settle(pilot)
        yield pilot, watch


async def look_again(pilot: Pilot[Any], watch: FleetWatch) -> None:
    """What the thread does when its pause is over."""
    watch.look()
    pilot.app.post_message(FleetReady(watch.state))
    await settle(pilot)
