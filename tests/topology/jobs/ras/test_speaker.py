"""Which process is at the other end: in a copied /proc, and with sockets of our own."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from gputop.topology.jobs.ras.client import ask
from gputop.topology.jobs.ras.places import RasPlace
from gputop.topology.jobs.ras.speaker import speaker
from gputop.topology.sources.files.tree import FolderTree, live_tree
from tests.topology.jobs.ras.service import document, rank, serving, speaking
from tests.topology.jobs.ras.test_text import HEALTHY

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid inode\n"
LINE = (
    "   {}: 0100007F:{:04X} 0100007F:{:04X} {} 00000000:00000000 00:00000000 00000000 1000 0 {} 1\n"
)


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
