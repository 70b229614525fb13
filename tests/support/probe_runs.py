"""One probe in a worker of its own."""

from __future__ import annotations

import threading
from pathlib import Path

from gputop.probes.protocol.messages import WorkerRequest
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.runner.client import WORKER, Listener, Session


def run_probe(
    request: WorkerRequest,
    interpreter: str,
    on_event: Listener,
    deadline_seconds: float,
    cancel: threading.Event,
    *,
    worker: Path = WORKER,
    torch: bool = False,
) -> Outcome:
    """Run the probe and wait for its end."""
    with Session(interpreter, cancel, worker=worker, torch=torch) as session:
        return session.run(request, on_event, deadline_seconds, last=True)
