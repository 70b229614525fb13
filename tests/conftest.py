"""Which tests run when nobody says."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what only `-m captures` should run; what is also marked `gate` stays."""
    if "captures" in (config.option.markexpr or ""):
        return
    left = [
        item
        for item in items
        if item.get_closest_marker("captures") and not item.get_closest_marker("gate")
    ]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
