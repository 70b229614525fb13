"""A step of a run over several ranks: the same list in every rank and in the process that watches.

So the watcher can name what a rank was at when it failed, and ranks that take no part in a step go
on to the next without a word.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MIB = 1 << 20


@dataclass(frozen=True)
class Step:
    """One step; ranks that take no part in it go on to the next."""

    kind: str
    """"open" comes first in every list; the others are the probe's own words."""
    what: str
    """In words."""
    size_bytes: int = 0
    src: int = -1
    dst: int = -1
    """Ranks that take part; -1 where all do."""
    first: bool = False
    """The all-reduce that answers whether a collective finishes."""
    variant: str = ""
    """Which of several ways to do it."""

    def takes_part(self, rank: int) -> bool:
        """Whether this rank has something to do."""
        return self.src < 0 or rank in (self.src, self.dst)


OPEN = Step("open", "importing torch, opening the GPUs")
"""The first step of every list: what `rank.run_rank` does before it asks the probe."""
INIT = Step("init", "initialising the communicator")

Steps = Callable[[int, Mapping[str, Any], bool], tuple[Step, ...]]
"""All steps of a run, in order, `OPEN` first: a pure function of the number of ranks, the request's
parameters, and whether it is the self-test on the CPU."""
