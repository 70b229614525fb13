"""What a check decides at its borders: names, times, sizes, what is missing."""

from __future__ import annotations

import gzip
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import psutil
import pytest

from gputop.checking import deadline, file, policy, redacting
from gputop.checking import measure as measuring
from gputop.checking.file import _other_machine, apart, origin, packed, target, write
from gputop.checking.measure import AGAIN_SECONDS, Measured, ProbePlan, _over_by, measure_node
from gputop.checking.node import _patience, examined, reference
from gputop.checking.runs import OUT_OF_TIME, _not_measured, _predicted, run_rules
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.reading import SETTLE_SECONDS
from gputop.topology.diagnosis.case import Case
from gputop.topology.fleet.section import NodeOrigin
from gputop.topology.model.record import Gap
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node
from tests.support.checked import saved
from tests.support.rule_cases import base
from tests.support.runs import run_of

UNHEARD = ("*",)
LIVE = base("hgx-h200-4gpu-live")
ADDRESSES = tuple(gpu.address for gpu in LIVE.machine.gpus)
NOW = 1_000_000.0
OTHER = b'{"fleet": {"boot_id": "another"}}'


@pytest.fixture
def at_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setattr(time, "clock_gettime", lambda _: 10 * file.SAME_RUN_SECONDS)


def put(path: Path, ago: float = 5.0, content: bytes = OTHER) -> Path:
    path.write_bytes(content)
    os.utime(path, (NOW - ago, NOW - ago))
    return path


@pytest.mark.parametrize(
    ("ago", "up", "most", "others"),
    [
        (file.SAME_RUN_SECONDS, 9e4, 99, True),
        (file.SAME_RUN_SECONDS + 1, 9e4, 99, False),
        (50.0, 51.0, 99, True),
        (50.0, 50.0, 99, False),
        (50.0, 51.0, len(OTHER), True),
        (50.0, 51.0, len(OTHER) - 1, False),
    ],
)
@pytest.mark.usefixtures("at_now")
def test_a_file_is_of_another_machine_within_limits(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ago: float,
    up: float,
    most: int,
    others: bool,
) -> None:
    monkeypatch.setattr(file, "_MOST_BYTES", most)
    path = put(tmp_path / "g.json", ago)
    assert _other_machine(path, "mine", NOW - up) is others


@pytest.mark.usefixtures("at_now")
def test_nine_files_lie_beside_each_other(tmp_path: Path) -> None:
    path = put(tmp_path / "g.json")
    for number in range(2, 10):
        assert apart(path, "mine").name == f"g~{number}.json"
        put(tmp_path / f"g~{number}.json")
    assert apart(path, "mine") == path
    of = NodeOrigin(host="g")
    assert target(f"{tmp_path}/g.json", of, "mine") == path
    (tmp_path / "g~3.json").unlink()
    assert target(f"{tmp_path}/g.json", of, "mine") == path
    assert target(f"{tmp_path}/%n.json", of, "mine").name == "g~3.json"


def test_equal_answers_are_equal_files_that_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(file, "write_whole", lambda *given, **how: kept.append((given, how)))
    path = tmp_path / "new" / "g.json.gz"
    write(path, "{}")
    answers, is_dir = [False], Path.is_dir  # another process makes the folder in between
    monkeypatch.setattr(Path, "is_dir", lambda self: answers.pop() if answers else is_dir(self))
    write(path, "{}")
    (((place, data), how), again) = kept
    assert again == ((place, data), how)
    assert (place, how, data[4:8]) == (path, {"shared": True, "durable": True}, bytes(4))
    assert gzip.decompress(data) == b"{}"


def test_why_nothing_is_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(Exit, match="not written: embedded null"):
        write(tmp_path / "a\0b.json", "{}")


def test_a_packed_document_is_one_line() -> None:
    assert packed({"a": [1]}, Path("x.json.gz")) == '{"a":[1]}\n'
    assert packed({"a": [1]}, Path("x.json")) == '{\n  "a": [\n    1\n  ]\n}\n'


@pytest.mark.parametrize(("text", "rank"), [("999999999", 999999999), ("1000000000", None)])
def test_a_rank_has_nine_digits_at_most(text: str, rank: int | None) -> None:
    assert origin({"SLURM_PROCID": text}, "g").rank == rank


