"""Ctrl+C, typed in the phases of every kind of command: it ends, and leaves nothing behind."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.grid import share
from tests.support.fleet_made import write
from tests.support.terminal import APP, Terminal

pytestmark = pytest.mark.terminal

CTRL_C = b"\x03"
PYTHONS = re.compile("Could not import runpy|Failed to import the site module")
TAKEN, GIVEN_BACK = b"\x1b[?1049h", b"\x1b[?1049l"
NODES = 400


@dataclass(frozen=True)
class Phase:
    """What is typed before Ctrl+C, and what has to be seen by then."""

    arguments: tuple[str, ...]
    seen: str = ""
    keys: tuple[str, ...] = ()
    """Typed one after the other when that is seen; "" waits a moment."""
    seconds: float = 0.0
    """From the start, or from the last key."""
    presses: int = 1
    """Ctrl+C closes a line and a dialog before it leaves."""
    codes: tuple[int, ...] = (130,)


DEMO = ("--demo", "sick-h100-8")
LEFT = (0, 130)
"""An app that is left by a key has answered; one that had not begun was interrupted."""
ANSWERED = (130, 1, 2)
"""What a fast machine has answered by then has the code of its verdict."""
PHASES = {
    **{f"start {at}": Phase(DEMO, seconds=at, codes=LEFT) for at in (0.02, 0.1, 0.2, 0.4, 0.8)},
    "app": Phase(DEMO, APP, codes=LEFT),
    "search": Phase(DEMO, APP, ("6", "/", "a", "b"), 0.2, 2, LEFT),
    "palette": Phase(DEMO, APP, ("\x10", "a"), 0.3, 2, LEFT),
    "help": Phase(DEMO, APP, ("?",), 0.3, 2, LEFT),
    "theme": Phase(DEMO, APP, ("t",), 0.3, 2, LEFT),
    "value of a flag": Phase(DEMO, APP, ("5", "\r", "1"), 0.3, 3, LEFT),
    "probe of the app": Phase(DEMO, APP, ("4", "p"), 0.3, 2, LEFT),
    **{f"selftest {at}": Phase(("probe", "--selftest"), "", (), at) for at in (0.3, 1.0, 2.0)},
    "this machine": Phase((), "", (), 1.0, 1, LEFT),
    **{f"check {at}": Phase(("check", "--full"), "", (), at, 1, (130, 3)) for at in (0.2, 0.5)},
    "log -": Phase(("log", "-"), seconds=1.0),
    "check --from -": Phase(("check", "--from", "-"), seconds=1.0),
    "jobs --from -": Phase(("jobs", "--from", "-"), seconds=1.0),
    "topo --from -": Phase(("topo", "--from", "-", "--json"), seconds=1.0),
    "--from -": Phase(("--from", "-"), seconds=1.0),
    **{
        f"fleet text {at}": Phase(("fleet", "FOLDER", "--json"), "", (), at, codes=ANSWERED)
        for at in (0.1, 0.3, 0.6)
    },
    **{f"fleet {at}": Phase(("fleet", "FOLDER"), "", (), at, 1, LEFT) for at in (0.4, 0.7, 1.0)},
    "fleet search": Phase(("fleet", "FOLDER"), "quit", ("2", "/", "g"), 0.3, 2, LEFT),
    "watched": Phase(("jobs", "--over", "60"), "", (), 1.0, 1, (130, 3)),
}


@pytest.fixture(scope="module", name="fleet")
def fleet_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    write(folder, NODES)
    return folder


@pytest.mark.parametrize("name", share(PHASES, 7))
def test_ctrl_c_ends_it_and_leaves_nothing(name: str, fleet: Path) -> None:
    phase = PHASES[name]
    arguments = [str(fleet) if word == "FOLDER" else word for word in phase.arguments]
    with Terminal(arguments, controls=True, columns=100, lines=30) as terminal:
        if phase.seen:
            terminal.wait_for(phase.seen)
        for key in phase.keys:
            terminal.send(key)
            _read(terminal, 0.2)
        _read(terminal, phase.seconds)
        children = _children(terminal)
        for _ in range(phase.presses):
            if terminal.process.poll() is None:
                children |= _children(terminal)
                terminal.type(CTRL_C)
                _ended(terminal, 1.0)
        terminal.wait_end(20)
        # Before Python listens the signal itself ends it: 130 for a shell too.
        code = terminal.process.returncode
        code = 130 if code == -signal.SIGINT else code
        # The first moments are Python's, which prints its own.
        pythons = PYTHONS.search(terminal.text()) is not None
        assert pythons or "Traceback" not in terminal.text()
        assert code in ((1, 130) if pythons else phase.codes), terminal.text()[-300:]
        assert terminal.sane()
        assert terminal.written.count(TAKEN) == terminal.written.count(GIVEN_BACK)
        assert not _left(children)


def _read(terminal: Terminal, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        terminal.read(0.02)


def _ended(terminal: Terminal, seconds: float) -> None:
    """Give it that long to end."""
    _until(lambda: terminal.process.poll() is not None, seconds, lambda: terminal.read(0.02))


def _children(terminal: Terminal) -> set[psutil.Process]:
    try:
        return set(psutil.Process(terminal.process.pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return set()


def _left(children: set[psutil.Process]) -> list[psutil.Process]:
    """Children that are there after a while."""
    return psutil.wait_procs(children, timeout=5)[1]


def _until(done: Callable[[], bool], seconds: float, meanwhile: Callable[[], None]) -> None:
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        meanwhile()
