"""Which tests run when nobody says, and the real bindings that some compare with."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.amdsmi.wheels import NoWheel, Shelf

os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch's threads burn the cores that tests share
# Tests start Python hundreds of times: no start compiles again what an earlier one compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Collecting makes millions of objects that stay: looking for garbage among them doubles its time.
gc.disable()

# A slow or busy machine fails no test.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

ASKED_FOR = ("captures", "timing")
"""Markers of tests that run only where `-m` names the marker."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what nobody asked for; what is also marked `gate` stays."""
    unasked = [name for name in ASKED_FOR if name not in (config.option.markexpr or "")]
    left = [
        item
        for item in items
        if any(map(item.get_closest_marker, unasked)) and not item.get_closest_marker("gate")
    ]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


def pytest_collection_finish() -> None:
    """Look for garbage again, and not among what was there before the tests."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Look for garbage once: pytest looks five times, and finds no more of it."""
    gc.collect()
    gc.freeze()


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
