"""Nodes with NCCL alone: a worker for each, forked ranks, a made-up driver and library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gputop.probes.protocol.messages import Done, MeasuredValue, Note, WorkerRequest
from tests.device_kernels.made_up import Answered, MadeUpNode

GPUS = ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0")
SMALL = "memory_mib=3120"
"""So little memory that buffers are small."""


class Nodes:
    """Two made-up nodes that share a folder."""

    def __init__(self, folder: Path, nodes: list[MadeUpNode]) -> None:
        self.folder = folder
        self.nodes = nodes

    def ask(self, node: int, *words: str, gpus: int = 2, **params: Any) -> Answered:
        folder = self.folder / f"run{node}"
        folder.mkdir()
        made = self.nodes[node]
        asked = {
            "folder": str(folder), "library": f"{made.folder}/libnccl.so.2", "seconds": 500,
            "node": node, "nodes": 2, "host": f"g{node + 1}", "wait": 250.0,
            "meet": {"file": str(self.folder / "meet")}, **params,
        }  # fmt: skip
        told = (f"devices={gpus}", f"room={self.folder}", *words)
        return made.answers(WorkerRequest("net", GPUS[:gpus], asked), *told)

    def measure(self, *each: Callable[[], Answered]) -> list[Answered]:
        with ThreadPoolExecutor(len(each)) as pool:
            return [running.result() for running in [pool.submit(ask) for ask in each]]


@pytest.fixture
def nodes(
    tmp_path: Path, nvidia_node: MadeUpNode, libraries: Callable[..., str]
) -> Iterator[Nodes]:
    other = MadeUpNode(libraries("nvidia"), "nvidia")
    yield Nodes(tmp_path, [nvidia_node, other])
    other.close()


def figures(found: Answered) -> dict[tuple[str, Any, Any], MeasuredValue]:
    """By name, rail and sender."""
    measured = [m for m in found.said if isinstance(m, MeasuredValue)]
    return {(m.name, m.details["rail"], m.details["from"]): m for m in measured}


def test_two_nodes_measure_each_rail_and_all(nodes: Nodes) -> None:
    """The second node has a GPU more, which has nobody to talk to."""
    first, second = nodes.measure(lambda: nodes.ask(0, SMALL), lambda: nodes.ask(1, SMALL, gpus=3))
    found = figures(first)
    assert [type(each.said[-1]) for each in (first, second)] == [Done, Done], first.said[-1]
    assert found == figures(second), "any node can write the result"
    assert {m.verdict for key, m in found.items() if key[0] != "net_latency"} == {"verified"}
    ways = {(rail, src) for name, rail, src in found if name == "net_send_receive"}
    assert ways == {(rail, src) for rail in (0, 1, None) for src in ("g1", "g2")}
    assert {key[1] for key in found if key[0] == "net_all_reduce_busbw"} == {0, 1, None}
    assert {key[1] for key in found if key[0] == "net_all_to_all_busbw"} == {None}
    # The library moves 300 GB/s on each rail.
    rates = {rail: found["net_send_receive", rail, "g2"].value or 0.0 for rail in (0, None)}
    assert 250 < rates[0] < 310
    assert 1.8 * rates[0] < rates[None] < 2.2 * rates[0]
    reduced = found["net_all_reduce_busbw", None, None]
    assert reduced.details["ranks"] == 4
    assert 1.4 < (reduced.value or 0) / 300 < 1.6, "2(n-1)/n of four ranks"
    (met,) = (m for m in first.said if isinstance(m, Note) and m.topic == "met")
    assert (met.details["hosts"], met.details["gpus"]) == (["g1", "g2"], [2, 3])
    assert met.text == "GPUs differ (g1: 2, g2: 3), so 2 of each node are measured."


def test_a_node_that_gives_up_ends_the_others_run(nodes: Nodes) -> None:
    """The first is told in the other's words and need not wait for a deadline."""
    first, second = nodes.measure(
        lambda: nodes.ask(0, SMALL, gpus=1),
        lambda: nodes.ask(1, SMALL, "ncclCommInitRank=2;last_error=no route", gpus=1),
    )
    assert "ncclSystemError of ncclCommInitRank" in second.failure.text
    assert first.failure.error == "failed"
    assert "ncclSystemError" in first.failure.text or "left before" in first.failure.text


def test_a_node_without_memory_says_so_to_the_other(nodes: Nodes) -> None:
    first, second = nodes.measure(
        lambda: nodes.ask(0, SMALL, gpus=1), lambda: nodes.ask(1, "memory_mib=1000", gpus=1)
    )
    assert second.failure.error == first.failure.error == "refused"
    assert first.failure.text == f"g2: {second.failure.text}"


def test_wrong_data_is_found(nodes: Nodes) -> None:
    first, second = nodes.measure(
        lambda: nodes.ask(0, SMALL, gpus=1), lambda: nodes.ask(1, SMALL, "spoil=nccl@0", gpus=1)
    )
    verdicts = {key[0::2]: m.verdict for key, m in figures(first).items()}
    assert verdicts["net_send_receive", "g1"] == "wrong-data", "what the second node received"
    assert verdicts["net_send_receive", "g2"] == "verified"
    assert verdicts["net_all_reduce_busbw", None] == "wrong-data"
    assert figures(second).keys() == figures(first).keys()
