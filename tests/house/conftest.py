"""What several tests of the house need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.copied_checkout import CopiedCheckout


@pytest.fixture
def checkout(tmp_path: Path) -> CopiedCheckout:
    """A copy of the checkout that the test may change."""
    return CopiedCheckout(tmp_path / "checkout")
