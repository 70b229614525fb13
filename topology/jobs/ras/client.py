"""Asks NCCL's RAS service on this machine, within a deadline and a bound on bytes.

The lines are those of src/ras/client.cc: CLIENT PROTOCOL, TIMEOUT and SET FORMAT are answered with
a line each, VERBOSE STATUS with all there is and the end of the connection. Processes that share a
port take connections in turn, so several are opened: one of a stopped process never answers.
"""

import errno
import re
import selectors
import socket
import time
from collections.abc import Callable, Collection

import msgspec

from ...sources.files.tree import Tree, Unreadable, live_tree
from . import answer, text
from .answer import AnswerForm, RasAnswer, RasError
from .places import RasPlace

SECONDS = 0.9
"""For everything: connections, and answers of all processes of a job."""
OPENED = 6
"""Connections of one round."""
ROUNDS = 4
MOST_BYTES = 32 * 2**20
TOO_MUCH = f"it sends more than {MOST_BYTES // 2**20} MiB"
MOST_LINE = 4096
GREETING = b"CLIENT PROTOCOL 2\nTIMEOUT %d\nSET FORMAT json\n"
STATUS = b"VERBOSE STATUS\n"
REPLIES = 3
LONGEST_WAIT = 5
"""Seconds that RAS waits for a process of the job by default."""

TABLES = ("proc/self/net/tcp", "proc/self/net/tcp6")
OPEN = ("01", "08")
"""States of a connection that was accepted: established, and closed by us alone."""
SPEAKER_MOST_BYTES = 8 * 2**20
MOST_PROCESSES = 256
MOST_FILES = 4096

_SOCKET = re.compile(r"socket:\[(\d{1,20})\]$")


class RasReply(msgspec.Struct, frozen=True, kw_only=True):
    """What came from one place."""

    place: RasPlace
    answers: tuple[RasAnswer, ...] = ()
    """One for each job that listens there."""
    seconds: float = 0.0
    """How long asking took."""
    trouble: str | None = None
    """Why there is no answer, or what is missing in it."""
    silent: int = 0
    """Connections that were accepted and on which nothing was said."""
    nobody: bool = False
    """Whether nothing listens there."""


Who = Callable[[int, int], int | None]
"""The process that speaks from one port to another one of ours; None where not known."""


