"""Tables behind the heads of collectors and launchers are read as without them."""

from __future__ import annotations

import pytest

from gputop.topology.recorded.sections import bare
from tests.support.places import RECORDINGS

HEADS = (
    "[pod/train-0/main] 2026-11-21T05:32:14.611123456Z ",
    "[pod/train-0/main] ",
    "2026-11-21T05:32:14.611123456Z stdout F ",
    "2026-11-21T05:32:14.611123456Z ",
    "Nov 21 05:32:14 vm bash[1753]: ",
    "trainer-1  | ",
    "[default3]:",
    "[rank0]:",
    "3: ",
)
TABLE = (RECORDINGS / "pasted" / "a100-2-nccl-tests.txt").read_text()


@pytest.mark.parametrize("head", HEADS)
def test_what_stands_before_every_line_is_taken_off(head: str) -> None:
    assert bare("\n".join(head + line for line in TABLE.split("\n"))) == TABLE


@pytest.mark.parametrize("path", sorted((RECORDINGS / "pasted").iterdir()), ids=lambda p: p.name)
def test_no_output_of_a_tool_loses_anything(path: object) -> None:
    text = path.read_text(errors="replace")  # type: ignore[attr-defined]
    assert bare(text) == text


def test_lines_of_the_kernel_keep_their_head() -> None:
    text = "\n".join(f"Nov 21 05:32:1{at} n1 kernel: NVRM: Xid ({at})" for at in range(8))
    assert bare(text) == text


def test_a_head_on_few_lines_is_part_of_the_text() -> None:
    text = "one\n0: two\nthree\nfour\nfive"
    assert bare(text) == text
