"""What a rank for which others wait costs a job, in one wording whoever saw it."""

from ..model.units import percent

MOST_SHARE = 0.99
"""More of the time than this is not told apart from all of it."""


def times_slower(share: float) -> float:
    """How much longer a step takes where ranks wait for this share of the time."""
    return 1 / (1 - min(share, MOST_SHARE))


def price(others: int, share: float, how: str = "", each: str = "", slower: str = "") -> str:
    """The text "the other waits for it about 55 % of the time, so that a step takes ...".

    `how`: "about" or "at least", as far as the share is known; `each`: the same as a time;
    `slower`: how well the price is known by it, where that is something else.
    """
    time = f"{f'{how} ' * bool(how)}{percent(100 * share)} of the time{each}"
    takes = _slower(share, slower or how)
    return f"{who_waits(others)} for it {time}, so that a step takes {takes}"


def at_most(share: float) -> str:
    """What slow links cost where GPUs wait for them, or transfer, for this share of the time."""
    return (
        f"that takes up to {percent(100 * share)} of the time, and a step up to "
        f"{times_slower(share):.2g} times as long"
    )


def who_waits(others: int) -> str:
    """The others, of whom nothing more is said."""
    return "the other waits" if others == 1 else "the others wait"


def in_brief(rank: int, share: float, how: str = "", why: str = "") -> str:
    """Rank and price alone, for a line that has no room for more."""
    return f"rank {rank} is late, a step takes {_slower(share, how)}{f': {why}' if why else ''}"


def _slower(share: float, how: str) -> str:
    return f"{how or 'about'} {times_slower(share):.2g} times as long"
