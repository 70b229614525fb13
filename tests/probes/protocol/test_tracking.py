"""How far a probe is, in its messages."""

from __future__ import annotations

from gputop.probes.protocol.messages import Message, Progress
from gputop.probes.protocol.timing import sample
from gputop.probes.protocol.tracking import Track


def test_the_figure_of_a_step_is_told_before_it_is_settled() -> None:
    said: list[Message] = []
    track = Track(said.append)
    track.step(1, 4, "a to b")
    track.so_far(396.44)
    track.so_far_of((24.0, 24.26, 25.0))
    assert said == [
        Progress(1, 4, "a to b"),
        Progress(1, 4, "a to b: 396 GB/s so far"),
        Progress(1, 4, "a to b: 24.3 GB/s so far"),
    ]


def test_every_sample_is_told_but_the_last_which_ends_the_figure() -> None:
    answers, told = iter([3.0, 1.0, 2.0]), list[tuple[float, ...]]()
    assert sample(lambda: next(answers), 3, told.append).samples == (3.0, 1.0, 2.0)
    assert told == [(3.0,), (3.0, 1.0)]
