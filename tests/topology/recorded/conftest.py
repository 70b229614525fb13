"""Demos are a subject here: each is parsed as the product parses it."""

from __future__ import annotations

import pytest

from tests.shared_demos import demos_anew

__all__ = ("demos_anew",)


@pytest.fixture(autouse=True)
def anew(demos_anew: None) -> None:
    """Share no demo with other tests."""