@pytest.mark.parametrize(
    ("left", "seconds"), [(8.0, 4.0), (0.3, 0.2), (-5.0, 0.2), (900.0, SETTLE_SECONDS)]
)
def test_half_of_the_time_is_for_reading(
    monkeypatch: pytest.MonkeyPatch, left: float, seconds: float
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    assert _patience(100.0 + left) == seconds
    assert _patience(None) == SETTLE_SECONDS


def test_gpus_are_chosen_among_those_that_are_there(tmp_path: Path) -> None:
    path = saved(LIVE, tmp_path / "a.json")
    assert examined((path,), None, None).gpus == ()
    assert examined((path,), None, None, gpus="1,0").gpus == (ADDRESSES[1], ADDRESSES[0])
    empty = saved(NodeSnapshot(taken_at=0.0), tmp_path / "b.json")
    for name, code in ((path, USAGE), (empty, CANNOT_TELL)):
        with pytest.raises(Exit) as refused:
            examined((name,), None, None, gpus="77")
        assert refused.value.exit_code == code


def test_two_files_of_which_one_is_nothing_are_refused_in_words(tmp_path: Path) -> None:
    path = saved(LIVE, tmp_path / "a.json")
    broken = tmp_path / "b.json"
    broken.write_text('{"schema": "gputop.snapshot/1", "taken_at": [')
    with pytest.raises(Exit):
        examined((path, str(broken)), None, None)


@pytest.mark.parametrize(
    ("name", "words"), [("dgx-h10", "did you mean dgx-h100"), ("x" * 5000, "--expect: ")]
)
def test_an_unknown_reference_is_wrong_usage(name: str, words: str) -> None:
    with pytest.raises(Exit, match=words) as refused:
        reference(name)
    assert refused.value.exit_code == USAGE


def test_what_is_read_after_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    ran = Measured(runs=(run_of("host"),))
    found = [Measured(), ran, ran, ran]
    monkeypatch.setattr(measuring, "hidden_note", lambda one: "hidden")
    monkeypatch.setattr(measuring, "warn", said.append)
    monkeypatch.setattr(measuring, "measure", lambda *given: found.pop(0))
    monkeypatch.setattr(measuring, "after", lambda one, seconds: (one, ((str(seconds), "x"),)))
    asked = ((), ProbePlan()), ((), ProbePlan()), (ADDRESSES, ProbePlan(until=9.0))
    gone = [measure_node(LIVE, gpus, how, said.append)[1].gone for gpus, how in asked]
    assert gone == [(), ((str(SETTLE_SECONDS), "x"),), ((str(AGAIN_SECONDS), "x"),)]
    assert said == ["hidden", "hidden", measuring.AGAIN, measuring.AGAIN]


def test_gaps_of_the_quiet_reading_stay_with_its_fields() -> None:
    reading = LIVE.readings.gpus[0]
    quiet, other = measuring._WHILE_IDLE[0], "ecc"

    def with_gaps(why: str) -> Any:
        gaps = tuple(Gap(field=name, why=why) for name in (quiet, other))
        return msgspec.structs.replace(reading, gaps=gaps)

    found = measuring._calm(with_gaps("now"), with_gaps("before"))
    assert [(gap.field, gap.why) for gap in found.gaps] == [(other, "now"), (quiet, "before")]
    assert measuring._calm(reading, None) is reading


def test_work_is_stopped_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Timer:
        daemon = False

        def __init__(self, seconds: float, stop: object) -> None:
            made.append((self, seconds))

        def start(self) -> None:
            made.append("started")

        def cancel(self) -> None:
            made.append("cancelled")

    monkeypatch.setattr(threading, "Timer", Timer)
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    for until in (None, 103.0, 90.0):
        with _over_by(until, lambda: None):
            pass
    assert [item for item in made if isinstance(item, str)] == ["started", "cancelled"] * 2
    timers = [item for item in made if not isinstance(item, str)]
    assert [(timer.daemon, seconds) for timer, seconds in timers] == [(True, 3.0), (True, 0.0)]


def test_what_was_cut_off_says_why() -> None:
    case = Case(Node(LIVE))
    cut = run_of("gemm", "cancelled", "by somebody")
    refused = run_of("p2p", "refused", "no memory")
    planned = ("host", "gemm", "p2p", "memory")

    def told(**facts: Any) -> list[tuple[str, str, str]]:
        found = _not_measured(case, Measured(gpus=ADDRESSES, planned=planned, **facts))
        assert found is not None
        return [(one.title, one.evidence[0].value, one.fix[0].text) for one in found]

    again, python = "Let it run to its end", "Name a Python that has torch, such as that of the job"
    assert told(runs=(cut, refused)) == [
        ("not measured: gemm", "Cancelled.", again),
        ("not measured: p2p", "no memory", python),
    ]
    assert told(runs=(cut, refused), out_of_time=True) == [
        ("not measured: gemm, host, memory", OUT_OF_TIME, again),
        ("not measured: p2p", "no memory", python),
    ]
    assert told(out_of_time=True) == [("not measured: host, gemm, p2p, memory", OUT_OF_TIME, again)]
    heard = tuple(run_of(name) for name in planned)
    assert told(runs=heard, out_of_time=True) == []
    for rule in run_rules(Measured()):
        assert (rule.check(case) is None) is (rule.id != "not-measured")


def test_the_prediction_is_of_the_chosen_gpus() -> None:
    whole, none, failed = _predicted(Node(LIVE), ())
    assert (none, failed, whole.decided) == (None, (), True)
    _, some, failed = _predicted(Node(LIVE), ADDRESSES[:2])
    assert some is not None
    assert (some.ranks, failed) == (2, ())
    _, some, failed = _predicted(Node(NodeSnapshot(taken_at=0.0)), ADDRESSES)
    assert (some, failed) == (None, ())


def test_a_policy_may_be_as_large_as_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "check.toml"
    path.write_bytes(b"#" * policy.LIMIT_BYTES)
    assert policy.site(path, (), ()).files == (str(path),)
    monkeypatch.setattr(policy, "SYSTEM", tmp_path / ("x" * 5000))
    monkeypatch.setattr(policy, "_user", list)
    assert policy.site(None, (), ()).files == ()
    monkeypatch.setattr(policy, "SYSTEM", path)
    monkeypatch.setattr(Path, "open", lambda *_: (_ for _ in ()).throw(PermissionError(13, "no")))
    assert policy.site(None, (), ()).notes == (f"{path}: no; the check goes without it",)
    with pytest.raises(Exit, match="no"):
        policy.site(path, (), ())


def test_names_of_a_pair_are_replaced_as_whole_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(redacting.KEY, "key")
    names = redacting.HostNames()
    g7, g8 = names.of("g7"), names.of("g8")
    document = {
        "hosts": ["g7", "g8"],
        "text": "g7 to g8.site, not g71 nor a-g7",
        "count": 3,
        "deep": ({"of": "g8"},),
    }
    assert g7 != g8
    assert names.hide(document, ["g7", "g8"]) == {
        "hosts": [g7, g8],
        "text": f"{g7} to {g8}.site, not g71 nor a-g7",
        "count": 3,
        "deep": [{"of": g8}],
        "redacted": True,
    }
    job = names.hide({"job": "41"}, [])["job"]
    assert job not in ("41", None)
    assert names.hide({"job": "41"}, [])["job"] == job


def test_a_document_keeps_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(redacting.KEY, "key")
    fleet = {
        "host": "g7", "job": "41", "machine": None, "boot_id": "b1",
        "facts": {"environment": {"NCCL_DEBUG": "INFO", "NCCL_TOPO_FILE": "/home/ann/t.xml"}},
    }  # fmt: skip
    made, host = redacting.redacted_document({"node": "g7", "fleet": fleet}, LIVE, "g7")
    assert host == redacting.HostNames().of("g7") == made["node"] == made["fleet"]["host"]
    found = made["fleet"]
    assert (found["redacted"], found["machine"]) == (True, None)
    assert found["job"] not in ("41", None)
    assert found["boot_id"] not in ("b1", None)
    assert found["facts"]["environment"]["NCCL_DEBUG"] == "INFO"
    assert "ann" not in str(found)
    bare, host = redacting.redacted_document({"node": None, "fleet": {"facts": {}}}, LIVE, "")
    assert (host, bare["node"], bare["fleet"]["facts"]) == ("", None, {})
    assert redacting.redacted_document({"a": 1}, LIVE, "g7")[0] == {"a": 1}


def test_a_key_is_given_or_made_in_a_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(redacting.KEY, "own")
    assert redacting._key() == b"own"
    monkeypatch.delenv(redacting.KEY)
    place = tmp_path / "a" / "b"
    monkeypatch.setattr("platformdirs.user_config_path", lambda name: place / name)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    made = redacting._key()
    assert synced, "names made with a key that is lost fit no later ones"
    assert (len(made), redacting._key()) == (64, made)
    assert [path.name for path in (place / "gputop").iterdir()] == [redacting.KEY_FILE]
    (place / "gputop" / redacting.KEY_FILE).write_bytes(b" \n")
    with pytest.raises(Exit, match="is empty"):
        redacting._key()
    monkeypatch.setattr("platformdirs.user_config_path", lambda name: Path("~") / name)
    with pytest.raises(Exit, match="there is no home") as refused:
        redacting._key()
    assert refused.value.exit_code == CANNOT_TELL


def message(kind: deadline.MessageKind, text: str = "", code: int = 0) -> bytes:
    sent: list[bytes] = []
    relay = deadline.Relay(0)
    relay._send = lambda message: sent.append(msgspec.msgpack.encode(message))  # type: ignore[method-assign]
    {
        deadline.MessageKind.STAGE: lambda: relay.stage(text),
        deadline.MessageKind.DOCUMENT: lambda: relay.hand_over(text),
        deadline.MessageKind.END: lambda: relay.end(code, text),
    }[kind]()
    return len(sent[0]).to_bytes(8, "big") + sent[0]


def test_messages_are_understood_when_they_are_whole() -> None:
    kinds = deadline.MessageKind
    first = message(kinds.STAGE, "reading") + message(kinds.DOCUMENT, "{}")
    last = message(kinds.END, "why", 4)
    found = deadline.Supervised()
    heard = bytearray()
    for number, byte in enumerate(first + last, 1):
        heard.append(byte)
        assert deadline._understand(heard, found) is (number == len(first + last))
    assert (found.stages, found.document, found.code, found.problem) == (
        ["reading"],
        "{}",
        4,
        "why",
    )
    assert heard == b""
    heard += last + b"more"
    assert deadline._understand(heard, found)
    assert heard == b"more"


def test_a_message_is_sent_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bytes] = []

    def some(number: int, data: memoryview) -> int:
        taken.append(bytes(data[:3]))
        return len(taken[-1])

    monkeypatch.setattr(os, "write", some)
    deadline.Relay(7).stage("x")
    assert b"".join(taken) == message(deadline.MessageKind.STAGE, "x")


