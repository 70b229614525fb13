"""Limits, words and defaults change on purpose only."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from gputop import measuring
from tests.support.whole import constants

UNHEARD = ("*",)


def test_what_is_decided_by(snapshot: SnapshotAssertion) -> None:
    assert constants(measuring, without=("KINDS",)) == snapshot
