"""Which tests run when nobody says, and the real bindings that some compare with."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytest_textual_snapshot
import textual.app
import textual.pilot
from _pytest.pathlib import import_path
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from textual.css.stylesheet import Stylesheet
from textual.screen import Screen

from gputop import app
from tests import idle, shared_demos, shared_predictions, workers
from tests.idle import draw_later, wait_for_idle
from tests.shared_styles import parse_once
from tests.support.added import without_what_is_added
from tests.support.amdsmi.wheels import NoWheel, Shelf
from tests.support.places import TESTS

os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch's threads burn the cores that tests share
# Tests start Python hundreds of times: no start compiles again what an earlier one compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Collecting makes millions of objects that stay: looking for garbage among them doubles its time.
gc.disable()

# A slow or busy machine fails no test.
settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=30
)
settings.register_profile("thorough", settings.get_profile("untimed"), max_examples=1000)
settings.load_profile("untimed")

# Both import it by name: whatever drives an app waits for what the app does, not for the clock.
for driving in (textual.app, textual.pilot):
    assert hasattr(driving, "wait_for_idle")
    vars(driving)["wait_for_idle"] = wait_for_idle
Screen._compositor_refresh = draw_later  # type: ignore[assignment, method-assign]
assert hasattr(Stylesheet, "_parse_rules")
Stylesheet._parse_rules = parse_once  # type: ignore[method-assign]

shared_predictions.share()
shared_demos.share()

# Apps tidy up where a test asks for it: by the clock the slowest machine would collect most often.
assert {"FIRST_SECONDS", "LEAST_SECONDS"} <= vars(app).keys()
vars(app).update(FIRST_SECONDS=3600.0, LEAST_SECONDS=3600.0)

# `nohup` and a shell's `&` ignore these for every process below, and the product keeps it so: a
# test that sends one would wait for an end that never comes.
if threading.current_thread() is threading.main_thread():
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            heeded = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if heeded else signal.SIG_DFL)

# A picture is compared without what changes with each screen and each rule that somebody adds.
assert hasattr(pytest_textual_snapshot, "normalize_svg")
pytest_textual_snapshot.normalize_svg = without_what_is_added(pytest_textual_snapshot.normalize_svg)

ASKED_FOR = ("captures", "grid", "timing")
"""Markers of tests that run only where `-m` names the marker."""


def pytest_configure(config: pytest.Config) -> None:
    """Make values up without the constants of our own sources, unless a profile is asked for.

    Each process would read all sources for them: 3 s of CPU in a fresh checkout.
    """
    if not config.getoption("--hypothesis-profile", None):
        assert hasattr(providers, "_get_local_constants")
        vars(providers)["_get_local_constants"] = lambda: providers._local_constants


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let a worker send at once, and only what somebody reads."""
    if not hasattr(session.config, "workerinput"):
        return  # the environment tells so of all that a worker starts too
    workers.ask_at_once(session.config)
    if session.config.option.verbose <= 0 and session.config.option.durations is None:
        workers.send_less(session.config)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Begin at another file in each of several processes, so that each compiles other files.

    In the order of pytest all of them would compile every file at the same time, which doubles what
    collecting costs.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes == 1 or collector.path != TESTS:
        return
    root = collector.config.rootpath
    asked = [root / name.split("::")[0] for name in collector.config.args]
    files = sorted(path for place in asked for path in place.rglob("test_*.py"))
    first = len(files) * int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) // processes
    for path in files[first:] + files[:first]:
        # What cannot be imported is reported where it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            import_path(path, mode="importlib", root=root, consider_namespace_packages=False)


@pytest.hookimpl(trylast=True)  # what keeps snapshots has to see that those of the rest have tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what nobody asked for; what is also marked `gate` stays."""
    unasked = [name for name in ASKED_FOR if name not in (config.option.markexpr or "")]
    left: list[pytest.Item] = []
    kept: list[pytest.Item] = []
    for item in items:
        out = any(map(item.get_closest_marker, unasked)) and not item.get_closest_marker("gate")
        (left if out else kept).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def pytest_collection_finish() -> None:
    """Look for garbage again, and not among what was there before the tests."""
    gc.freeze()
    gc.enable()
    # The app freezes too, once: from app to app that would keep whatever the last ones left.
    vars(gc)["freeze"] = lambda: None
    # Memory is at hand: looking ten times as seldom takes a tenth off what the tests cost.
    gc.set_threshold(200_000, 10, 10)
    vars(gc)["set_threshold"] = lambda *_: None


@pytest.hookimpl(trylast=True)  # what keeps snapshots makes its report in this hook
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Look for no garbage, and let no worker write a summary that nobody reads.

    pytest looks five times, for warnings that fail nothing; that costs a process up to 3 s. The
    report of unused snapshots compares each with every test, 5 s, and of workers it is discarded.
    """
    gc.freeze()
    if hasattr(session.config, "workerinput"):
        assert hasattr(session.config, "_syrupy")
        session.config._syrupy.report = SimpleNamespace(lines=())


@pytest.fixture
def every_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw every picture of an app without a terminal."""
    monkeypatch.setattr(idle, "SELDOM", 1)


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