class _Line:
    """One connection."""

    def __init__(self, host: str, port: int, seconds: float, who: Who) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        patience = min(LONGEST_WAIT, max(1, int(seconds) - 1))
        self.sending = GREETING % patience
        self.data = bytearray()
        self.form = AnswerForm.TEXT
        self.greeted = self.asked = self.ended = False
        self.trouble: str | None = None
        self.refused = False
        self.port, self.who = port, who
        self.speaker: int | None = None
        code = self.socket.connect_ex((host, port))
        if code not in (0, errno.EINPROGRESS):
            self.fail(code)

    def fail(self, code: int) -> None:
        self.ended = True
        self.refused = code in (errno.ECONNREFUSED, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
        self.trouble = self.trouble or "the connection was closed before an answer"

    def write(self) -> None:
        code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self.fail(code)
            return
        try:
            sent = self.socket.send(self.sending)
        except BlockingIOError:
            return
        except OSError as error:
            self.fail(error.errno or 0)
            return
        self.sending = self.sending[sent:]

    def read(self, room: int) -> int:
        """Take what is there; the bytes read."""
        try:
            part = self.socket.recv(min(room, 2**18))
        except BlockingIOError:
            return 0
        except OSError as error:
            self.fail(error.errno or 0)
            return 0
        if not part:
            self.ended = True
        self.data += part
        if not self.greeted:
            self._greet()
        return len(part)

    def _greet(self) -> None:
        lines = bytes(self.data).split(b"\n")
        if lines[0] and not b"SERVER PROTOCOL ".startswith(lines[0][:16].upper()):
            self.trouble = "something else than NCCL's RAS answers there"
        elif len(lines) <= REPLIES and len(self.data) > MOST_LINE:
            self.trouble = "its greeting does not end"
        elif len(lines) > REPLIES:
            self.greeted = True
            self.form = AnswerForm.JSON if lines[2].strip().upper() == b"OK" else AnswerForm.TEXT
            del self.data[: sum(len(line) + 1 for line in lines[:REPLIES])]
        if self.trouble or (self.ended and not self.greeted):
            self.ended = True
            self.trouble = self.trouble or "the connection was closed before an answer"

    def ask(self) -> None:
        self.asked, self.sending = True, STATUS
        # Only while the connection is open the kernel tells whose it is.
        self.speaker = self.who(self.port, self.socket.getsockname()[1])

    def result(self) -> RasAnswer:
        """The answer; raises RasError where it is none."""
        data = bytes(self.data)
        found = answer.parse(data) if self.form is AnswerForm.JSON else text.parse(data)
        return msgspec.structs.replace(found, speaker=self.speaker)


def ask(
    place: RasPlace,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.monotonic,
    who: Who | None = None,
) -> RasReply:
    """Ask one place; never longer than `seconds`, never another machine."""
    who = who or (lambda there, here: speaker(live_tree(), there, here, place.pids))
    if not place.hosts:
        return RasReply(place=place, trouble=place.why_not)
    began = clock()
    answers: list[RasAnswer] = []
    troubles: list[str] = []
    silent, reached = 0, False
    budget = [MOST_BYTES]
    for host in place.hosts:
        for _ in range(ROUNDS):
            opened = [(host, place.port, seconds, who)] * OPENED
            lines = _round(opened, began + seconds, clock, budget)
            reached = reached or any(not line.refused for line in lines)
            for line in lines:
                silent += not line.refused and not line.greeted and line.trouble is None
                _take(line, answers, troubles)
            covered = {pid for found in answers for pid in _known(found)}
            enough = bool(answers) and place.pids <= covered
            if enough or clock() - began >= seconds or budget[0] <= 0 or not answers:
                break
        if reached:
            break
    took = clock() - began
    trouble = None if answers else _trouble(troubles, silent, reached, seconds, place)
    return RasReply(
        place=place,
        answers=tuple(answers),
        seconds=took,
        trouble=trouble,
        silent=silent,
        nobody=not reached,
    )


def _trouble(
    troubles: list[str], silent: int, reached: bool, seconds: float, place: RasPlace
) -> str:
    if not reached:
        return f"nothing listens at {place.address}"
    if troubles:
        return f"{place.address}: {troubles[0]}"
    return f"{place.address}: no answer in {seconds:.3g} s on {silent} connections"


def _take(line: _Line, answers: list[RasAnswer], troubles: list[str]) -> None:
    """Keep an answer about another job than those before, or why there is none."""
    if line.refused or (not line.asked and line.greeted):
        return
    if line.trouble is None and line.asked and not line.ended:
        line.trouble = (
            "its answer does not end in time"
            if line.data.strip()
            else "RAS answers, but has not collected its status in time, as where a process of "
            "the job does not respond to it"
        )
    if line.trouble is None and line.asked:
        try:
            found = line.result()
        except RasError as error:
            line.trouble = f"no answer that can be read: {error}"
        else:
            if not any(_key(found) == _key(other) for other in answers):
                answers.append(found)
            return
    if line.trouble is not None:
        troubles.append(line.trouble)


def _key(found: RasAnswer) -> frozenset[str] | frozenset[int]:
    names = frozenset(comm.name for comm in found.communicators if comm.name)
    return names or _known(found)


def _known(found: RasAnswer) -> frozenset[int]:
    return found.pids if found.speaker is None else found.pids | {found.speaker}


def _round(
    opened: list[tuple[str, int, float, Who]],
    until: float,
    clock: Callable[[], float],
    budget: list[int],
) -> list[_Line]:
    """Open some connections; ask on those that greet, two of them at most, and read to the end."""
    lines: list[_Line] = []
    try:
        # A generator: what was opened before a failure is in the list, and is closed.
        lines.extend(_Line(*target) for target in opened)
        _serve(lines, until, clock, budget)
    except OSError:
        pass  # no more files may be opened: what was opened so far has its own trouble
    finally:
        for line in lines:
            line.socket.close()
    return lines


def _serve(lines: list[_Line], until: float, clock: Callable[[], float], budget: list[int]) -> None:
    with selectors.DefaultSelector() as selector:
        for line in lines:
            if not line.ended:
                selector.register(line.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, line)
        while selector.get_map() and (left := until - clock()) > 0:
            for key, mask in selector.select(left):
                _step(key.data, mask, lines, budget)
            for line in lines:
                if line.socket.fileno() in selector.get_map():
                    _watch(selector, line)
            asked = [line for line in lines if line.asked]
            if budget[0] <= 0:
                for line in asked:
                    line.trouble = line.trouble or TOO_MUCH
            if budget[0] <= 0 or (asked and all(line.ended for line in asked)):
                break


def _watch(selector: selectors.BaseSelector, line: _Line) -> None:
    if line.ended:
        selector.unregister(line.socket)
        return
    wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.sending else 0)
    if selector.get_key(line.socket).events != wanted:
        selector.modify(line.socket, wanted, line)


def _step(line: _Line, mask: int, lines: list[_Line], budget: list[int]) -> None:
    if mask & selectors.EVENT_WRITE and line.sending:
        line.write()
    if mask & selectors.EVENT_READ and not line.ended:
        budget[0] -= line.read(max(budget[0], 1))
        if budget[0] <= 0 and not line.ended:
            line.ended, line.trouble = True, TOO_MUCH
    if line.greeted and not line.asked and sum(other.asked for other in lines) < 2:
        line.ask()


# Which process of this machine speaks at the other end of a connection to RAS.
#
# proc_pid_net(5): a line of /proc/net/tcp holds both ports, the state and the inode of a socket;
# /proc/PID/fd leads from a process to its inodes, for its owner and for root.
def speaker(tree: Tree, there: int, here: int, pids: Collection[int]) -> int | None:
    """The process among `pids` with the socket from port `there` to our port `here`.

    None where that is none of them, or may not be seen.
    """
    inode = next((found for table in TABLES if (found := _inode(tree, table, there, here))), None)
    if inode is None:
        return None
    holders = [pid for pid in sorted(pids)[:MOST_PROCESSES] if _holds(tree, pid, inode)]
    return holders[0] if len(holders) == 1 else None


def _inode(tree: Tree, table: str, there: int, here: int) -> str | None:
    data = tree.octets(table, 0, SPEAKER_MOST_BYTES)
    if isinstance(data, Unreadable):
        return None
    own, other = f":{there:04X}".encode(), f":{here:04X}".encode()
    for line in data.splitlines()[1:]:
        words = line.split(None, 10)
        if len(words) < 10 or not words[1].endswith(own) or not words[2].endswith(other):
            continue
        inode = words[9].decode("ascii", "replace")
        if words[3].decode("ascii", "replace") in OPEN and inode.isdecimal() and inode != "0":
            return inode
    return None


def _holds(tree: Tree, pid: int, inode: str) -> bool:
    folder = f"proc/{pid}/fd"
    links = (tree.link(f"{folder}/{name}") for name in tree.names(folder)[:MOST_FILES])
    return any(
        found[1] == inode for link in links if link is not None and (found := _SOCKET.match(link))
    )
