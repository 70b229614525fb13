"""Runs the trials and prints the table of docs/fleet-method.md."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

from gputop.topology.fleet.planning.culprits import Culprit
from gputop.topology.fleet.planning.looks import NetLook
from gputop.topology.fleet.planning.plan import LOOK_SECONDS, MORE, FleetPlan, PlanRequest, plan

from .cluster import NAMES, SEVERAL, Cluster, PlantedFault, cluster, faults

TRIALS = {64: 400, 1_000: 80, 10_000: 5}
MOST_ROUNDS = 40
NONE = "none"


@dataclass(slots=True)
class TrialScore:
    """What all trials of one kind gave."""

    trials: int = 0
    planted: int = 0
    found: int = 0
    accused: int = 0
    """Nodes accused without a fault."""
    nodes: int = 0
    """Nodes without a fault, over all trials."""
    rounds: int = 0
    most_rounds: int = 0
    node_seconds: float = 0.0
    slowest: float = 0.0
    """The most CPU time that planning one round took, in seconds."""


def trial(made: Cluster, name: str, looks_each: int, score: TrialScore) -> None:
    """Plant, then plan and measure until the plan is done."""
    planted = faults(made, name) if name != NONE else []
    made.plant(planted)
    wish = PlanRequest(made.hosts, made.fabric, looks=looks_each)
    looks: list[NetLook] = []
    number = 0
    for number in range(MOST_ROUNDS):
        if number == 0 or wish.scale is False:
            began = time.process_time()
            planned = plan(wish, looks)
            score.slowest = max(score.slowest, time.process_time() - began)
        if planned.verdict != MORE:
            break
        looks += measured(made, planned)
        score.node_seconds += planned.node_seconds
    rounds = number
    if name == "only at scale":
        planned, more = _scaled(made, looks, score)
        rounds += more
    score.trials += 1
    score.rounds += rounds
    score.most_rounds = max(score.most_rounds, rounds)
    _count(made, planted, planned.culprits, score)


def _scaled(made: Cluster, looks: list[NetLook], score: TrialScore) -> tuple[FleetPlan, int]:
    """The rounds of sets, after those of pairs."""
    wish = PlanRequest(made.hosts, made.fabric, scale=True)
    for number in range(MOST_ROUNDS):
        planned = plan(wish, looks)
        if planned.verdict != MORE:
            return planned, number
        looks += measured(made, planned)
        score.node_seconds += planned.node_seconds
    return planned, MOST_ROUNDS


def measured(made: Cluster, planned: FleetPlan) -> list[NetLook]:
    """What the nodes give for one round."""
    found = [
        made.pair(pair.first, pair.second, planned.number)
        for pair in planned.pairs
        for _ in range(pair.looks)
    ]
    return found + [made.set_of(one, planned.number) for one in planned.sets]


def _count(
    made: Cluster, planted: list[PlantedFault], culprits: tuple[Culprit, ...], score: TrialScore
) -> None:
    sick = {fault.host for fault in planted} | {h for fault in planted for h in fault.group}
    wrong: set[str] = set()
    for culprit in culprits:
        if any(fault.named_by(culprit) for fault in planted):
            continue
        wrong |= set(culprit.hosts) or set(made.hosts)
    score.planted += len(planted)
    score.found += sum(any(f.named_by(c) for c in culprits) for f in planted)
    score.accused += len(wrong - sick)
    score.nodes += len(made.hosts)


def main() -> None:
    """Print one row for each size and fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, action="append", help="64, 1000, 10000")
    parser.add_argument("--trials", type=int)
    parser.add_argument("--looks", type=int, default=1, help="looks at each pair of round 1 and 2")
    parser.add_argument("--fault", action="append", choices=(NONE, *NAMES, SEVERAL))
    parser.add_argument("--seed", type=int, default=19)
    given = parser.parse_args()
    print("| nodes | fault | trials | planted | found | falsely accused | rounds, mean (most) |"
        " node-hours a fleet | CPU to plan a round, most |")  # fmt: skip
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for size in given.nodes or TRIALS:
        for name in given.fault or (NONE, *NAMES, SEVERAL):
            score = TrialScore()
            for number in range(given.trials or TRIALS[size]):
                made = cluster(size, hash((given.seed, size, number, len(name))))
                trial(made, name, given.looks, score)
            print(row(size, name, score), flush=True)
        print(f"| {size:,} | round-robin, every pair once | | | | | {size - 1:,} |"
            f" {size * (size - 1) * LOOK_SECONDS / 3600:,.0f} | |")  # fmt: skip
        print(f"| {size:,} | all pairs, one after the other | | | | | {size * (size - 1) // 2:,} |"
            f" {size * (size - 1) * LOOK_SECONDS / 3600:,.0f} | |", flush=True)  # fmt: skip


def row(size: int, name: str, score: TrialScore) -> str:
    """One line of the table."""
    found = f"{score.found} ({score.found / score.planted:.1%})" if score.planted else "-"
    return (
        f"| {size:,} | {name} | {score.trials} | {score.planted} | {found} |"
        f" {score.accused} of {score.nodes:,} ({score.accused / score.nodes:.3%}) |"
        f" {score.rounds / score.trials:.1f} ({score.most_rounds}) |"
        f" {score.node_seconds / score.trials / 3600:,.1f} | {score.slowest:.2f} s |"
    )


if __name__ == "__main__":
    main()
