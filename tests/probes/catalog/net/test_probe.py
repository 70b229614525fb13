"""ib_write_bw: its command line, its table, and what is said where it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.probes.catalog.net import probe
from gputop.probes.catalog.net.plan import VERBS, tasks

TABLE = """
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      1350000          0.00               392.40             0.748443
---------------------------------------------------------------------------------------
"""


@pytest.fixture
def perftest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in its place, which a test writes."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(probe, "_PAUSE_SECONDS", 0.0)
    path = tmp_path / probe.PROGRAM
    path.touch(0o755)
    return path


def test_the_average_is_in_bytes() -> None:
    assert probe.average_gbs(TABLE) == pytest.approx(49.05)
    assert probe.average_gbs("Couldn't connect to g2:18515") is None
    assert probe.average_gbs("1 2 3 0.0 5") is None


def test_both_sides_take_the_port_of_the_rail() -> None:
    serving = probe.command_of("mlx5_3", 3)
    assert serving[:5] == ["ib_write_bw", "-d", "mlx5_3", "-p", "18518"]
    assert probe.command_of("mlx5_3", 3, "g2") == [*serving, "g2"]


def test_a_client_waits_for_its_server(perftest: Path) -> None:
    """The server takes a moment until it listens."""
    seen = perftest.with_name("seen")
    perftest.write_text(
        f'#!/bin/sh\nif [ ! -e {seen} ]; then touch {seen}; echo "Couldn\'t connect to g2"; '
        f"exit 1; fi\ncat <<'T'\n{TABLE}\nT\n"
    )
    assert probe.written("mlx5_0", 0, "g2") == {"gbs": pytest.approx(49.05)}


def test_what_it_says_is_the_reason(perftest: Path) -> None:
    perftest.write_text("#!/bin/sh\necho ' IB device mlx5_9 not found'\nexit 1\n")
    assert probe.written("mlx5_9", 0, "g2") == {"why": "IB device mlx5_9 not found"}


def test_what_is_lacking(perftest: Path) -> None:
    assert probe.lack("mlx5_0") == ""
    assert probe.lack("") == "no RDMA device is known for this rail"
    perftest.unlink()
    assert probe.lack("mlx5_0") == "ib_write_bw is not installed"


def test_it_runs_only_where_somebody_asks() -> None:
    assert not any(task.kind == VERBS for task in tasks(2, 8))
    asked = [task for task in tasks(2, 2, verbs=True) if task.kind == VERBS]
    assert [(t.rail, t.src, t.dst) for t in asked] == [(0, 0, 1), (0, 1, 0), (1, 0, 1), (1, 1, 0)]


def test_rails_come_first_and_a_single_one_is_all() -> None:
    rails = list(dict.fromkeys(task.rail for task in tasks(2, 3)))
    assert rails == [0, 1, 2, None]
    assert {task.rail for task in tasks(2, 1)} == {None}
    names = [task.what for task in tasks(3, 4, verbs=True)]
    assert len(set(names)) == len(names), "by which nodes tell tasks apart"
