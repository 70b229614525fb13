"""What the start says when this Python lacks something that gputop needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gputop.exits import CANNOT_TELL, OWN_ERROR
from gputop.installation import packages
from tests.support.places import ROOT

WITHOUT = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == hidden:
            raise ModuleNotFoundError(f"No module named {hidden!r}", name=hidden)

hidden = sys.argv.pop(1)
sys.meta_path.insert(0, Hidden())
from gputop.__main__ import main
main()
"""


@pytest.mark.parametrize("name", ["msgspec", "click"])
def test_a_start_without_a_package_says_so_in_a_line(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, name, "topo", "--demo", "hgx-h100-8"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (CANNOT_TELL, "")
    python = f"Python {sys.version.split()[0]} at {sys.executable}"
    install = f"`{sys.executable} -m pip install --upgrade {name}`"
    assert done.stderr == f"gputop: {python} cannot import {name}, which gputop needs: {install}\n"


def test_what_pip_calls_it_and_why_it_fails() -> None:
    text, code = packages.import_failure(ImportError("invalid ELF header", name="markdown_it.main"))
    assert "cannot import markdown_it, which gputop needs (invalid ELF header): `" in text
    assert text.endswith("-m pip install --upgrade markdown-it-py`")
    assert code == CANNOT_TELL


def test_a_part_of_gputop_is_no_package_to_install() -> None:
    error = ModuleNotFoundError("No module named 'gputop.app'", name="gputop.app")
    text, code = packages.import_failure(error)
    assert text.endswith("cannot import a part of gputop: No module named 'gputop.app'")
    assert code == OWN_ERROR


def test_what_a_path_holds_is_printed_as_plain_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/\x1b[31m/python")
    assert packages.refuse_python() == CANNOT_TELL
    assert "\x1b" not in capsys.readouterr().err
