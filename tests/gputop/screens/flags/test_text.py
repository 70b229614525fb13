"""What stands beside the list of flags before anything is worked out."""

from __future__ import annotations

import pytest

from gputop.screens.flags.text import flag_lines
from gputop.topology.model.versions import Library
from gputop.widgets.spans import text_of


@pytest.mark.parametrize(
    ("library", "link", "other"),
    [
        (Library(name="nccl", version="2.27.3"), "NVLink", "xGMI"),
        (Library(name="rccl", version="2.27.7"), "xGMI", "NVLink"),
    ],
)
def test_a_flag_has_the_words_of_the_library_while_it_is_worked_out(
    library: Library, link: str, other: str
) -> None:
    lines = flag_lines(None, "NCCL_P2P_DISABLE", 70, library=library)
    text = " ".join(map(text_of, lines))
    assert "working out" in text
    assert link in text
    assert other not in text
