"""A plan as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gputop.topology.fleet.hosts import fold
from gputop.topology.fleet.planning.plan import CLEAR, FOUND, MORE, FleetPlan
from gputop.topology.fleet.planning.sequential import SICK_RATE, missed

_SHOWN = 20
_HEADS = {
    FOUND: "Culprits are named, and nothing is open.",
    CLEAR: "Nothing is wrong that these rounds can show.",
}


def lines(
    plan: FleetPlan, assumptions: Sequence[str], unanswered: Mapping[int, int]
) -> Iterator[str]:
    """The verdict, what is accused and open, the next round, and what is taken for granted."""
    yield _round(plan) if plan.verdict == MORE else _HEADS.get(plan.verdict, "Cannot tell.")
    if plan.verdict == MORE:
        yield from _costs(plan)
    else:
        yield f"  {plan.measured} looks at {len(plan.wish.hosts)} nodes"
    if plan.culprits:
        yield "Accused:"
        for culprit in plan.culprits[:_SHOWN]:
            yield f"  ✗ {culprit.said}"
            yield f"      {culprit.because}"
        yield from _more(len(plan.culprits))
    suspects = plan.found.suspects
    if suspects or plan.found.switches or plan.candidates:
        yield "Suspected, not proven:"
        for suspicion in plan.found.switches:
            yield f"  ▲ switch {' or '.join(suspicion.switches)}, or its uplinks"
        if suspects:
            yield f"  ▲ {fold(one.host for one in suspects)}"
        if plan.candidates:
            yield f"  ▲ one of {fold(plan.candidates)}, in larger jobs only"
    notes = [
        *(
            f"round {number}: {count} pair{'s' * (count != 1)} gave no file; if it still runs,"
            " wait for it"
            for number, count in sorted(unanswered.items())
        ),
        *plan.doubts,
    ]
    if notes:
        yield "Not known:"
        for note in notes:
            yield f"  ? {note}"
    yield "Assumed:"
    for text in assumptions:
        yield f"  {text}"
    if plan.verdict == MORE:
        yield "Run it: --format sbatch (or hostfile, json), then plan again with the same folder."


def _round(plan: FleetPlan) -> str:
    if plan.sets:
        sizes = f"{len(plan.sets)} set{'s' * (len(plan.sets) > 1)} of {len(plan.sets[0])} nodes"
        return f"Round {plan.number}: {sizes}."
    busy = len(plan.wish.hosts) - len(plan.idle)
    count = len(plan.pairs)
    head = f"Round {plan.number}: {count} pair{'s' * (count != 1)} of {busy} nodes, each node once"
    # One of an odd number has no partner; many are left alone where they were measured enough.
    return f"{head}; {plan.idle[0]} waits." if len(plan.idle) == 1 else f"{head}."


def _costs(plan: FleetPlan) -> Iterator[str]:
    rounds, node_seconds = plan.expected
    yield (
        f"  this round: {plan.seconds:,.0f} s with all at the same time,"
        f" {plan.node_seconds:,.0f} node-seconds"
    )
    if plan.sets:
        yield "  how many rounds of sets follow depends on the size from which the fault shows"
        return
    yield (
        f"  in all: {rounds} round{'s' * (rounds > 1)} and {node_seconds:,.0f} node-seconds while"
        " nothing is suspected;"
    )
    yield f"  every pair once would take {len(plan.wish.hosts) - 1:,} rounds"
    looks = plan.wish.rounds * plan.wish.looks
    yield (
        f"  what is always bad shows in one look; a link that is bad in {SICK_RATE:.0%} of looks"
        f" is missed by {looks} with {missed(looks):.1%} (--looks, --rounds)"
    )


def _more(count: int) -> Iterator[str]:
    if count > _SHOWN:
        yield f"  and {count - _SHOWN} more; --json has all"
