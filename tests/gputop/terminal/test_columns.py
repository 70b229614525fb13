"""Tables of the command topo fit the terminal, with every cell, and rows never wrap."""

from __future__ import annotations

import pytest

from gputop.reading import read_snapshot
from gputop.terminal.columns import fitted
from gputop.topology.exports.written import exported
from gputop.topology.node import Node


@pytest.mark.parametrize("form", ["matrix", "tree"])
@pytest.mark.parametrize("demo", ["hgx-h100-8", "mi300x-8", "dgx-1v"])
@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_line_is_wider_and_no_word_is_lost(demo: str, form: str, width: int) -> None:
    text = exported(form, Node(read_snapshot((), demo))).text
    shown = fitted(text, width)
    assert max(map(len, shown.splitlines())) <= width
    words = text.replace("=", " ").replace("│", " ").split()
    assert set(words) - {"├─", "└─"} <= set(shown.replace("=", " ").split())


def test_gpus_stay_together_and_every_block_names_its_rows() -> None:
    text = exported("matrix", Node(read_snapshot((), "hgx-h100-8"))).text
    blocks = fitted(text, 80).split("\n\n")
    assert blocks[0].splitlines()[0].split() == [f"GPU{n}" for n in range(8)]
    assert blocks[1].splitlines()[0].split() == [f"NIC{n}" for n in range(8)]
    assert blocks[2].splitlines()[1].split() == ["GPU0", "0-55,112-167", "0", "N/A"]
    assert blocks[0].splitlines()[1].split() == ["GPU0", "X", *["NV18"] * 7]


def test_a_wide_terminal_has_one_block() -> None:
    text = exported("matrix", Node(read_snapshot((), "hgx-h100-8"))).text
    head = fitted(text, 200).splitlines()[0]
    assert head.split()[:1] + head.split()[-3:] == ["GPU0", "GPU", "NUMA", "ID"]
