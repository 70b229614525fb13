"""Limits, words and defaults change on purpose only."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from gputop import checking
from tests.support.whole import constants

UNHEARD = ("*",)


def test_what_is_decided_by(snapshot: SnapshotAssertion) -> None:
    assert constants(checking) == snapshot
