"""Recordings for tests, made by the recorder's own encoder from readings of a demo."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from gputop.topology.model.readings import GpuReading, NvLinkReading
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.recorded.sessions.changes import SessionNote
from gputop.topology.recorded.sessions.encoder import SessionEncoder
from gputop.topology.recorded.sessions.frames import MAGIC

BEGUN = 1_790_000_000.0
"""When the first reading of each was taken."""


@cache
def demo_readings(count: int, name: str = "hgx-h100-8") -> tuple[NodeSnapshot, ...]:
    """So many readings of a demo, a second apart."""
    feed = DemoFeed(name)
    return tuple(
        msgspec.structs.replace(feed.at(tick), taken_at=BEGUN + tick) for tick in range(count)
    )


def frames_of(
    readings: Sequence[NodeSnapshot], notes: Mapping[int, tuple[SessionNote, ...]] | None = None
) -> list[bytes]:
    """The frame of each reading."""
    encoder = SessionEncoder()
    return [encoder.frame(one, (notes or {}).get(at, ())) for at, one in enumerate(readings)]


def write_recording(
    path: Path,
    readings: Sequence[NodeSnapshot],
    notes: Mapping[int, tuple[SessionNote, ...]] | None = None,
) -> Path:
    """A file of these readings."""
    path.write_bytes(MAGIC + b"".join(frames_of(readings, notes)))
    return path


def busy(snapshot: NodeSnapshot, at: float, chance: random.Random) -> NodeSnapshot:
    """A reading in which every figure of every GPU moves, as under a training step."""
    gpus = tuple(_busy(reading, chance) for reading in snapshot.readings.gpus)
    readings = msgspec.structs.replace(snapshot.readings, gpus=gpus)
    return msgspec.structs.replace(snapshot, taken_at=at, readings=readings)


def _busy(reading: GpuReading, chance: random.Random) -> GpuReading:
    return msgspec.structs.replace(
        reading,
        utilization_percent=float(chance.randint(90, 100)),
        memory_utilization_percent=float(chance.randint(30, 60)),
        power_watts=round(chance.gauss(620, 30), 3),
        temperature_c=chance.randint(55, 62),
        clock_sm_mhz=chance.choice((1980, 1965, 1950, 1755)),
        pcie_tx_bytes_per_second=float(chance.randint(10**6, 10**9)),
        pcie_rx_bytes_per_second=float(chance.randint(10**6, 10**9)),
        nvlink_tx_bytes_per_second=chance.uniform(1e10, 2e11),
        nvlink_rx_bytes_per_second=chance.uniform(1e10, 2e11),
        nvlinks=tuple(
            NvLinkReading(
                link=link,
                replay_errors=0,
                recovery_errors=0,
                crc_errors=0,
                tx_bytes=tx,
                rx_bytes=tx,
            )
            for link in range(18)
            for tx in (chance.randint(10**12, 10**13),)
        ),
    )