def test_the_time_of_a_process_counts_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    here = time.time() - psutil.Process().create_time()
    assert deadline._age_seconds() == pytest.approx(here, abs=2.0)
    monkeypatch.setattr(time, "clock_gettime", lambda _: 0.0)
    assert deadline._age_seconds() == 0.0
    monkeypatch.setattr(Path, "read_bytes", lambda _: b"1 (x) S")
    assert deadline._age_seconds() == 0.0
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    monkeypatch.setattr(deadline, "_age_seconds", lambda: 10.0)
    for own, begun in ((True, 90.0), (False, 100.0)):
        monkeypatch.setattr("gputop.own_process", own)
        assert deadline.ends_of(20.0) == (begun + 16.0, begun + 19.5)


def test_a_child_has_a_moment_to_go_before_and_after_it_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Clock:
        now = 100.0
        gone_at = 999.0
        killed = 0.0

    def sleep(seconds: float) -> None:
        Clock.now += seconds

    monkeypatch.setattr(time, "monotonic", lambda: Clock.now)
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(deadline, "_ended", lambda child: Clock.now >= Clock.gone_at)
    monkeypatch.setattr(os, "killpg", lambda child, number: setattr(Clock, "killed", Clock.now))
    for gone, killed, left in (
        (0.0, 0.0, 0.0),
        (0.03, 0.03, 0.03),
        (0.15, 0.1, 0.15),
        (9, 0.1, 0.2),
    ):
        Clock.now, Clock.gone_at = 100.0, 100.0 + gone - 1e-6
        deadline._leave(5)
        assert Clock.killed - 100.0 == pytest.approx(killed, abs=0.006)
        assert Clock.now - 100.0 == pytest.approx(left, abs=0.006)


def test_streams_that_are_closed_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    out = SimpleNamespace(flush=lambda: flushed.append("out"))
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        patched.setattr(sys, "stderr", None)
        patched.setattr(deadline, "_watch", lambda pipes, until: deadline.Supervised(code=9))
        patched.setattr(deadline, "_leave", lambda child: os.waitpid(child, 0))
        patched.setattr(deadline, "_become", lambda *_: os._exit(0))
        assert deadline.supervised(lambda relay: 0, time.monotonic() + 9).code == 9
        deadline._pass_on(b"lost")
    assert flushed == ["out"]


def test_what_is_printed_is_kept_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deadline, "_LONGEST_OUTPUT", 4)
    pipes = [os.pipe() for _ in range(3)]
    for (_, end), data in zip(pipes, (b"", b"abcd", b"err"), strict=True):
        os.write(end, data)
    os.write(pipes[0][1], message(deadline.MessageKind.END, code=3))
    found = deadline._watch([reading for reading, _ in pipes], time.monotonic() + 30)
    assert (found.code, found.output, found.timed_out) == (3, b"abcd", False)
    assert capsys.readouterr().err == "err"
    for number in (one for pair in pipes for one in pair):
        os.close(number)
