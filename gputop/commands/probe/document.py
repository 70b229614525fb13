"""The answer of `gputop probe` as JSON and as an exit code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from gputop import __version__
from gputop.exits import ANSWERED, CANNOT_TELL, FAILURES, INTERRUPTED, WARNINGS
from gputop.measuring.expected import Expectations, as_json
from gputop.measuring.quantities import quantity_of
from gputop.probes.protocol.status import Status

if TYPE_CHECKING:
    from gputop.measuring.nccl_check import NcclCheck
    from gputop.measuring.state import ProbeRun

SCHEMA = "gputop.probe/1"
EXIT_CODES = {
    Status.FINISHED: ANSWERED,
    Status.SKIPPED: ANSWERED,
    Status.TIMED_OUT: FAILURES,
    Status.CANCELLED: INTERRUPTED,
}
"""Status -> exit code; every other status leaves the question open."""
LIVE = ("live",)
_GRAVITY = (ANSWERED, WARNINGS, CANNOT_TELL, FAILURES, INTERRUPTED)


def exit_code(run: ProbeRun, *, low: bool = False) -> int:
    """The exit code of one probe: 2 for wrong bytes and for a collective that never finishes.

    `low`: some figure is too low, which is 1 unless something else is worse.
    """
    code = EXIT_CODES.get(run.status, CANNOT_TELL)
    broken = any(
        figure.verdict in (*quantity_of(figure).broken, "wrong-data") for figure in run.measurements
    )
    if broken and run.status in (Status.FINISHED, Status.FAILED, Status.TIMED_OUT):
        return FAILURES
    return max(code, WARNINGS) if low else code


def worst(codes: Iterable[int]) -> int:
    """The exit code of several probes: "broken" counts more than "cannot tell"."""
    return max(codes, key=_GRAVITY.index)


def document(
    run: ProbeRun,
    check: NcclCheck | None,
    expectations: Expectations | None = None,
    source: Sequence[str] = LIVE,
) -> dict[str, Any]:
    """The answer of one probe as one JSON object, schema gputop.probe/1.

    `source`: that of the node. "simulated" is true for a demo, where nothing is measured.
    "expected" of each measurement is its reference, null where nothing was judged.
    """
    known = expectations or Expectations(run.measurements)
    outcome = run.outcome
    chosen = None if run.choice is None else run.choice.chosen
    answer: dict[str, Any] = {
        "schema": SCHEMA,
        "gputop": __version__,
        "source": list(source),
        "simulated": _simulated(source),
        "assumptions": [*run.blind, *(check.assumptions if check is not None else ())],
        "probe": run.request.probe,
        "level": run.request.level,
        "gpus": list(run.request.addresses),
        "status": outcome.status,
        "message": outcome.message,
        "elapsed_seconds": outcome.elapsed_seconds,
        "interpreter": None
        if chosen is None or _simulated(source)
        else {"path": chosen.path, "how_found": chosen.how_found},
        "versions": dict(run.measurements[0].versions) if run.measurements else {},
        "measurements": [
            {**msgspec.to_builtins(figure), "expected": as_json(judgement)}
            for figure, judgement in known.pairs()
        ],
        "four_numbers": [line.text for line in known.main],
        "patterns": [pattern.text for pattern in known.patterns],
        "notes": [
            {"topic": note.topic, "text": note.text, "details": dict(note.details)}
            for note in outcome.notes
        ],
    }
    if outcome.logs or check is not None:
        answer["ranks"] = _ranks(run)
        answer["check"] = None if check is None else msgspec.to_builtins(check)
    return answer


def _simulated(source: Sequence[str]) -> bool:
    return tuple(source) != LIVE


def _ranks(run: ProbeRun) -> list[dict[str, Any]]:
    """The device of each rank and the size of its log."""
    outcome = run.outcome
    used = () if outcome.hello is None else outcome.hello.devices
    return [
        {
            "rank": rank,
            "device": used[rank].key if rank < len(used) else None,
            "uuid": used[rank].uuid if rank < len(used) else None,
            "log_lines": outcome.log_of(rank).count("\n"),
            "log_bytes_left_out": sum(p.cut_bytes for p in outcome.logs if p.rank == rank),
        }
        for rank in outcome.ranks_logged()
    ]


def several(documents: Sequence[dict[str, Any]], source: Sequence[str] = LIVE) -> dict[str, Any]:
    """The answers of several probes as one JSON object; a single answer stays unchanged."""
    if len(documents) == 1:
        return documents[0]
    return {
        "schema": SCHEMA,
        "gputop": __version__,
        "source": list(source),
        "simulated": _simulated(source),
        "assumptions": [],
        "runs": list(documents),
    }
