"""The state of a suite, as the screens and the command line show it."""

from __future__ import annotations

from dataclasses import dataclass

ENDED = frozenset(
    {
        "finished", "skipped", "refused", "died", "timed-out", "cancelled", "failed", "no-torch",
        "garbled",
    }
)  # fmt: skip
"""States of a step that is over; before them it is "waiting" or "running"."""


@dataclass(frozen=True)
class ProbeStep:
    """One probe of a suite: its cost and its state."""

    name: str
    """Its name on the command line: "p2p-concurrent"."""
    title: str
    """A few words for a list."""
    measures: str = ""
    """A sentence on what is measured."""
    estimate_seconds: float = 0.0
    """Expected time at the level and on the GPUs of this suite."""
    memory_bytes_per_gpu: int = 0
    """Memory that it needs on each GPU; it takes less where less is free."""
    minimum_gpus: int = 1
    state: str = "waiting"
    """"waiting", "running", or one of ENDED."""
    done: int = 0
    total: int = 0
    """0 until the probe has said how many steps it takes."""
    what: str = ""
    """What is measured right now."""
    text: str = ""
    """Why it ended as it did, or why it is skipped; one sentence."""
    elapsed_seconds: float | None = None
    """None until it has ended."""
    figures: int = 0
    """How many figures have arrived."""
    notes: tuple[str, ...] = ()
    """Lines of its notes as plain text, in the order in which they came; bounded."""

    @property
    def over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.state in ENDED


@dataclass(frozen=True)
class SuiteState:
    """The state of a suite; its steps are in the order in which they run."""

    steps: tuple[ProbeStep, ...]
    level: str = "normal"
    """"quick", "normal" or "full"."""
    running: bool = True
    started_at: float = 0.0
    """Seconds since the epoch."""
    estimate_seconds: float = 0.0
    """Expected time for all steps, with the start of torch."""
    text: str = ""
    """The Python in use while it runs; at the end one sentence on the result."""
    elapsed_seconds: float | None = None
    """None until the suite is over."""
    forcible: bool = False
    """Whether the same request would run with `force`."""
    simulated: bool = False
    """Whether it belongs to a demo, on which nothing is measured."""

    @property
    def status(self) -> str:
        """The result of the suite, one of ENDED; "running" until then."""
        states = [step.state for step in self.steps]
        if self.running:
            return "running"
        for word in ("cancelled", "finished"):
            if word in states:
                return word
        return next((state for state in states if state != "skipped"), "skipped")

    @property
    def current(self) -> ProbeStep | None:
        """The step that runs."""
        return next((step for step in self.steps if step.state == "running"), None)

    def step(self, name: str) -> ProbeStep | None:
        """The step of that name."""
        return next((step for step in self.steps if step.name == name), None)

    @property
    def left_seconds(self) -> float:
        """Expected time for the steps that have not ended."""
        left = 0.0
        for step in self.steps:
            if not step.over:
                share = step.done / step.total if step.total else 0.0
                left += step.estimate_seconds * (1.0 - min(1.0, share))
        return left
