"""The manual page: of every command and option, and as it lies in docs/."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from gputop.answers import QUESTIONS
from gputop.commands import NAMES
from gputop.commands.manual import CODES, manual
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "gputop.1"


def test_the_page_is_that_of_the_commands() -> None:
    made = manual()
    assert PAGE.read_text() == made, "python -m gputop.commands.manual > docs/gputop.1"
    for name in (*NAMES, *QUESTIONS):
        assert f".SS gputop {name} " in made
    assert r".B \-\-expect" in made
    assert all(line == line.rstrip() for line in made.splitlines()), "no entry without a name"


def test_exit_codes_are_those_of_the_document() -> None:
    text = (ROOT / "docs" / "exit-codes.md").read_text()
    assert all(f"| {code} |" in text for code in CODES)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_man_reads_it_without_a_complaint() -> None:
    command = ["groff", "-man", "-Tutf8", "-ww", str(PAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert QUESTIONS["doctor"] in " ".join(done.stdout.split())
