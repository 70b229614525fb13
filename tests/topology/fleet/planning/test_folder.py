"""What lies in a folder: looks, plans, checks, and what cannot be used, with the reason."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.fleet.planning.folder import PLAN, read_folder
from gputop.topology.fleet.planning.looks import SCHEMA, look_from


def document(**fields: Any) -> dict[str, Any]:
    """A file of gputop probe net, with fields that the planning does not need."""
    flow = {
        "what": "send_recv", "rail": 0, "from": "g1", "to": "g2", "bytes": 1, "gbs": 48.5,
        "latency_us": 3.1, "transport": "IB", "gdr": True,
    }  # fmt: skip
    return {
        "schema": SCHEMA, "gputop": "0.1.0", "job": "7", "taken_at": 1.5, "hosts": ["g1", "g2"],
        "status": "finished", "why": None, "missing": [], "results": [flow], "round": 1,
        "predicted": {"transport": "IB"}, "log": {}, **fields,
    }  # fmt: skip


def put(folder: Path, name: str, content: object) -> None:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def test_sound_files_of_each_kind_are_read(tmp_path: Path) -> None:
    (tmp_path / "round-1").mkdir()
    put(tmp_path, "round-1/a.json.gz", document())
    put(tmp_path, "g9.json", {"schema": "gputop.check/1", "node": "g9", "verdict": "healthy"})
    pairs = [{"a": "g1", "b": "g2"}, {"a": "g3", "b": "g4"}]
    put(tmp_path, "plan-1.json", {"schema": PLAN, "round": 1, "hosts": "g[1-5]", "pairs": pairs})
    put(tmp_path, "other.json", {"schema": "gputop.snapshot/1"})
    put(tmp_path, "notes.md", b"text")
    read = read_folder(tmp_path)
    assert read.hosts == {"g1", "g2", "g3", "g4", "g5", "g9"}
    assert [look.hosts for look in read.looks] == [("g1", "g2"), ("g3", "g4")]
    assert [look.status for look in read.looks] == ["finished", "absent"]
    assert (read.unanswered, read.last_round, read.others) == ({1: 1}, 1, 1)
    assert read.passed == {}


def test_one_run_counts_once_and_the_finished_file_wins(tmp_path: Path) -> None:
    put(tmp_path, "g1.json", document(run="r", status="timed out", results=[]))
    put(tmp_path, "g2.json", document(run="r", hosts=["g2", "g1"]))
    put(tmp_path, "later.json", document(run="s"))
    read = read_folder(tmp_path)
    assert [look.finished for look in read.looks] == [True, True]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"schema": "gputop.net/1", "hosts": ["g1"', "half written"),
        (b"", "half written"),
        (b"[" * 100_000, "half written"),
        (b"\xff\xfe", "half written"),
        (document(hosts=["g1", "$(reboot)"]), "not a host name"),
        (document(hosts=["g1", "g1"]), "two or more different hosts"),
        (document(hosts="g1"), "no sound document"),
        (document(status="fine"), "is none of"),
        (document(results=[{"rail": 0, "gbs": -1.0}]), "not a number of GB/s"),
        (document(results=[{"rail": 900, "gbs": 1.0}]), "no sound document"),
        (document(results=[{"rail": 0, "from": "g7", "gbs": 1.0}]), "does not name"),
        (document(device_kind="cpu"), "self-test"),
        ({"schema": PLAN, "round": 1, "pairs": [{"a": "-x", "b": "g1"}]}, "names no hosts"),
        ({"schema": PLAN, "round": "one"}, "damaged"),
    ],
)
def test_what_cannot_be_used_is_named_and_the_rest_counts(
    tmp_path: Path, content: object, why: str
) -> None:
    put(tmp_path, "bad.json", content)
    put(tmp_path, "good.json", document())
    read = read_folder(tmp_path)
    assert len(read.looks) == 1
    ((said, names),) = read.passed.items()
    assert why in said
    assert names == ["bad.json"]


def test_pipes_links_and_broken_archives_are_no_results(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    os.symlink("/etc/passwd", tmp_path / "link.json")
    (tmp_path / "torn.json.gz").write_bytes(gzip.compress(b"x" * 999)[:20])
    read = read_folder(tmp_path)
    assert read.looks == []
    assert sorted(name for names in read.passed.values() for name in names) == [
        "link.json", "pipe.json", "torn.json.gz",
    ]  # fmt: skip


def test_sets_come_from_nccl_tests(tmp_path: Path) -> None:
    sets = [["g1", "g2", "g3"], ["g4", "g5", "g6"]]
    put(tmp_path, "plan-4.json", {"schema": PLAN, "round": 4, "sets": sets})
    put(
        tmp_path,
        "set-4-1.txt",
        b"#\n# Avg bus bandwidth    : 352.1\n",
    )
    put(tmp_path, "set-4-2.txt", b"srun: error: g5: task 1: Killed\n")
    put(tmp_path, "set-9-1.txt", b"# Avg bus bandwidth    : 1\n")
    read = read_folder(tmp_path)
    assert [(look.hosts[0], look.status) for look in read.looks] == [
        ("g1", "finished"), ("g4", "failed"),
    ]  # fmt: skip
    assert read.looks[0].results[0].gbs == 352.1
    assert "no plan" in next(iter(read.passed))


def test_wrong_data_counts_as_nothing_and_strangers_are_not_missed() -> None:
    flow = {"rail": 0, "gbs": 48.0, "verdict": "wrong-data"}
    look = look_from(json.dumps(document(results=[flow], missing=["node 1", "g2"])).encode())
    assert look.results[0].gbs == 0.0
    assert look.missing == ("g2",)


@pytest.mark.parametrize(
    "change",
    [{"round": 10**7}, {"round": -1}, {"pairs": [{"a": "g1", "b": "g1"}]}],
)
def test_a_plan_that_cannot_be_is_passed_over(tmp_path: Path, change: dict[str, Any]) -> None:
    put(
        tmp_path,
        "plan.json",
        {"schema": PLAN, "round": 1, "hosts": "g[1-2]", "pairs": [], **change},
    )
    found = read_folder(tmp_path)
    assert (found.plans, list(found.passed.values())) == ([], [["plan.json"]])
