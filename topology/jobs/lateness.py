"""What a rank for which others wait costs a job, in one wording whoever saw it."""

from ..model.severity import Word
from ..model.units import percent


class Lateness(Word):
    """How a rank is late: its program calls late, so its GPU is idle, or its GPU has more work."""

    HOST = "host"
    GPU = "GPU"


MOST_SHARE = 0.99
"""More of the time than this is not told apart from all of it."""


def times_slower(share: float) -> float:
    """How much longer a step takes where ranks wait for this share of the time."""
    return 1 / (1 - min(share, MOST_SHARE))


def is_late(rank: int, price: str, why: str = "", *, then: bool = False) -> str:
    """The rank, its price and the reason: "rank 1 is late, a step takes about 2.2 times as long".

    `price`: of `about`, `between` or `at_most_slower`; `then`: in the past.
    """
    late, takes = ("was late", "took") if then else ("is late", "takes")
    return f"rank {rank} {late}, a step {takes} {price}{f': {why}' if why else ''}"


def about(share: float) -> str:
    """How much longer a step takes where it loses this share of its time."""
    return f"about {_times(share)}"


def between(least: float, most: float) -> str:
    """The same where only two bounds of the share are known."""
    if most > MOST_SHARE:
        return f"at least {_times(least)}"
    low, high = _figure(least), _figure(most)
    return f"between {low} and {high} times as long" if low != high else about(least)


def at_most_slower(share: float) -> str:
    """The same where the share is known to be no larger."""
    return f"{_times(share)} at most"


def wait_for_it(
    others: int, share: float, how: str = "", each: str = "", *, then: bool = False
) -> str:
    """What goes on behind it: "the other waits for it about 55 % of the time, 28 ms in each".

    `how`: "about" or "at least", as far as the share is known; `each`: the same as a time.
    """
    time = f"{f'{how} ' * bool(how)}{percent(100 * share)} of the time{each}"
    return f"{who_waits(others, then=then)} for it {time}"


def at_most(share: float) -> str:
    """What slow links cost where GPUs wait for them, or transfer, for this share of the time."""
    return f"that takes up to {percent(100 * share)} of the time, and a step up to {_times(share)}"


def bound_by_records(share: float) -> str:
    """The same where only the transfers are known, beside which GPUs may compute."""
    return (
        f"it is not known how much longer a step takes by that: {at_most_slower(share)}, and less "
        "where its GPUs compute meanwhile, which records do not show"
    )


def who_waits(others: int, *, then: bool = False) -> str:
    """The others, of whom nothing more is said."""
    if then:
        return "the other waited" if others == 1 else "the others waited"
    return "the other waits" if others == 1 else "the others wait"


def _times(share: float) -> str:
    return f"{_figure(share)} times as long"


def _figure(share: float) -> str:
    """Two digits, "2.2", "57"."""
    times = times_slower(share)
    return f"{times:.2g}" if times < 10 else f"{times:.0f}"
