"""Runs of the probe nccl with real processes on the CPU, and what they may leave behind."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

from gputop.probes.protocol.messages import MeasuredValue, Message, WorkerRequest
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.runner import leftovers
from tests.support.places import TESTS
from tests.support.probe_runs import run_probe

RANKS = TESTS / "probe_ranks"
MADE_TORCH = TESTS / "fakes" / "made_library"
GONE_SECONDS = 60.0
MARK = f"{os.getpid()}x"
"""Part of the names that ranks of this process give their files."""


def shared_files() -> list[str]:
    """Files in shared memory that ranks of these tests made; other runs have their own."""
    return [name for name, _ in leftovers.shared_files() if name.startswith(f"nccl-{MARK}")]


def private_folders() -> list[Path]:
    return list(Path(os.environ["TMPDIR"]).iterdir())


def request(
    count: int = 2,
    seconds: float = 60,
    changes: dict[str, str] | None = None,
    *,
    loopback: bool = False,
) -> WorkerRequest:
    params = {"device": "cpu", "count": count, "seconds": seconds, "loopback": loopback}
    return WorkerRequest("nccl", params={**params, "set": changes or {}})


def fake(**wish: Any) -> dict[str, str]:
    """Variables of a worker whose ranks do as told before they do their work."""
    return {"PYTHONPATH": str(RANKS), "FAKE_RANK": json.dumps(wish)}


def made_up(**wish: Any) -> dict[str, str]:
    """The same with a made-up torch, for what is about processes and not about a library."""
    return {**fake(**wish), "PYTHONPATH": f"{RANKS}{os.pathsep}{MADE_TORCH}"}


def run(
    asked: WorkerRequest,
    on_event: Callable[[Message], None] = lambda message: None,
    cancel: threading.Event | None = None,
    deadline_seconds: float = 90.0,
) -> Outcome:
    asked, worker = taken_apart(asked)
    with mock.patch.dict(os.environ, worker):
        outcome = run_probe(
            asked, sys.executable, on_event, deadline_seconds,
            cancel or threading.Event(), torch=True,
        )  # fmt: skip
    assert private_folders() == []
    assert shared_files() == []
    assert not rank_processes()
    return outcome


def taken_apart(asked: WorkerRequest) -> tuple[WorkerRequest, dict[str, str]]:
    """The request without what fake() and made_up() set, which belongs to its worker."""
    changes = dict(asked.params["set"])
    worker = {name: changes.pop(name) for name in ("PYTHONPATH", "FAKE_RANK") if name in changes}
    return dataclasses.replace(asked, params={**asked.params, "set": changes}), worker


def rank_processes() -> list[psutil.Process]:
    """Ranks below this process; the worker is not one of them."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.status() != psutil.STATUS_ZOMBIE and "gputop-rank" in process.name():
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def ready(count: int) -> bool:
    """Whether so many ranks hold their files in /dev/shm."""
    return len(list(Path(os.environ["TMPDIR"]).glob("gputop-probe-*/ready*"))) == count


def figures(outcome: Outcome, name: str) -> list[MeasuredValue]:
    return [m for m in outcome.latest() if m.name == name]


def on_event_once(listener: Callable[[Message], None]) -> Callable[[Message], None]:
    heard: list[Message] = []

    def hear(message: Message) -> None:
        if not heard:
            heard.append(message)
            listener(message)

    return hear


def above(rank: psutil.Process) -> list[psutil.Process]:
    """The probe's own process, its worker and the keeper."""
    return rank.parents()[:3]
