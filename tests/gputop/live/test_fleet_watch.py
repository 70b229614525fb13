"""The thread that watches a folder: what it tells, and what costs it nothing."""

from __future__ import annotations

import threading
from pathlib import Path

from gputop.live.fleet_watch import FleetState, FleetWatch
from tests.gputop.screens.fleet.made import put
from tests.support.fleet_made import node


def test_a_folder_in_which_nothing_happens_tells_nothing(tmp_path: Path) -> None:
    put(tmp_path, node("g1"))
    told: list[FleetState] = []
    watch = FleetWatch(str(tmp_path))
    watch.listen(told.append)
    assert watch.look()
    fleet = watch.state.fleet
    assert not watch.look()
    assert watch.state.fleet is fleet
    # How many files are read comes first, then the fleet, once.
    assert [(state.fleet is None, state.total) for state in told] == [(True, 1), (False, 0)]


def test_only_what_came_is_read(tmp_path: Path) -> None:
    for number in (1, 2):
        put(tmp_path, node(f"g{number}"))
    watch = FleetWatch(str(tmp_path))
    watch.look()
    before = watch.state.fleet
    put(tmp_path, node("g3"))
    assert watch.look()
    after = watch.state.fleet
    assert before is not None
    assert after is not None
    assert after.nodes.keys() == {"g1", "g2", "g3"}
    assert after.nodes["g1"] is before.nodes["g1"]


def test_a_folder_that_is_gone_is_told_once(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    watch = FleetWatch(str(folder))
    assert watch.look()
    assert watch.state.trouble == "the folder cannot be read: No such file or directory"
    assert watch.state.fleet is None
    assert not watch.look()


def test_the_thread_tells_whoever_listens(tmp_path: Path) -> None:
    put(tmp_path, node("g1"))
    watch = FleetWatch(str(tmp_path))
    came = threading.Event()
    watch.listen(lambda state: came.set() if state.fleet is not None else None)
    watch.start()
    assert came.wait(60)
    watch.close()
