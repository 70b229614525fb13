"""The stern score counts what stands in the first lines, by what it is said as."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.threads.stern import Block, blocks, stern_points

TEXT = "[rank0]: RuntimeError: CUDA error: out of memory"


@pytest.mark.parametrize("command", ["check", "log"])
def test_a_bare_error_is_explained_in_the_first_lines(command: str, tmp_path: Path) -> None:
    file = tmp_path / "said.txt"
    file.write_text(f"{TEXT}\n")
    shown = blocks(command, (file,))
    assert stern_points(2, ["GPU memory"], ["smaller batch"], shown) == 2
    assert stern_points(2, ["GPU memory"], ["no such words"], shown) == 1


def test_a_quotation_of_the_text_is_no_answer(tmp_path: Path) -> None:
    file = tmp_path / "said.txt"
    file.write_text(f"{TEXT}\nuverbs9: cannot map the doorbell of that fine device, errno 12\n")
    shown = [cause for block in blocks("check", (file,)) for cause in block.causes]
    assert "doorbell of that fine device" not in " ".join(shown)


@pytest.mark.parametrize(
    ("points", "shown", "stern"),
    [
        (2, [Block(["a bad cable"], ["replace it"])], 2),
        (2, [Block(["a bad cable"]), Block([], ["replace it"])], 1),
        (2, [Block(["memory"], ["more of it"])], 0),
        (2, [], 0),
        (-1, [Block(["a bad cable"], ["replace it"])], -1),
    ],
)
def test_the_cure_counts_beside_its_cause(points: int, shown: list[Block], stern: int) -> None:
    assert stern_points(points, ["cable"], ["replace"], shown) == stern
