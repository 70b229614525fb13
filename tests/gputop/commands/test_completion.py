"""What a shell gets when somebody presses Tab: commands, options and values."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gputop.__main__ import run
from gputop.commands.completion import SHELLS, VARIABLE, answer
from gputop.commands.root import root
from gputop.exits import USAGE
from tests.support.places import ROOT


def offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str) -> str:
    """What bash shows for a line, one word each, without the kind."""
    monkeypatch.setenv("GPUTOP_LINE", line)
    monkeypatch.setenv("GPUTOP_BREAKS", " \t\n\"'><=;|&(:")
    answer(root, "bash_complete")
    return " ".join(line.partition(",")[2] for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gputop ch", "check"),
        ("gputop topo --form", "--format"),
        ("gputop topo --format tr", "tree"),
        ("gputop --demo sick-", "sick-h100-8 sick-mi300x-8"),
        ("gputop check --demo=dgx", "dgx-1v"),
        ("gputop flags nccl_p2p_l", "NCCL_P2P_LEVEL NCCL_P2P_LL_THRESHOLD"),
        ("gputop explain --set NCCL_ALG", "NCCL_ALGO="),
        ("gputop explain --set NCCL_ALGO=Ri", "Ring"),  # bash keeps what stands before "="
        ("gputop explain --set=NCCL_ALGO=Ri", "Ring"),
        ("gputop explain --set=nccl_alg", "NCCL_ALGO="),
        ("gputop probe coll", "collectives"),
        ("gputop probe launch nc", "nccl"),
        ("gputop probe p2p launch l", ""),
        ("gputop check --ignore nvlink-do", "nvlink-down"),
        ("gputop check --expect aws-p5en", "aws-p5en.48xlarge"),
        ("gputop explain --nccl rccl-2.21", "rccl-2.21.5"),
        ("gputop explain --demo mi250x-8 ", "0 1 2 3 4 5 6 7"),
        ("gputop check --demo dgx-1v --gpus 0,1,2,3,4,5,", "0,1,2,3,4,5,6 0,1,2,3,4,5,7"),
        ("gputop explain --demo hgx-h100-8 0000:1", "19:00.0"),
        ("gputop check --expect dgx-1v", "dgx-1v"),
        ("gputop check --probe p2p,mem", "p2p,memory"),
        ("gputop check --probe p2p,p2p", "p2p,p2p-concurrent"),
        ("gputop log ./some", "./some"),
        ("gputop log a\\ ", "a "),
        ("gputop log 'a ", "a "),
        ("gputop completion ", "bash zsh fish"),
        ("gputop check --demo", "--demo"),
        ("gputop check --demo nothing-like-it --gpus ", ""),
    ],
)
def test_what_is_typed_is_completed(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
    expected: str,
) -> None:
    found = offered(monkeypatch, capsys, line)
    if expected.startswith("NCCL_P2P_LEVEL"):
        assert found.split()[0] == "NCCL_P2P_LEVEL"
    else:
        assert found == expected


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_printed_and_no_app_opens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"{VARIABLE}={shell}_complete" in script
    monkeypatch.setenv(VARIABLE, f"{shell}_source")
    assert run([]) == 0
    assert capsys.readouterr().out == script
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=script, text=True, check=True, timeout=60)


ASKED = {
    "bash": """
        complete() { :; }; compopt() { :; }; source "$1"
        COMP_LINE="gputop check --demo=dgx" COMP_POINT=23 COMP_WORDBREAKS="= "
        _gputop_completion gputop; echo "$COMPREPLY" """,
    "fish": """source $argv[1]; complete -C "gputop check --demo=dgx" """,
}


@pytest.mark.parametrize("shell", ASKED)
def test_a_real_shell_completes_behind_an_option(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, shell: str
) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    assert run(["completion", shell]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    command = tmp_path / "gputop"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gputop "$@"\n')
    command.chmod(0o755)
    given = ["-c", ASKED[shell], *(["bash"] if shell == "bash" else []), str(tmp_path / "script")]
    done = subprocess.run(
        [program, *given],
        cwd=ROOT,
        env={**os.environ, "HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split()[0] == {"bash": "dgx-1v", "fish": "--demo=dgx-1v"}[shell]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_help_stands_beside_a_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    monkeypatch.setenv("COMP_WORDS", "gputop --demo dgx")
    monkeypatch.setenv("COMP_CWORD", "2" if shell == "zsh" else "dgx")
    answer(root, f"{shell}_complete")
    assert "dgx-1v" in (out := capsys.readouterr().out)
    assert "8 V100" in out


def test_another_shell_is_refused() -> None:
    assert answer(root, "tcsh_complete") == USAGE
