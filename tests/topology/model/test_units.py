"""Names and numbers as people read them."""

from __future__ import annotations

import pytest

from gputop.topology.model.units import ranged


@pytest.mark.parametrize(
    ("names", "phrase"),
    [
        ([], ""),
        (["GPU3"], "GPU3"),
        (["GPU0", "GPU1", "GPU2", "GPU3", "GPU4", "GPU5"], "GPU0-5"),
        (["GPU0", "GPU1", "GPU7"], "GPU0-1 and GPU7"),
        (["GPU0", "GPU2", "GPU4"], "GPU0, GPU2 and GPU4"),
        (["GPU9", "GPU10"], "GPU9-10"),
        (["0000:19:00.0", "GPU1"], "0000:19:00.0 and GPU1"),
    ],
)
def test_numbered_neighbours_are_one_word(names: list[str], phrase: str) -> None:
    assert ranged(names) == phrase
