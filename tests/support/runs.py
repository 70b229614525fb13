"""Runs of probes and their suites, as they stand at some moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputop.answers.figures import WIDTH, blocks_of
from gputop.measuring.expected import Expectations
from gputop.measuring.state import ProbeRequest, ProbeRun, SuiteState
from gputop.printing.render import texts
from gputop.probes import catalog
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.protocol.status import Status


def run_of(name: str = "p2p", status: str = "finished", text: str = "", **more: Any) -> ProbeRun:
    given: dict[str, Any] = {
        "request": ProbeRequest(probe=name, addresses=()),
        "outcome": Outcome(Status(status), text, 1.0),
    }
    spec = catalog.load(name).SPEC
    return ProbeRun(spec=spec, status=Status(status), text=text, **(given | more))


def suite_of(*runs: ProbeRun, **more: Any) -> SuiteState:
    """The suite of these runs; it is over where all of them are."""
    given: dict[str, Any] = {
        "running": not all(run.over for run in runs),
        "text": runs[0].text if len(runs) == 1 else "",
    }
    return SuiteState(steps=runs, **(given | more))


def figures_text(known: Expectations, names: Mapping[str, str]) -> str:
    """What the command prints of figures."""
    return "\n".join(texts(blocks_of(known, names), WIDTH))
