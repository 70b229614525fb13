"""NUMA nodes, their CPUs, and work on them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from gputop.probes.devices import numa


def test_nodes_and_their_cpus(tmp_path: Path) -> None:
    here = sorted(os.sched_getaffinity(0))
    for node, cpus in ((0, f"{here[0]}"), (1, "4000-4003"), (10, f"{here[-1]},4000-4001"), (2, "")):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(cpus + "\n")
    assert numa.nodes(tmp_path) == {0: frozenset(here[:1]), 10: frozenset(here[-1:])}
    assert numa.cpu_list("0-3,8,10-11\n") == {0, 1, 2, 3, 8, 10, 11}
    for text, known in (("1", 1), ("-1", None)):
        (tmp_path / "0000:06:00.0").mkdir(exist_ok=True)
        (tmp_path / "0000:06:00.0" / "numa_node").write_text(text + "\n")
        assert numa.node_of("0000:06:00.0", tmp_path) == known
    assert numa.node_of(None, tmp_path) is None


def test_work_on_cpus_leaves_this_thread_alone() -> None:
    before = os.sched_getaffinity(0)
    one = {min(before)}
    threads = threading.active_count()
    assert numa.on_cpus(one, lambda: os.sched_getaffinity(0)) == one
    with pytest.raises(ZeroDivisionError):
        numa.on_cpus(one, lambda: 1 // 0)
    with pytest.raises(OSError, match="Invalid argument"):
        numa.on_cpus({4000}, lambda: 1)
    assert (os.sched_getaffinity(0), threading.active_count()) == (before, threads)
