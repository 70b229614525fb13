"""The steps of a run: the same list in every rank and in the worker.

So the worker can name the step in which a rank failed, and a rank without a part in a step skips it
without communication.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MIB = 1 << 20


@dataclass(frozen=True)
class Step:
    """One step; ranks without a part in it go on to the next."""

    name: str
    """"open" comes first in every list; the probe names the others."""
    what: str
    """What the step does, in words."""
    size_bytes: int = 0
    src: int = -1
    dst: int = -1
    """Ranks that take part; -1 if all do."""
    first: bool = False
    """The all-reduce that answers whether a collective finishes."""
    variant: str = ""
    """Which variant of the step to take."""

    def takes_part(self, rank: int) -> bool:
        """Whether this rank takes part."""
        return self.src < 0 or rank in (self.src, self.dst)


OPEN = Step("open", "loading the library, opening the GPUs")
"""The first step of every list, which `rank.run_rank` takes itself."""
INIT = Step("init", "initialising the communicator")

Steps = Callable[[int, Mapping[str, Any], bool], tuple[Step, ...]]
"""Returns all steps of a run in order, `OPEN` first. Its arguments are the number of ranks, the
parameters of the request, and whether this is the self-test on the CPU."""
