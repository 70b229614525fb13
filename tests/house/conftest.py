"""What several tests of the house need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.copied_checkout import CopiedCheckout


@pytest.fixture(scope="session")
def shared_checkout(tmp_path_factory: pytest.TempPathFactory) -> CopiedCheckout:
    """A copy of the checkout, for `checkout` alone."""
    return CopiedCheckout(tmp_path_factory.mktemp("shared") / "checkout")


@pytest.fixture
def checkout(shared_checkout: CopiedCheckout) -> Iterator[CopiedCheckout]:
    """A copy of the checkout that the test may change; it is as before when the test is over."""
    yield shared_checkout
    shared_checkout.restore()
