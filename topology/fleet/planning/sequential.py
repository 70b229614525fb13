"""When repeated looks prove a link sick or well: Wald's sequential probability ratio test.

A. Wald, "Sequential Tests of Statistical Hypotheses", Annals of Mathematical Statistics 16 (1945).
Each look at a suspect is bad or good. "Well" means that at most one look in a hundred is bad (other
jobs' traffic, a late start); "sick" means three in ten or more: the weakest flapping that is
promised to be found. The look that made a suspect of it is not counted, as it was selected for
being bad out of many. Both error rates hold for one suspect, whatever number of looks it takes.
"""

from __future__ import annotations

import math

WELL_RATE = 0.01
"""Share of bad looks of a link with nothing wrong, at most."""
SICK_RATE = 0.3
"""Share of bad looks of a link that flaps."""
FALSE_ACCUSATION = 1e-4
"""Probability that a suspect with nothing wrong is accused, at most (Wald's bound)."""
FALSE_ACQUITTAL = 0.01
"""Probability that a suspect that flaps at SICK_RATE is acquitted, at most."""
BAD_WEIGHT = math.log(SICK_RATE / WELL_RATE)
GOOD_WEIGHT = math.log((1 - SICK_RATE) / (1 - WELL_RATE))
UPPER = math.log((1 - FALSE_ACQUITTAL) / FALSE_ACCUSATION)
LOWER = math.log(FALSE_ACQUITTAL / (1 - FALSE_ACCUSATION))
SICK, WELL, OPEN = "sick", "well", "open"


def ratio(bad: int, good: int) -> float:
    """Logarithm of the likelihood of these looks for a sick link over that for a well one."""
    return bad * BAD_WEIGHT + good * GOOD_WEIGHT


def decided(bad: int, good: int) -> str:
    """What so many looks prove: SICK (3 bad and at most 2 good do), WELL (14 good do), or OPEN."""
    found = ratio(bad, good)
    return SICK if found >= UPPER else WELL if found <= LOWER else OPEN


def clean_looks() -> int:
    """Good looks in a row that acquit a suspect: 14."""
    return math.ceil(LOWER / GOOD_WEIGHT)


def missed(looks: int, rate: float = SICK_RATE) -> float:
    """Probability that so many looks at a link that is bad at this rate are all good."""
    return (1 - rate) ** looks


def outcome(rate: float, looks: int) -> dict[str, float]:
    """The probability of each end after at most so many looks at a suspect bad at this rate.

    Computed exactly, look by look, not from Wald's bounds.
    """
    open_: dict[int, float] = {0: 1.0}
    ends = {SICK: 0.0, WELL: 0.0, OPEN: 0.0}
    for count in range(1, looks + 1):
        after: dict[int, float] = {}
        for bad, chance in open_.items():
            for more, share in ((1, rate), (0, 1 - rate)):
                end = decided(bad + more, count - bad - more)
                if end == OPEN:
                    after[bad + more] = after.get(bad + more, 0.0) + chance * share
                else:
                    ends[end] += chance * share
        open_ = after
    ends[OPEN] = sum(open_.values())
    return ends
