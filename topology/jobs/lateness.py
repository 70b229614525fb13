"""What a rank for which others wait costs a job, in one wording whoever saw it."""

from ..model.units import percent

MOST_SHARE = 0.99
"""More of the time than this is not told apart from all of it."""


def times_slower(share: float) -> float:
    """How much longer a step takes where ranks wait for this share of the time."""
    return 1 / (1 - min(share, MOST_SHARE))


def is_late(rank: int, share: float, how: str = "", why: str = "", *, then: bool = False) -> str:
    """The rank, its price and the reason: "rank 1 is late, a step takes about 2.2 times as long".

    `share`: of the time, for which others wait for it; `how`: how well the price is known by it;
    `then`: in the past.
    """
    late, takes = ("was late", "took") if then else ("is late", "takes")
    return f"rank {rank} {late}, a step {takes} {_slower(share, how)}{f': {why}' if why else ''}"


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
    return (
        f"that takes up to {percent(100 * share)} of the time, and a step up to "
        f"{times_slower(share):.2g} times as long"
    )


def who_waits(others: int, *, then: bool = False) -> str:
    """The others, of whom nothing more is said."""
    if then:
        return "the other waited" if others == 1 else "the others waited"
    return "the other waits" if others == 1 else "the others wait"


def _slower(share: float, how: str) -> str:
    return f"{how or 'about'} {times_slower(share):.2g} times as long"
