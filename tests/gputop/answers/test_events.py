"""`gputop events`: two lines that answer, the timeline, and what could not be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from gputop.__main__ import run
from gputop.answers import events as asking
from gputop.answers.events import EventsRequest, answer_of, follow
from gputop.exits import Exit
from gputop.topology.model.kernel_event import KernelEvent, KernelSource
from gputop.topology.model.readings import CounterKind, DeviceCounters
from gputop.topology.model.severity import Severity
from gputop.topology.model.snapshot import NodeSnapshot
from tests.support.rule_cases import base

LOG = """\
[ 9181.200000] NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', GPU has fallen off the bus.
[ 9280.200000] mlx5_core 0000:3b:00.0: Port module event: module 0, Cable unplugged
[ 9380.200000] NVRM: Xid (PCI:0000:3b:00): 31, pid=6264, name=python3, Ch 00000008
"""


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run(["events", *arguments])
    return code, capsys.readouterr().out


def test_a_pasted_log_is_a_timeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dmesg.txt").write_text(LOG)
    code, text = printed(capsys, "--from", str(tmp_path / "dmesg.txt"))
    first, second, *rest = text.splitlines()
    assert code == 0
    assert first == "✗ 3 events: 1 broken, 2 notices."
    assert second.startswith("Worst: 0000:9b:00.0: the GPU no longer answers over PCIe")
    assert "Do: Drain the host" in " ".join([second, *rest])
    assert [line.split()[1] for line in rest if "after the start" in line] == [
        "9181.2",
        "9280.2",
        "9380.2",
    ]
    assert "Not read" not in text


def test_check_says_the_same_fault_of_the_same_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dmesg.txt").write_text(LOG)
    _, text = printed(capsys, "--from", str(tmp_path / "dmesg.txt"), "--json")
    events = json.loads(text)
    assert run(["check", "--quick", "--json", "--from", str(tmp_path / "dmesg.txt")]) == 2
    found = json.loads(capsys.readouterr().out)["findings"]
    worst = next(one for one in events["events"] if one["severity"] == "broken")
    (fault,) = (one for one in found if one["severity"] == "broken")
    assert worst["what"] in fault["title"]
    assert [step["text"] for step in worst["fix"]] == [step["text"] for step in fault["fix"]][
        : len(worst["fix"])
    ]


def test_only_a_while(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dmesg.txt").write_text(LOG)
    _, text = printed(capsys, "--from", str(tmp_path / "dmesg.txt"), "--since", "2m")
    assert text.splitlines()[0] == "• 2 events in 2 min: 2 notices."


@pytest.mark.parametrize("since", ["1x", "", "h", "-1h", "1h2m"])
def test_an_odd_time_is_refused(since: str) -> None:
    with pytest.raises(Exit, match="90s, 30m, 1h or 2d"):
        asking.answer(EventsRequest(given=base("demo hgx-h100-8"), since=since))


def live(**changed: object) -> NodeSnapshot:
    snapshot = base("demo hgx-h100-8")
    return msgspec.structs.replace(snapshot, source=("live",), **changed)


def test_where_nothing_is_readable_it_says_how() -> None:
    found = answer_of(live(), None)
    assert (found.worst, found.exit_code) == (Severity.CANNOT_TELL, 3)
    assert "sudo dmesg" in found.answer[1]


def test_counters_alone_are_an_answer() -> None:
    counters = (
        DeviceCounters(kind=CounterKind.NET, device="eth2", counts=(("carrier_down_count", 4),)),
    )
    snapshot = live()
    readings = msgspec.structs.replace(snapshot.readings, counters=counters)
    found = answer_of(msgspec.structs.replace(snapshot, readings=readings), None)
    assert found.answer == ("No event; 1 counter above 0, without a time.", "Nothing to do.")
    assert (found.worst, found.exit_code) == (None, 0)
    assert asking.ONLY_LISTENING in found.unread


def test_follow_says_each_new_event_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = live()
    xid = KernelEvent(
        kind=KernelSource.XID,
        code="79",
        device=quiet.machine.gpus[3].address,
        text="NVML: Xid 79",
    )
    later = live(kernel_events=(xid,), taken_at=quiet.taken_at + 5)
    moments: Iterator[NodeSnapshot] = iter([quiet, later, later])

    def read(*_: object) -> Callable[[], NodeSnapshot]:
        return lambda: next(moments)

    monkeypatch.setattr(asking, "snapshots_of", read)
    lines: list[str] = []
    assert follow(EventsRequest(follow=True), lambda _: None, lines.append, looks=3) == 0
    (line,) = lines
    assert "✗ broken: GPU3: +1 Xid 79: the GPU no longer answers over PCIe" in line
    begun = capsys.readouterr().out
    assert "Nothing that tells of events" in begun
    assert "who listens" not in begun


@pytest.mark.parametrize("other", [("--json",), ("--from", "x")])
def test_follow_goes_with_no_document(
    other: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(capsys, "--follow", *other)[0] == 64
