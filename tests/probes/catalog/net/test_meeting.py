"""Nodes that meet: files beside a name, a store, what earlier runs left, who never comes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gputop.probes.catalog.net.meeting import AbsentError, Met, meet
from gputop.probes.catalog.net.notices import FileNotices, Notices, StoreNotices
from gputop.probes.catalog.net.probe import SILENCE_SECONDS, Lookout
from gputop.probes.protocol.spec import ProbeStopped


class Stored:
    """A TCPStore without a network."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.gone = False

    def set(self, key: str, text: str) -> None:
        self.kept[key] = text.encode()

    def check(self, keys: list[str]) -> bool:
        if self.gone:
            raise RuntimeError("Connection reset by peer")
        return all(key in self.kept for key in keys)

    def get(self, key: str) -> bytes:
        return self.kept[key]


Make = Callable[[int], Notices]


@pytest.fixture(params=["files", "store"])
def notices(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """The notices of a node, in files or in a store."""
    store = Stored()
    if request.param == "files":
        return lambda node: FileNotices(str(tmp_path / "meet"), node)
    return lambda node: StoreNotices(store, "gputop/1/0", node)


def all_meet(make: Make, nodes: int) -> list[Met]:
    with ThreadPoolExecutor(nodes) as pool:
        running = [
            pool.submit(meet, make(node), node, nodes, {"host": f"g{node}"}, 30.0)
            for node in range(nodes)
        ]
        return [one.result() for one in running]


@pytest.mark.parametrize("nodes", [2, 3])
def test_all_know_all(notices: Make, nodes: int) -> None:
    first, *others = all_meet(notices, nodes)
    assert all(met == first for met in others)
    assert [hello["host"] for hello in first.hellos] == [f"g{node}" for node in range(nodes)]


def test_an_earlier_run_is_not_taken_for_this_one(notices: Make) -> None:
    before = all_meet(notices, 2)[0]
    assert all_meet(notices, 2)[0].run != before.run


@pytest.mark.parametrize("lives", [0, 1])
def test_who_lived_in_an_earlier_run_is_absent_in_this_one(notices: Make, lives: int) -> None:
    all_meet(notices, 2)
    with pytest.raises(AbsentError) as stop:
        meet(notices(lives), lives, 2, {"host": "g"}, 0.05)
    assert stop.value.missing == (1 - lives,)


def test_of_three_the_two_that_live_name_the_third(notices: Make) -> None:
    with ThreadPoolExecutor(2) as pool:
        running = [
            pool.submit(meet, notices(node), node, 3, {"host": f"g{node}"}, 0.6) for node in (0, 1)
        ]
        stops = [one.exception() for one in running]
    assert [getattr(stop, "missing", None) for stop in stops] == [(2,), (2,)]
    hosts = [{n: h["host"] for n, h in getattr(stop, "hellos", {}).items()} for stop in stops]
    assert hosts == [{0: "g0", 1: "g1"}, {0: "g0", 1: "g1"}]


RUBBISH = (
    b"", b"\x00\xff", b"[]", b"7", b'{"hello": 3}', b'{"hello": "{}", "run": "[1]"}', b"[" * 5000,
    json.dumps({"run": json.dumps({"run": "x", "hellos": [1, 2]}), "go": "x"}).encode(),
    json.dumps({"run": json.dumps({"run": "x", "hellos": "no"}), "go": "x"}).encode(),
)  # fmt: skip


@pytest.mark.parametrize("rubbish", RUBBISH, ids=range(len(RUBBISH)))
def test_rubbish_is_nobody(tmp_path: Path, rubbish: bytes) -> None:
    (tmp_path / "meet.0").write_bytes(rubbish)
    with pytest.raises(AbsentError) as stop:
        meet(FileNotices(str(tmp_path / "meet"), 1), 1, 2, {"host": "g"}, 0.0)
    assert stop.value.missing == (0,)


def test_what_is_no_file_of_ours_is_not_read(tmp_path: Path) -> None:
    mine = FileNotices(str(tmp_path / "meet"), 0)
    mine.put("hello", "x")
    secret = tmp_path / "other"
    secret.write_text('{"hello": "y"}')
    (tmp_path / "meet.1").symlink_to(secret)
    os.mkfifo(tmp_path / "meet.2")
    (tmp_path / "meet.3").mkdir()
    assert [mine.read(node, "hello") for node in range(5)] == ["x", None, None, None, None]
    assert (tmp_path / "meet.0").stat().st_mode & 0o777 == 0o600
    assert [mine.has_left(node) for node in (1, 4)] == [False, True]


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "meet.0").mkdir()
    with pytest.raises(ProbeStopped, match=r"The nodes cannot meet: .* cannot be written: Is a"):
        FileNotices(str(tmp_path / "meet"), 0).put("hello", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["meet.0"]


def test_a_store_that_is_gone_has_nothing() -> None:
    store = Stored()
    here = StoreNotices(store, "p", 0)
    here.put("hello", "x")
    assert (here.read(0, "hello"), here.read(1, "hello"), here.has_left(1)) == ("x", None, False)
    store.gone = True
    assert (here.read(0, "hello"), here.has_left(1)) == (None, True)


@pytest.fixture
def watched(tmp_path: Path) -> tuple[Lookout, FileNotices]:
    """A watch of node 0, and the notices of node 1."""
    path, met = str(tmp_path / "meet"), Met("run", ({}, {}))
    own, other = FileNotices(path, 0), FileNotices(path, 1)
    own.put("hello", "")
    other.put("run/beat", "1")
    heard: list[Any] = []
    return Lookout(own, met, 0, ("g1", "g2"), heard.append), other


def test_a_node_that_gives_up_is_quoted(watched: tuple[Lookout, FileNotices]) -> None:
    watch, other = watched
    assert watch.lost(0.0) == ""
    other.put("run/failed", "no route")
    assert watch.lost(0.5) == "g2: no route"


def test_a_node_without_a_sign_of_life_is_dead(watched: tuple[Lookout, FileNotices]) -> None:
    watch, other = watched
    assert [watch.lost(second) for second in (0.0, SILENCE_SECONDS)] == ["", ""]
    other.put("run/beat", "2")
    assert watch.lost(SILENCE_SECONDS + 1) == ""
    assert watch.lost(2 * SILENCE_SECONDS + 2) == "g2 gave no sign of life for 30 s."


def test_a_node_that_took_its_files_back_has_left(
    watched: tuple[Lookout, FileNotices], tmp_path: Path
) -> None:
    watch, _ = watched
    (tmp_path / "meet.1").unlink()
    said = [watch.lost(float(second)) for second in range(5)]
    assert said == ["", "", "", "", "g2 left before the end."], "not at once: a disk may be late"
