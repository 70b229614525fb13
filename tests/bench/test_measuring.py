"""What a command costs is its own."""

from __future__ import annotations

from tests.harness.bench.measuring import of_command

HELD_BYTES = 100 << 20


def test_the_memory_of_who_measures_does_not_count() -> None:
    held = bytearray(b"x") * HELD_BYTES
    cost = of_command(("--version",))
    assert len(held) == HELD_BYTES
    assert cost.code == 0
    assert 0 < cost.mib < HELD_BYTES / 2**20
