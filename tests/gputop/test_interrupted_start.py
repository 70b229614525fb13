"""Ctrl+C while gputop is still importing: exit code 130, which is no verdict, and no traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gputop.__main__ import run
from gputop.exits import INTERRUPTED
from tests.support.places import ROOT

LOST = """
import os, signal, sys

left = int(sys.argv.pop(1))

def seen(frame, event, _):
    global left
    if event == "call" and frame.f_code.co_name == "cb" and "gputop.__main__" in sys.modules:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGINT)

sys.setprofile(seen)
"""
"""Interrupts the end of the lock of an import, where Python says what is raised and goes on."""
HOOK = """
import os, signal, sys

seen, place = 0, int(sys.argv.pop(1))

def hook(event, arguments):
    global seen
    if event == "import" and "gputop" in sys.modules:
        seen += 1
        if seen == place:
            os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(hook)
"""
STARTS = {
    "script": "from gputop.__main__ import main; main()",
    "module": "import runpy; runpy.run_module('gputop', run_name='__main__', alter_sys=True)",
}


def started(
    how: str, place: int, *arguments: str, hook: str = HOOK
) -> subprocess.CompletedProcess[str]:
    """Run gputop so that it gets SIGINT when it asks for the module of that number."""
    return subprocess.run(
        [sys.executable, "-c", hook + STARTS[how], str(place), *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


# The first import is that of gputop.__main__: until then Python itself has the word.
@pytest.mark.parametrize("place", [2, 3, 4, 5, 8, 13, 21, 34, 55, 89, 144])
@pytest.mark.parametrize("how", STARTS)
def test_an_interrupted_import_is_130_without_a_word(how: str, place: int) -> None:
    done = started(how, place, "check", "--quick", "--demo", "hgx-h100-8")
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")


@pytest.mark.parametrize("place", [5, 50])
def test_an_interrupt_that_nobody_can_raise_is_not_lost(place: int) -> None:
    done = started("script", place, "check", "--quick", "--demo", "hgx-h100-8", hook=LOST)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")


@pytest.mark.parametrize("how", STARTS)
def test_without_a_signal_it_answers(how: str) -> None:
    assert started(how, -1, "check", "--quick", "--demo", "hgx-h100-8").returncode == 0


def test_an_interrupt_that_met_a_class_in_the_making_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def dispatch(_: list[str]) -> int:
        class Interrupted:
            def __set_name__(self, _owner: type, _name: str) -> None:
                raise KeyboardInterrupt

        type("Made", (), {"attribute": Interrupted()})
        return 0

    monkeypatch.setattr("gputop.__main__._dispatch", dispatch)
    assert run(["topo"]) == INTERRUPTED
