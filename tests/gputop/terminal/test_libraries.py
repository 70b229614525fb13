"""What a driver's library prints itself, to C's stdout, never comes into an answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.grid import share
from tests.support.places import ROOT
from tests.support.terminal import APP, Terminal

TALKATIVE = """
import ctypes, os
real = ctypes.CDLL
def load(name, *arguments, **more):
    if name is not None and any(part in str(name) for part in ("nvidia-ml", "amd_smi", "cuda")):
        os.write(1, b"LIBRARY WRITES\\n")
        real(None).printf(b"LIBRARY PRINTS\\n")  # kept in C's buffer until the process ends
    return real(name, *arguments, **more)
ctypes.CDLL = load
"""
BINDING = """
import sys
print("BINDING PRINTS")
def __getattr__(name):
    sys.stdout.write(f"BINDING WRITES {name}\\n")
    raise AttributeError(name)
"""
"""A binding that is Python, as amdsmi's is, which prints where its library is not found."""
COMMANDS = (
    ("check", "--quick", "--json", "--deadline", "60"),
    ("snapshot",),
    ("check", "--quick", "--json"),
    ("topo", "--json"),
    ("doctor", "--json"),
    ("probe", "--list", "--json"),
)


def environment(folder: Path) -> dict[str, str]:
    (folder / "sitecustomize.py").write_text(TALKATIVE)
    return {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}


@pytest.mark.parametrize("command", share([(one,) for one in COMMANDS], 2), ids=" ".join)
@pytest.mark.parametrize("unbuffered", share(["", "1"], 2))
def test_a_document_holds_no_word_of_a_library(
    command: tuple[str, ...], unbuffered: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gputop", *command],
        env={**environment(tmp_path), "PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        timeout=60,
        check=False,
    )
    json.loads(done.stdout)
    assert b"LIBRARY" not in done.stdout
    assert command[0] == "probe" or b"LIBRARY WRITES" in done.stderr


@pytest.mark.parametrize(
    "command",
    share([*((one,) for one in COMMANDS), (("topo", "--format", "tree"),)], 2),
    ids=" ".join,
)
def test_an_answer_holds_no_word_of_a_binding(command: tuple[str, ...], tmp_path: Path) -> None:
    for name in ("amdsmi", "pynvml"):
        (tmp_path / f"{name}.py").write_text(BINDING)
    done = subprocess.run(
        [sys.executable, "-m", "gputop", *command],
        env=environment(tmp_path),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b"BINDING" not in done.stdout
    assert command[0] == "probe" or b"BINDING" in done.stderr
    if "--json" in command:
        json.loads(done.stdout)


def test_a_closed_stderr_takes_nothing_into_the_document(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -m gputop snapshot 2>&-', sys.executable],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    json.loads(done.stdout)
    assert b"LIBRARY" not in done.stdout


def test_the_app_has_the_terminal_alone(tmp_path: Path) -> None:
    with Terminal([], environment=environment(tmp_path)) as terminal:
        terminal.wait_for(APP)
        terminal.send("q")
        terminal.wait_end()
        assert "LIBRARY" not in terminal.text()
        assert terminal.process.returncode == 0


@pytest.mark.parametrize("form", ["tree", "svg", "nccl-xml"])
def test_two_formats_at_once_are_wrong_usage(form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gputop", "topo", "--demo", "dgx-1v", "--json", "--format", form],
        capture_output=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    assert (done.returncode, json.loads(done.stdout)["exit_code"]) == (64, 64)
