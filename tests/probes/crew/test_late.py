"""A rank that is late: the crew says whether it imports still or the driver hangs."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest

from gputop.probes.crew.crew import Crew
from gputop.probes.crew.steps import INIT, OPEN
from gputop.probes.protocol.messages import Request


def made() -> Crew:
    """A crew without a rank."""
    return Crew(Request("nccl"), (OPEN, INIT), [], lambda said: None, 1.0, lambda asked, emit: None)


@pytest.mark.parametrize(
    ("place", "imported", "error", "said"),
    [
        (0, None, "failed", "importing torch"),
        (0, 0.1, "timed-out", "asking the driver"),
        (0, 0.9, "failed", "asking the driver"),
        (1, 0.1, "timed-out", "initialising"),
        (1, 0.9, "failed", "initialising"),
    ],
)
def test_a_rank_that_still_imports_is_no_collective_that_hangs(
    place: int, imported: float | None, error: str, said: str
) -> None:
    """A driver that hangs is one to tell, unless the import left it next to no time."""
    crew = Crew(
        Request("nccl"), (OPEN, INIT), [], lambda message: None, 1.0, lambda request, emit: None
    )
    kind = dataclasses.make_dataclass("Rank", ["number", "place", "done", "imported_after"])
    crew._ranks = [kind(0, 1, True, 0.1), kind(1, place, False, imported)]
    trouble = crew._too_late()
    assert trouble.error == error
    assert f"rank 1 (rank 1): {said}" in trouble.text


def test_who_has_no_torch_does_not_import_it() -> None:
    asked = Request("nccl", params={"library": "/a/libnccl.so.2"})
    crew = Crew(asked, (OPEN, INIT), [], lambda said: None, 1.0, lambda request, emit: None)
    late = SimpleNamespace(number=0, place=0, done=False, imported_after=None)
    crew._ranks = [late]  # type: ignore[list-item]
    assert crew._too_late().text.endswith("rank 0 (rank 0): loading the library, opening the GPUs.")


def test_an_answer_that_is_none_is_named() -> None:
    crew = made()
    rank = SimpleNamespace(number=1, place=0, done=False, failure=None)
    crew._ranks = [rank]  # type: ignore[list-item]
    crew._take(rank, b"\x1b[31mthis is no answer")  # type: ignore[arg-type]
    trouble = crew._trouble()
    assert trouble is not None
    assert trouble.error == "failed"
    assert "rank 1" in trouble.text
    assert "its answer is none" in trouble.text
    assert "\x1b" not in trouble.text
