"""The exchange with a RAS service: deadlines, bounds, several jobs, and strangers on its port."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from gputop.topology.jobs.ras import client
from gputop.topology.jobs.ras.client import RasReply, ask
from gputop.topology.jobs.ras.places import RasPlace, place
from tests.topology.jobs.ras.service import Handler, document, missing, rank, serving, speaking
from tests.topology.jobs.ras.test_text import BEHIND


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
