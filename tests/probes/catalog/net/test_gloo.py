"""Nodes of the self-test: real workers and ranks, with gloo over loopback or a made-up one."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gputop.probes.protocol.messages import WorkerRequest
from gputop.probes.protocol.outcome import Outcome
from tests.support.nccl.rank_runs import MADE_TORCH
from tests.support.probe_runs import run_probe


class GlooNodes:
    """Two nodes that meet in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def ask(self, node: int, **params: Any) -> Outcome:
        asked = {
            "seconds": 60, "selftest": True, "count": 1, "node": node, "nodes": 2,
            "host": f"g{node + 1}", "wait": 30.0, "meet": {"file": str(self.folder / "meet")},
            **params,
        }  # fmt: skip
        request = WorkerRequest("net", (), asked)
        return run_probe(
            request, sys.executable, lambda message: None, 90.0, threading.Event(), torch=True
        )


@pytest.fixture
def gloo_nodes(tmp_path: Path) -> GlooNodes:
    return GlooNodes(tmp_path)


@pytest.fixture
def made_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that import a made-up torch, for what is not about gloo."""
    monkeypatch.setenv("PYTHONPATH", str(MADE_TORCH))


def rates(said: Outcome) -> dict[tuple[str, Any], str | None]:
    return {(m.name, m.details["from"]): m.verdict for m in said.measurements}


def test_they_meet_by_a_file_in_spite_of_what_lies_there(gloo_nodes: GlooNodes) -> None:
    """Rubbish, and the files of an earlier run, are no node."""
    (gloo_nodes.folder / "meet.0").write_text('{"run": "[[[", "go": 7')
    old = '{"hello": "{\\"host\\": \\"gone\\", \\"token\\": \\"old\\"}", "joined": "0123"}'
    (gloo_nodes.folder / "meet.1").write_text(old)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(gloo_nodes.ask, (0, 1))
    assert [first.status, second.status] == ["finished", "finished"], first.message
    expected: dict[tuple[str, Any], str | None] = {
        ("net_all_reduce_busbw", None): "verified",
        ("net_all_to_all_busbw", None): "verified",
    }
    for host in ("g1", "g2"):
        expected |= {("net_send_receive", host): "verified", ("net_latency", host): None}
    assert rates(first) == rates(second) == expected
    assert all(m.value for m in first.measurements)


@pytest.mark.usefixtures("made_torch")
def test_one_that_never_comes_is_named(gloo_nodes: GlooNodes) -> None:
    outcome = gloo_nodes.ask(0, wait=0.2)
    assert outcome.message == "node 1 did not come within 0 s."
    (absent,) = (note for note in outcome.notes if note.topic == "absent")
    assert absent.details == {"missing": [1], "hosts": {"0": "g1"}}
