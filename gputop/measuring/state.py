"""Where a suite stands, as values that the screens and the command line show."""

from __future__ import annotations

from dataclasses import dataclass

ENDED = frozenset(
    {
        "finished", "skipped", "refused", "died", "timed-out", "cancelled", "failed", "no-torch",
        "garbled",
    }
)  # fmt: skip
"""States in which a step is over; before them come "waiting" and "running"."""


@dataclass(frozen=True)
class ProbeStep:
    """One probe of a suite: what it costs, and where it stands."""

    name: str
    """As on the command line: "p2p-concurrent"."""
    title: str
    """A few words for a list."""
    measures: str = ""
    """A sentence on what is measured."""
    estimate_seconds: float = 0.0
    """What it should take in this suite, at its level, over its GPUs."""
    memory_bytes_per_gpu: int = 0
    """What it wants on each GPU; less is accepted where less is free."""
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
    """What it said besides, a line each, as it came: plain text, bounded."""

    @property
    def over(self) -> bool:
        """Whether it has ended, however."""
        return self.state in ENDED


@dataclass(frozen=True)
class SuiteState:
    """A suite: its steps in the order in which they run."""

    steps: tuple[ProbeStep, ...]
    level: str = "normal"
    """"quick", "normal" or "full"."""
    running: bool = True
    started_at: float = 0.0
    """Seconds since the epoch."""
    estimate_seconds: float = 0.0
    """For all steps together, the start of torch included."""
    text: str = ""
    """While it runs: under which Python. At the end: a sentence on how it went."""
    elapsed_seconds: float | None = None
    """None until all of it is over."""
    forcible: bool = False
    """Whether the same wish with force would go on."""

    @property
    def status(self) -> str:
        """How all of it went, in one of ENDED; "running" until then."""
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
        """What the steps that have not ended should still take, by their estimates."""
        left = 0.0
        for step in self.steps:
            if not step.over:
                share = step.done / step.total if step.total else 0.0
                left += step.estimate_seconds * (1.0 - min(1.0, share))
        return left
