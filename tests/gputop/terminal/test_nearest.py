"""Names that are nearly right end in a question, the same one everywhere."""

from __future__ import annotations

import pytest

from gputop.__main__ import run
from gputop.terminal.nearest import did_you_mean, nearest


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        (["chek"], "no command 'chek'; did you mean check?"),
        (["frobnicate"], "no command 'frobnicate'; there are: check, explain, "),
        (["check", "--dmo", "x"], "no option --dmo; did you mean --demo?"),
        (["topo", "--zzz"], "no option --zzz; `gputop topo --help` lists them"),
        (["check", "--demo", "hgx"], "no demo 'hgx'; did you mean hgx-a100-8 or hgx-h100-8?"),
        (["check", "--demo", "zzz"], "no demo 'zzz'; `gputop --demo` lists them"),
        (["flags", "NCCL_AGLO"], "no variable 'NCCL_AGLO'; did you mean NCCL_ALGO?"),
        (["flags", "P2P_LEVL"], "no variable 'P2P_LEVL'; did you mean NCCL_P2P_LEVEL?"),
        (["probe", "memry"], "no probe 'memry'; did you mean memory?"),
        (["check", "--ignore", "gpu-bussy"], "no rule 'gpu-bussy'; did you mean gpu-busy"),
        (["check", "--expect", "dgx-h10"], "no reference node 'dgx-h10'; did you mean dgx-h100"),
        (["check", "--demo", "\x1b[2J" * 40], "no demo"),
    ],
)
def test_what_was_meant_is_asked(
    capsys: pytest.CaptureFixture[str], typed: list[str], answer: str
) -> None:
    assert run(typed) == 64
    said = capsys.readouterr().err
    assert answer in said
    assert len(said.splitlines()) == 1
    assert "\x1b" not in said


def test_names_that_begin_so_come_first() -> None:
    assert nearest("sick", ("hgx-h100-8", "sick-h100-8")) == ("sick-h100-8",)
    assert nearest("", ("a", "b")) == ()
    assert did_you_mean("abc", ("abd", "abe", "abf", "abg")).count(" or ") == 1
