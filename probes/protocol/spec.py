"""What a probe says about itself before it is run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .quantity import Quantity

LEVELS = ("quick", "normal", "full")
"""The useful minimum, what answers the question, and everything."""
LOADS = ("links", "host", "memory", "compute")
"""What a probe can keep busy; two that share one never run at the same time."""


@dataclass(frozen=True)
class ProbeSpec:
    """One probe: its name, what it measures and what that costs."""

    name: str
    """Name on the command line; with underscores the module name in `catalog/`."""
    title: str
    """A few words for a list."""
    measures: str
    """One sentence: what is measured, and how."""
    method: str
    """Name and version of the method; changes whenever figures stop being comparable."""
    minimum_gpus: int
    """Fewer selected GPUs than this are refused."""
    memory_bytes_per_gpu: int
    """GPU memory wanted on every selected GPU; less is used where less is free."""
    start_seconds: float
    """Estimate: importing torch and creating a context, cold."""
    seconds_per_gpu: float
    """Estimate at the level "normal": what grows with every GPU."""
    seconds_per_pair: float
    """Estimate at the level "normal": time for one ordered pair."""
    seconds_alone: float = 0.0
    """Estimate at the level "normal": what does not depend on the number of GPUs."""
    level_factors: Mapping[str, float] = field(
        default_factory=lambda: {"quick": 0.4, "normal": 1.0, "full": 3.0}
    )
    """What the estimates are multiplied by at each level; the start always costs the same."""
    host_memory_bytes: int = 0
    """Host memory wanted at once, all GPUs together."""
    loads: tuple[str, ...] = ("links",)
    """Out of LOADS."""
    private_folder: bool = False
    """Whether it needs a folder of its own while it runs."""
    quantities: tuple[Quantity, ...] = ()
    """Everything it measures, in the order in which people read it."""

    def pairs(self, gpus: int) -> int:
        """Ordered pairs among so many GPUs."""
        return gpus * (gpus - 1)

    def measuring_seconds(self, gpus: int, level: str = "normal") -> float:
        """How long it measures, its start left out: a worker that runs already has none."""
        return self.level_factors[level] * (
            self.seconds_alone
            + self.seconds_per_gpu * gpus
            + self.seconds_per_pair * self.pairs(gpus)
        )

    def estimate_seconds(self, gpus: int, level: str = "normal") -> float:
        """How long a run over so many GPUs should take."""
        return self.start_seconds + self.measuring_seconds(gpus, level)

    def deadline_seconds(self, gpus: int, level: str = "normal") -> float:
        """When to give a run up: six times the estimate and never under a minute.

        Estimates are of NVLink; copies by way of the host take up to five times as long.
        """
        return max(60.0, 6.0 * self.estimate_seconds(gpus, level))


def level_of(params: Mapping[str, Any]) -> str:
    """The level that a request asks for; ProbeStopped for a word that is none."""
    level = params.get("level", "normal")
    if level not in LEVELS:
        raise ProbeStopped("refused", f"The level is one of {', '.join(LEVELS)}.")
    return str(level)


class ProbeStopped(Exception):  # noqa: N818  (a stop is an answer, not an error)
    """Raised by a probe that cannot go on: `error`: no-torch, refused, timed-out or failed."""

    def __init__(self, error: str, text: str) -> None:
        super().__init__(text)
        self.error = error
