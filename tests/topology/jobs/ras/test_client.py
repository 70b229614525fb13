"""The exchange with a RAS service: deadlines, bounds, several jobs, and strangers on its port."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gputop.topology.jobs.ras import client
from gputop.topology.jobs.ras.client import RasReply, ask, speaker
from gputop.topology.jobs.ras.places import RasPlace, place
from gputop.topology.sources.files.tree import FolderTree, live_tree
from tests.topology.jobs.ras.service import Handler, document, missing, rank, serving, speaking
from tests.topology.jobs.ras.test_text import BEHIND, HEALTHY

UNHEARD = ("*",)
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid inode\n"
LINE = (
    "   {}: 0100007F:{:04X} 0100007F:{:04X} {} 00000000:00000000 00:00000000 00000000 1000 0 {} 1\n"
)


def asked(handler: Handler, seconds: float = 10.0, pids: frozenset[int] = frozenset()) -> RasReply:
    with serving(handler) as port:
        here = RasPlace(address="test", hosts=("127.0.0.1",), port=port, pids=pids)
        return ask(here, seconds)


def test_ranks_and_counts_of_an_answer_in_json() -> None:
    reply = asked(speaking([document([rank(0, 11, 1042), rank(1, 12, 1041)], [missing(2, 13)])]))
    assert reply.trouble is None
    (answer,) = reply.answers
    assert answer.version == "2.28.9+cuda13.0"
    (one,) = answer.communicators
    assert [dict(each.counts)["AllReduce"] for each in one.ranks] == [1042, 1041]
    assert (one.missing[0].pid, one.missing[0].unresponsive) == (13, True)


def test_a_service_without_json_answers_with_its_text() -> None:
    reply = asked(speaking([BEHIND.encode()], json_known=False))
    assert [answer.form for answer in reply.answers] == ["text"]


def test_two_jobs_behind_one_port_are_both_found() -> None:
    first = document([rank(0, 11, 5), rank(1, 12, 5)], name="0x1")
    second = document([rank(0, 21, 7), rank(1, 22, 7)], name="0x2")
    reply = asked(speaking([first, second]), pids=frozenset({11, 12, 21, 22}))
    assert {each.communicators[0].name for each in reply.answers} == {"0x1", "0x2"}


def test_an_answer_of_one_process_counts_although_another_accepts_and_says_nothing() -> None:
    speak, turn = speaking([document([rank(0, 11, 5)])]), iter(range(100))

    def handle(peer: socket.socket) -> None:
        if next(turn) % 2:
            peer.recv(1 << 16)
            peer.recv(1 << 16)
        else:
            speak(peer)

    reply = asked(handle)
    assert reply.answers
    assert reply.silent > 0


def rubbish(peer: socket.socket) -> None:
    with peer:
        peer.recv(1 << 16)
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n\x1b[2J")


def endless_greeting(peer: socket.socket) -> None:
    with suppress(OSError):
        while True:
            peer.sendall(b"SERVER PROTOCOL 2" + b"x" * 65536)


def broken(peer: socket.socket) -> None:
    speaking([b'{"communicators": ['])(peer)


def not_of_ras(peer: socket.socket) -> None:
    speaking([b'{"communicators": 7}'])(peer)


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (rubbish, "something else than NCCL's RAS"),
        (endless_greeting, "its greeting does not end"),
        (broken, "broken or cut off"),
        (not_of_ras, "has no communicators"),
        (lambda peer: peer.close(), "closed before an answer"),
    ],
)
def test_strangers_get_one_line(handler: Handler, said: str) -> None:
    reply = asked(handler)
    assert not reply.answers
    assert said in (reply.trouble or "")
    assert "\n" not in (reply.trouble or "")


def late(handler: Callable[[socket.socket, threading.Event], None]) -> RasReply:
    """Ask with a clock that passes the deadline once the handler has set the event."""
    passed = threading.Event()
    with serving(lambda peer: handler(peer, passed)) as port:
        here = RasPlace(address="test", hosts=("127.0.0.1",), port=port)
        return ask(here, 30.0, lambda: 100.0 if passed.is_set() else 0.0)


def test_one_that_never_answers_is_left_at_the_deadline() -> None:
    def handle(peer: socket.socket, passed: threading.Event) -> None:
        peer.recv(1 << 16)
        passed.set()
        peer.sendall(b"SERVER PROTO")  # wakes the client, and is no whole line
        peer.recv(1 << 16)

    reply = late(handle)
    assert "no answer in 30 s" in (reply.trouble or "")
    assert reply.silent > 0


@pytest.mark.parametrize(
    ("begun", "said"), [(b"", "does not respond"), (b"{", "its answer does not end in time")]
)
def test_one_that_greets_and_never_gives_its_status(begun: bytes, said: str) -> None:
    def handle(peer: socket.socket, passed: threading.Event) -> None:
        peer.sendall(b"SERVER PROTOCOL 2\nOK\nOK\n" + begun)
        heard = b""
        while b"VERBOSE STATUS" not in heard:
            heard += peer.recv(1 << 16) or b"VERBOSE STATUS"
        passed.set()
        peer.sendall(b"\n")  # wakes the client, and says nothing
        peer.recv(1 << 16)

    assert said in (late(handle).trouble or "")


def test_one_that_sends_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MOST_BYTES", 2**20)

    def handle(peer: socket.socket) -> None:
        peer.sendall(b"SERVER PROTOCOL 2\nOK\nOK\n")
        while True:
            peer.sendall(b"[" * 65536)

    reply = asked(handle)
    assert not reply.answers
    assert "more than" in (reply.trouble or "")


def test_a_port_where_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    reply = ask(place(f"127.0.0.1:{port}"), 5.0)
    assert reply.nobody
    assert "nothing listens" in (reply.trouble or "")


def test_another_machine_is_never_asked() -> None:
    reply = ask(place("192.0.2.7:28028"))
    assert reply.seconds == 0.0
    assert "not asked" in (reply.trouble or "")


# Which process is at the other end: in a copied /proc, and with sockets of our own.
def machine(root: Path, *lines: str, **holders: int) -> FolderTree:
    (root / "proc/self/net").mkdir(parents=True)
    (root / "proc/self/net/tcp").write_text(HEAD + "".join(lines))
    for pid, inode in holders.items():
        folder = root / "proc" / pid.removeprefix("p") / "fd"
        folder.mkdir(parents=True)
        (folder / "0").symlink_to("/dev/null")
        (folder / "7").symlink_to(f"socket:[{inode}]")
    return FolderTree(root)


def test_the_process_with_the_other_end_of_the_connection(tmp_path: Path) -> None:
    lines = (LINE.format(0, 28028, 40000, "01", 77), LINE.format(1, 28028, 40001, "01", 78))
    tree = machine(tmp_path, *lines, p41000=78, p41001=77)
    assert speaker(tree, 28028, 40000, (41000, 41001)) == 41001
    assert speaker(tree, 28028, 40001, (41000, 41001)) == 41000
    assert speaker(tree, 28028, 40002, (41000, 41001)) is None
    assert speaker(tree, 28028, 40000, (41000,)) is None


def test_a_connection_that_nobody_accepted_or_that_two_hold_is_nobodys(tmp_path: Path) -> None:
    waiting = LINE.format(0, 28028, 40000, "01", 0)
    tree = machine(tmp_path / "a", waiting, p41000=78)
    assert speaker(tree, 28028, 40000, (41000,)) is None
    both = LINE.format(0, 28028, 40000, "01", 78)
    tree = machine(tmp_path / "b", both, "broken\n", p41000=78, p41001=78)
    assert speaker(tree, 28028, 40000, (41000, 41001)) is None


def test_our_own_service_is_known_by_its_socket() -> None:
    pids = frozenset({os.getpid()})
    for answers, known in ((HEALTHY.encode(), False), (document([rank(0, 11, 5)]), True)):
        with serving(speaking([answers], json_known=known)) as port:
            place = RasPlace(address="test", hosts=("127.0.0.1",), port=port, pids=pids)
            reply = ask(place, 10.0)
        assert [answer.speaker for answer in reply.answers] == [os.getpid()]


def test_a_socket_that_only_listens_speaks_to_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert speaker(live_tree(), port, 1, (os.getpid(),)) is None


@pytest.mark.parametrize(
    ("state", "known"), [("01", True), ("08", True), ("06", False), ("0A", False)]
)
def test_only_an_open_connection_has_a_speaker(tmp_path: Path, state: str, known: bool) -> None:
    tree = machine(tmp_path, LINE.format(0, 28028, 40000, state, 77), p41000=77)
    assert speaker(tree, 28028, 40000, (41000,)) == (41000 if known else None)


@pytest.mark.parametrize(("code", "refused"), [(errno.ECONNREFUSED, True), (errno.EPIPE, False)])
@pytest.mark.parametrize("act", ["read", "write"])
def test_an_error_in_a_connection_tells_whether_nobody_listens(
    act: str, code: int, refused: bool
) -> None:
    class Failing:
        def getsockopt(self, *_: int) -> int:
            return 0

        def _fail(self, _: object) -> int:
            raise OSError(code, "no")

        send = recv = _fail

    with socket.create_server(("127.0.0.1", 0)) as listening:
        line = client._Line("127.0.0.1", listening.getsockname()[1], 1.0, lambda *_: None)
    line.socket.close()
    line.socket = Failing()  # type: ignore[assignment]
    if act == "read":
        assert line.read(100) == 0
    else:
        line.write()
    assert (line.ended, line.refused) == (True, refused)
