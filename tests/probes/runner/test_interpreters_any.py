"""Programs that are called Python and answer anything, without end or not at all."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from gputop.measuring import busy, planning
from gputop.measuring.guard import Guard
from gputop.measuring.running import Suite
from gputop.probes.runner import interpreters
from gputop.probes.runner.interpreters import NoAnswer, ask, find_interpreter, inspect
from gputop.topology.model.machine import Gpu, Machine

A = "0000:01:00.0"
ONE = Machine(gpus=(Gpu(address=A, vendor="nvidia", index=0),))
ENDLESS = "exec sleep 60"


def program(folder: Path, what: str) -> str:
    """A program that first writes down its process id."""
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\necho $$ >'{folder}/pid'\n{what}\n")
    path.chmod(0o755)
    return str(path)


def wait_for(happens: Callable[[], bool], seconds: float = 60.0) -> bool:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        if happens():
            return True
        time.sleep(0.01)
    return False


def group_is_gone(folder: Path) -> bool:
    group = int((folder / "pid").read_text())
    return wait_for(lambda: not any(lives_in(process, group) for process in psutil.process_iter()))


def lives_in(process: psutil.Process, group: int) -> bool:
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.Error):
        return False


@pytest.mark.parametrize("said", ["[" * 60_000, "[1, 2]", "{}", "\x1b[31m", "", "NaN"])
def test_what_answers_nothing_sensible_is_no_python(said: str, tmp_path: Path) -> None:
    (tmp_path / "said").write_text(said)
    path = program(tmp_path, f"exec cat '{tmp_path}/said'")
    assert inspect(path, "a test").why_not == "is no Python that answers"


@pytest.mark.parametrize("what", ["exec yes", "yes & yes >&2 & yes"])
def test_what_writes_without_end_is_read_to_a_bound_and_killed(what: str, tmp_path: Path) -> None:
    began = time.monotonic()
    assert inspect(program(tmp_path, what), "a test").why_not == "is no Python that answers"
    assert time.monotonic() - began < 60
    assert group_is_gone(tmp_path)


def test_as_much_as_the_bound_is_read_and_not_a_byte_more(tmp_path: Path) -> None:
    path = program(tmp_path, "head -c 5000 /dev/zero")
    assert ask([path], 10.0, 5000) == b"\0" * 5000
    with pytest.raises(NoAnswer) as caught:
        ask([path], 10.0, 4999)
    assert caught.value.reason == "too much"


def test_an_answer_is_not_waited_for_while_another_holds_the_pipe(tmp_path: Path) -> None:
    began = time.monotonic()
    assert ask([program(tmp_path, "sleep 600 & echo here")], 10.0, 100) == b"here\n"
    assert time.monotonic() - began < 60
    assert group_is_gone(tmp_path)


def test_what_gives_no_answer_in_time_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreters, "_LOOK_SECONDS", 0.5)
    said = inspect(program(tmp_path, "sleep 60 & sleep 60"), "a test").why_not or ""
    assert said.startswith("gave no answer")
    assert group_is_gone(tmp_path)


def test_a_search_is_cancelled_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path, ENDLESS)
    never = tmp_path / "never"
    (tmp_path / "other").mkdir()
    other = program(tmp_path / "other", f"touch '{never}'")
    monkeypatch.setattr(interpreters, "candidates", lambda: [(path, "PATH"), (other, "PATH")])
    cancel = threading.Event()

    def stop() -> None:
        wait_for((tmp_path / "pid").exists)
        cancel.set()

    stopper = threading.Thread(target=stop)
    stopper.start()
    choice = find_interpreter(None, cancel)
    stopper.join()
    assert choice.chosen is None
    assert [looked.path for looked in choice.looked_at] == [path]
    assert group_is_gone(tmp_path)
    assert not never.exists()


def test_a_suite_that_searches_ends_on_cancel_though_the_driver_hangs(tmp_path: Path) -> None:
    path = program(tmp_path, ENDLESS)
    cancel, release = threading.Event(), threading.Event()

    def hang() -> busy.Read:
        release.wait(30)
        return list

    guard = Guard((A,), {}, cancel, hang)
    plan = planning.plan(("gemm",), ONE, python=path)
    suite = Suite(plan, lambda event: None, cancel, guard=guard)

    def stop() -> None:
        wait_for((tmp_path / "pid").exists)
        cancel.set()

    stopper = threading.Thread(target=stop)
    stopper.start()
    try:
        ran = suite.run()
    finally:
        release.set()
        stopper.join()
    assert [step.status for step in ran.steps] == ["cancelled"]
    assert group_is_gone(tmp_path)
