"""What a probe says about itself before it is run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProbeSpec:
    """One probe: its name, what it measures and what that costs."""

    name: str
    """Name on the command line; also the module name in `catalog/`."""
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
    """Estimate: set-up that grows with every GPU."""
    seconds_per_pair: float
    """Estimate: time for one ordered pair."""
    private_folder: bool = False
    """Whether it needs a folder of its own while it runs."""

    def pairs(self, gpus: int) -> int:
        """Ordered pairs among so many GPUs."""
        return gpus * (gpus - 1)

    def estimate_seconds(self, gpus: int) -> float:
        """How long a run over so many GPUs should take."""
        return (
            self.start_seconds
            + self.seconds_per_gpu * gpus
            + self.seconds_per_pair * self.pairs(gpus)
        )

    def deadline_seconds(self, gpus: int) -> float:
        """When to give a run up: four times the estimate and never under a minute."""
        return max(60.0, 4.0 * self.estimate_seconds(gpus))


class ProbeStopped(Exception):  # noqa: N818  (a stop is an answer, not an error)
    """Raised by a probe that cannot go on: `error`: no-torch, refused, timed-out or failed."""

    def __init__(self, error: str, text: str) -> None:
        super().__init__(text)
        self.error = error
