"""How long a sample of host copies is."""

from __future__ import annotations

from gputop.probes.catalog.host.report import Level
from gputop.probes.protocol.sizing import MIB


def test_a_slow_link_gets_shorter_and_then_fewer_copies() -> None:
    level = Level(5, 16, 0.4, 0.0, 64 * MIB)
    assert level.plan(512 * MIB, 55e9) == (512 * MIB, 16)
    assert level.plan(512 * MIB, 12e9) == (256 * MIB, 16)
    assert level.plan(512 * MIB, 3e9) == (64 * MIB, 16)
    assert level.plan(512 * MIB, 0.2e9) == (64 * MIB, 4)
