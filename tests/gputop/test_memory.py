"""A limit on memory (ulimit -v, a batch system's): gputop gets along with it, or says so."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import pytest

from gputop.__main__ import run
from gputop.exits import CANNOT_TELL
from gputop.memory import lacking
from tests.grid import share
from tests.support.places import ROOT
from tests.support.terminal import Terminal

LIMITED = """
import resource, sys
size = int(sys.argv.pop(1)) * 1_000_000
resource.setrlimit(resource.RLIMIT_AS, (size, size))
from gputop.__main__ import main
main()
"""


def limited(megabytes: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run gputop with at most that much address space."""
    return subprocess.run(
        [sys.executable, "-c", LIMITED, str(megabytes), *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("megabytes", "command"),
    share(
        product(
            [150, 200, 300, 400, 500], ["snapshot", "check --quick", "explain --demo hgx-h100-8"]
        ),
        4,
    ),
)
def test_a_command_gets_along_with_a_limit(megabytes: int, command: str) -> None:
    done = limited(megabytes, *command.split())
    assert done.returncode == (3 if command == "check --quick" else 0), done.stderr
    assert done.stdout
    assert "memory" not in done.stderr


def test_too_little_memory_is_reported_in_a_line() -> None:
    done = limited(70, "snapshot")
    assert (done.returncode, done.stdout) == (CANNOT_TELL, "")
    said = "gputop: the limit of 70 MB on memory (ulimit -v, -d) is too low for gputop\n"
    assert done.stderr == said


@pytest.mark.terminal
def test_the_app_opens_under_a_limit() -> None:
    command = (sys.executable, "-c", LIMITED, "300")
    with Terminal(["--demo", "hgx-h100-8"], command=command) as terminal:
        terminal.wait_for("H100")
        terminal.send("q")
        terminal.wait_end()
        assert terminal.process.returncode == 0
        assert "Traceback" not in terminal.text()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't start new thread"),
        OSError(12, "Cannot allocate memory"),
        ImportError("x.so: failed to map segment from shared object"),
    ],
)
def test_memory_that_ends_midway_is_no_fault_of_ours(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("gputop.commands.snapshot.read_snapshot", fail)
    assert run(["snapshot"]) == CANNOT_TELL
    assert capsys.readouterr().err.startswith("gputop: memory does not suffice: ")


def test_what_else_fails_is_our_fault() -> None:
    assert not lacking(RuntimeError("dictionary changed size during iteration"))
    assert not lacking(ImportError("no module named x"))
    assert not lacking(OSError(28, "No space left on device"))


def test_without_a_limit_threads_stay_as_they_are() -> None:
    code = "from gputop.memory import fit; import threading; fit(); print(threading.stack_size())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "0\n"
