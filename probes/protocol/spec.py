"""What a probe declares about itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import WorkerError
from .quantity import Quantity
from .status import ProbeLevel, Status

LOADS = ("links", "host", "memory", "compute")
"""Parts that a probe loads; two probes that share one never run at the same time."""


@dataclass(frozen=True)
class ProbeSpec:
    """The declaration of a probe: name, quantities and cost."""

    name: str
    """Name on the command line; with underscores the module name in `catalog/`."""
    title: str
    """A few words for a list."""
    measures: str
    """One sentence: what is measured, and how."""
    method: str
    """Name and version of the method; it changes when figures stop being comparable."""
    minimum_gpus: int
    """The minimum number of selected GPUs."""
    memory_bytes_per_gpu: int
    """Memory needed on every selected GPU; less is used where less is free."""
    start_seconds: float
    """Estimate for a cold start: importing torch, opening the driver, creating a context."""
    seconds_per_gpu: float
    """Estimate at the level "normal": time for each GPU."""
    seconds_per_pair: float
    """Estimate at the level "normal": time for each ordered pair."""
    seconds_alone: float = 0.0
    """Estimate at the level "normal": time regardless of the number of GPUs."""
    level_factors: Mapping[str, float] = field(
        default_factory=lambda: {"quick": 0.4, "normal": 1.0, "full": 3.0}
    )
    """Factor of the estimates at each level; the start is not multiplied."""
    host_memory_bytes: int = 0
    """Host memory needed at a time for all GPUs."""
    loads: tuple[str, ...] = ("links",)
    """Members of LOADS."""
    needs_torch: bool = True
    """Whether it computes with torch, and may have ranks and a private folder while it runs; else
    any Python runs it, by the driver alone."""
    by_library: bool = False
    """Whether NCCL or RCCL alone will do instead of torch, where the library is found on disk."""
    imports: tuple[str, ...] = ()
    """Modules of torch that several ranks need besides and that take seconds: a worker imports them
    once, while another measures, instead of each rank."""
    quantities: tuple[Quantity, ...] = ()
    """Everything that it measures, in the order in which it is shown."""

    def pairs(self, gpus: int) -> int:
        """The number of ordered pairs of GPUs."""
        return gpus * (gpus - 1)

    def measuring_seconds(self, gpus: int, level: str = "normal") -> float:
        """Estimated time without the start, which a running worker does not need."""
        return self.level_factors[level] * (
            self.seconds_alone
            + self.seconds_per_gpu * gpus
            + self.seconds_per_pair * self.pairs(gpus)
        )

    def estimate_seconds(self, gpus: int, level: str = "normal") -> float:
        """Estimated time of a run with its start."""
        return self.start_seconds + self.measuring_seconds(gpus, level)

    def deadline_seconds(self, gpus: int, level: str = "normal") -> float:
        """Deadline of a run: six times the estimate, at least a minute.

        Estimates are for NVLink; copies through the host take up to five times as long.
        """
        return max(60.0, 6.0 * self.estimate_seconds(gpus, level))


def level_of(params: Mapping[str, Any]) -> str:
    """The level of a request; ProbeStopped for an unknown word."""
    level = params.get("level", "normal")
    if level not in tuple(ProbeLevel):
        raise ProbeStopped(Status.REFUSED, f"The level is one of {', '.join(ProbeLevel)}.")
    return str(level)


class ProbeStopped(WorkerError):  # noqa: N818  (a stop is an answer, not an error)
    """Raised by a probe that cannot go on. `error`: no-torch, refused, timed-out or failed."""

    def __init__(self, error: Status, text: str) -> None:
        super().__init__(text)
        self.error = error
