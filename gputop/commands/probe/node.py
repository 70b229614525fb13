"""Reads the node to measure and selects its GPUs."""

from __future__ import annotations

from gputop import __version__
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.measuring.selection import SelectionError, measurable, select
from gputop.reading import read_snapshot, settle
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.sources.live import LiveFeed


def live_snapshot() -> NodeSnapshot:
    """Read this machine for predictions and verdicts; raises Exit where it has no GPU."""
    snapshot = settle(LiveFeed(version=__version__, thorough=True))
    if not snapshot.machine.gpus:
        reasons = "; ".join(dict.fromkeys(problem.text for problem in snapshot.problems))
        raise Exit(f"no GPU to measure{': ' + reasons if reasons else ''}", CANNOT_TELL)
    return snapshot


def demo_snapshot(name: str) -> NodeSnapshot:
    """Read a demo; its probes are simulated."""
    return read_snapshot((), name)


def chosen(gpus: str | None, snapshot: NodeSnapshot) -> tuple[str, ...]:
    """PCI addresses of --gpus, else of all visible GPUs; raises Exit for an unknown GPU."""
    try:
        return measurable(snapshot) if gpus is None else select(gpus, snapshot.machine)
    except SelectionError as error:
        raise Exit(str(error), USAGE) from error
