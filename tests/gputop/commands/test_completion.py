"""What a shell gets when somebody presses Tab: commands, options and values."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from gputop.__main__ import run
from gputop.commands.completion import SHELLS, VARIABLE, answer
from gputop.commands.root import root
from gputop.exits import USAGE


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
        ("gputop log ./some", "./some"),
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
