"""Which tests run when nobody says, and the real bindings that some compare with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .support.amdsmi_wheels import NoWheel, Shelf


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


@pytest.fixture(scope="session")
def amdsmi_wheel(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Give the wheel of amdsmi of a version; skips where it cannot be had."""
    cache = getattr(request.config, "cache", None)  # not there with -p no:cacheprovider
    shelf = Shelf(cache.mkdir("amdsmi-wheels") if cache else tmp_path_factory.mktemp("wheels"))

    def wheel(version: str) -> Path:
        try:
            return shelf.wheel(version)
        except NoWheel as error:
            pytest.skip(str(error))

    return wheel
