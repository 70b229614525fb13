"""The result of a pair: its statuses, who is missing, which node writes it, and as text."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gputop.answers.figures import WIDTH
from gputop.answers.net import (
    Circumstances,
    Logged,
    NetAnswer,
    NetWay,
    Predicted,
    answer_of,
    code_of,
    page,
)
from gputop.commands.net.run import first_living, is_written, must_write
from gputop.printing.render import texts
from gputop.probes.protocol.messages import Hello, MeasuredValue, Note
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.protocol.status import DeviceKind, Status
from gputop.topology.model.characters import json_text


def text(found: NetAnswer) -> str:
    return "\n".join(texts(page(found).blocks, WIDTH))


GDR = NetWay(rail=0, transport="IB", gdr=True, labels=("NET/IB/0/GDRDMA",))
MET = Note(
    "met", "", {"run": "abc", "hosts": ["g1", "g9"], "gpus": [1, 1], "rails": 1, "left": [110, 100]}
)
ABSENT = Note("absent", "node 1 did not come", {"missing": [1], "hosts": {"0": "g1"}})
WHERE = Circumstances(host="g1", node=0, nodes=2, named=("g1", "g9"), job="4711", round=2)


def figure(
    name: str, what: str, value: float, src: str | None = None, **more: Any
) -> MeasuredValue:
    ends = {"from": src, "to": {"g1": "g9", "g9": "g1", None: None}[src]}
    details = {"what": what, "rail": None, **ends, "ranks": 2}
    return MeasuredValue(
        name, "", "", "net/1", "gpu", "NCCL", what, value=value, details=details,
        bytes_per_copy=64 << 20, variant=f"{what} {src}", **more,
    )  # fmt: skip


FIGURES = (
    figure("net_send_receive", "send_recv", 48.5, "g1", verdict="verified"),
    figure("net_send_receive", "send_recv", 12.25, "g9", verdict="verified"),
    figure("net_latency", "send_recv", 9.1, "g1"),
    figure("net_all_reduce_busbw", "all_reduce", 47.0, verdict="verified"),
    figure("net_all_to_all_busbw", "all_to_all", 23.0, verdict="verified"),
)
HELLO = Hello("net", "net/1", "3.11", DeviceKind.GPU, (), driver="580.1", nccl="2.28.9")


def made(
    status: str = "finished", message: str = "", notes: tuple[Note, ...] = (MET,),
    figures: tuple[MeasuredValue, ...] = FIGURES, where: Circumstances = WHERE,
    way: NetWay | None = None,
) -> NetAnswer:  # fmt: skip
    outcome = Outcome(Status(status), message, 20.0, HELLO, figures, notes)
    known = Predicted(library="nccl-2.28.9", rails=(GDR,))
    ways = (NetWay(rail=None, transport="IB", gdr=True) if way is None else way,)
    return answer_of(outcome, where, known, Logged(version="2.28.9", ways=ways))


def test_a_pair_that_finished() -> None:
    """The shape that other parts read; `from` and `to` are words of Python."""
    found = json.loads(json_text(made()))
    assert found["schema"] == "gputop.net/1"
    named = ("job", "round", "run", "hosts", "status", "why", "missing")
    assert [found[name] for name in named] == ["4711", 2, "abc", ["g1", "g9"], "finished", None, []]
    one = found["results"][0]
    assert {"what": "send_recv", "rail": None, "from": "g1", "to": "g9"}.items() <= one.items()
    assert (one["gbs"], one["bytes"], one["latency_us"]) == (48.5, 64 << 20, 9.1)
    assert (one["transport"], one["gdr"], one["agrees"]) == ("IB", True, True)
    assert [r["what"] for r in found["results"]] == [
        "send_recv", "send_recv", "all_reduce", "all_to_all",
    ]  # fmt: skip
    assert found["results"][1]["latency_us"] is None
    assert found["predicted"]["rails"][0]["labels"] == ["NET/IB/0/GDRDMA"]


def test_exit_codes() -> None:
    wrong = (figure("net_send_receive", "send_recv", 48.5, "g1", verdict="wrong-data"),)
    assert [made().exit_code, made(figures=wrong).exit_code, made("died").exit_code] == [0, 2, 3]
    assert code_of(made("cancelled"), Outcome(Status.CANCELLED, "", 1.0)) == 130


@pytest.mark.parametrize(
    ("status", "said"),
    [("timed-out", "timed out"), ("died", "failed"), ("refused", "failed"), ("no-torch", "failed")],
)
def test_what_ended_early_keeps_its_figures(status: str, said: str) -> None:
    found = made(status, "No end after 114 s.", figures=FIGURES[:1])
    assert (found.status, found.why, len(found.results)) == (said, "On g1: No end after 114 s.", 1)


@pytest.mark.parametrize(
    ("named", "hosts"),
    [
        (("g1", "g9"), ("g1", "g9")),
        (("g1.cluster", "g9.cluster"), ("g1", "g9.cluster")),
        ((), ("g1", "node 1")),
        (("g7", "g8", "g9"), ("g1", "node 1")),
    ],
)
def test_who_never_came_is_named_where_it_is_known(
    named: tuple[str, ...], hosts: tuple[str, ...]
) -> None:
    where = Circumstances(host="g1", node=0, nodes=2, named=named)
    found = made("refused", "node 1 did not come within 57 s.", (ABSENT,), (), where)
    assert (found.status, found.hosts, found.missing) == ("absent", hosts, hosts[1:])
    assert found.why == f"{hosts[1]} did not come within 57 s."
    assert found.exit_code == 3


def test_the_table() -> None:
    lines = text(made()).splitlines()
    assert lines[0] == "g1 <-> g9, 1 rail, NCCL 2.28.9: finished"
    assert lines[2].split() == ["all", "rails", "48.5", "12.2", "9.1", "47.0", "23.0", "IB", "GDR"]
    slow = NetWay(rail=None, transport="Socket", gdr=False)
    assert "Socket no GDR (predicted IB GDR)" in text(made(way=slow))
    assert max(map(len, text(made(way=slow)).splitlines())) <= 80


def test_what_a_host_calls_itself_is_text() -> None:
    evil = Note("met", "", {**MET.details, "hosts": ["\x1b[31mg1", "[bold]g9"]})
    assert "\x1b" not in text(made(notes=(evil,)))


def never(seconds: float) -> None:
    """Nobody has to wait."""
    raise AssertionError(seconds)


@pytest.mark.parametrize(
    ("node", "absent", "writes"), [(0, (), True), (1, (0,), True), (2, (0, 1), True)]
)
def test_the_first_that_lives_writes_at_once(
    node: int, absent: tuple[int, ...], writes: bool, tmp_path: Path
) -> None:
    found = made("refused", notes=(ABSENT,), figures=())
    assert must_write(found, node, absent, (), tmp_path.joinpath, sleep=never) is writes
    assert first_living(found, node, absent) == node


def test_the_second_waits_for_the_first_that_may_end_later(tmp_path: Path) -> None:
    """The first had ten seconds more; an earlier run's file is not this one's."""
    path = tmp_path / "g1"
    path.write_text('{"run": "older"}')
    slept: list[float] = []
    found = made("timed-out", "No end.")
    assert must_write(found, 1, (), (110.0, 100.0), tmp_path.joinpath, sleep=slept.append)
    assert sum(slept) == pytest.approx(20.0, abs=0.3)

    def write(seconds: float) -> None:
        path.write_text(json_text(found))

    assert not must_write(found, 1, (), (110.0, 100.0), tmp_path.joinpath, sleep=write)
    assert not must_write(made(), 1, (), (), tmp_path.joinpath, sleep=never)


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"[" * 9000, b'{"run": 3}'])
def test_rubbish_is_no_result(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "g1.json"
    path.write_bytes(content)
    assert not is_written(path, "abc")
    assert not is_written(path, None)
    packed = tmp_path / "g1.json.gz"
    packed.write_bytes(gzip.compress(content)[:-1])
    assert not is_written(packed, "abc")
    packed.write_bytes(gzip.compress(b'{"run": "abc"}'))
    assert is_written(packed, "abc")
    assert not is_written(tmp_path, "abc")
