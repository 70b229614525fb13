"""Files that say that they are plain and wait for news, such as /proc/kmsg, in every reader."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.topology.fleet.planning.folder import read_folder
from gputop.topology.fleet.reading import read_bytes
from gputop.topology.jobs.flight.files import named
from gputop.topology.model.waiting import read_now
from gputop.topology.recorded.load import LoadError, load
from gputop.topology.recorded.plain_file import read_plain
from gputop.topology.sources.files.tree import Unreadable, live_tree
from gputop.topology.sources.linux.configuration_files import read_file


@pytest.fixture(name="waiting", params=["host.json", "host.json.gz", "set-1-2.txt"])
def file_that_waits(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    path = tmp_path / request.param
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    monkeypatch.setattr(stat, "S_ISREG", lambda _: True)
    yield path
    os.close(writer)


def _raises(kind: type[Exception], read: Callable[[], object]) -> None:
    with pytest.raises(kind) as failed:
        read()
    assert str(failed.value)


def test_no_reader_waits_or_takes_nothing_for_text(waiting: Path) -> None:
    with os.fdopen(os.open(waiting, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        _raises(BlockingIOError, lambda: read_now(file, 9))
    _raises(ValueError, lambda: read_bytes(str(waiting.parent), waiting.name))
    _raises(BlockingIOError, lambda: read_plain(waiting, 99))
    _raises(LoadError, lambda: load([str(waiting)]))
    assert list(read_folder(waiting.parent).passed.values()) == [[waiting.name]]
    found = read_file(str(waiting))
    assert found is not None
    assert found.error
    assert isinstance(live_tree().text(str(waiting)), Unreadable)
    assert named([str(waiting)])[0] == ()
