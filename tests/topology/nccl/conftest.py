"""Predictions are the subject here: each is made as the product makes it."""

from __future__ import annotations

import pytest

from tests.shared_predictions import predictions_anew

__all__ = ("predictions_anew",)


@pytest.fixture(autouse=True)
def anew(predictions_anew: None) -> None:
    """Share no prediction with other tests."""
