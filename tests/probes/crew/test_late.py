"""A rank that is late: the crew says whether it imports still or the driver hangs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import pytest

from gputop.probes.crew.crew import Crew
from gputop.probes.crew.steps import INIT, OPEN
from gputop.probes.protocol.messages import (
    ASKING,
    Done,
    Failure,
    Message,
    Progress,
    WorkerRequest,
    encode,
)

BEGUN = (Progress(0, 2, ASKING), Progress(1, 2, INIT.what))


def made(seconds: float = 1.0) -> Crew:
    """A crew without a rank."""
    return Crew(
        WorkerRequest("nccl"),
        (OPEN, INIT),
        [],
        lambda said: None,
        seconds,
        lambda asked, emit: None,
    )


@pytest.fixture
def that_said(request: pytest.FixtureRequest) -> Callable[..., Crew]:
    """Give a crew whose deadline is over, and whose ranks have said this to nobody so far."""

    def crew_of(*ranks: tuple[Message, ...], end: bool = True) -> Crew:
        crew = made(-1.0)
        for number, said in enumerate(ranks):
            reading, writing = os.pipe()
            os.write(writing, b"".join(encode(message) for message in said))
            if end:
                os.close(writing)
            else:
                request.addfinalizer(partial(os.close, writing))
            replies = os.fdopen(reading, "rb", buffering=0)
            request.addfinalizer(replies.close)
            process = SimpleNamespace(wait=lambda seconds: 0, poll=lambda: 0)
            fields = {"place": 0, "buffer": b"", "done": False, "failure": None}
            crew._ranks.append(
                SimpleNamespace(  # type: ignore[arg-type]
                    number=number, process=process, replies=replies, imported_after=None, **fields
                )
            )
        return crew

    return crew_of


@pytest.mark.parametrize("end", [True, False], ids=["ended", "on its way out"])
def test_ranks_that_were_done_before_the_worker_looked_are_not_late(
    that_said: Callable[..., Crew], end: bool
) -> None:
    """The worker was stopped meanwhile, by Ctrl+Z or for want of a processor."""
    assert that_said((*BEGUN, Done()), (*BEGUN, Done()), end=end).watch() is None


def test_what_ranks_said_before_the_deadline_counts_after_it(
    that_said: Callable[..., Crew],
) -> None:
    refused = Failure("failed", "no space left")
    trouble = that_said((*BEGUN, Done()), (*BEGUN, refused)).watch()
    assert trouble is not None
    assert trouble.text == "rank 1 (rank 1), initialising the communicator: no space left"
    trouble = that_said((*BEGUN, Done()), BEGUN, end=False).watch()
    assert trouble is not None
    assert "rank 1 (rank 1): initialising the communicator" in trouble.text
    assert trouble.step == INIT


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
    crew = made()
    kind = dataclasses.make_dataclass("Rank", ["number", "place", "done", "imported_after"])
    crew._ranks = [kind(0, 1, True, 0.1), kind(1, place, False, imported)]
    trouble = crew._too_late()
    assert trouble.error == error
    assert f"rank 1 (rank 1): {said}" in trouble.text


def test_who_has_no_torch_does_not_import_it() -> None:
    asked = WorkerRequest("nccl", params={"library": "/a/libnccl.so.2"})
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
