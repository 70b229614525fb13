"""A round as a batch script of Slurm, and as hostfiles for mpirun.

The tasks of a job array cannot be sent to nodes of their own choice: all share one --nodelist. So
the script is one job over all nodes of the round, with one job step for each pair.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...model.copied import held
from ..hosts import fold, in_order
from .folder import PLAN
from .plan import FleetPlan

AT_ONCE = 1000
"""Job steps in flight: each is an srun on the first node of the job, some MB and a few threads."""
SLACK = 1.5
"""The time limit of the job over the planned time."""
_PAIR_DEADLINE = 120
"""What `gputop probe net` takes at most, its default deadline."""


def sbatch(plan: FleetPlan, folder: str, version: str) -> str:
    """The script; results go to `folder`, an absolute path that all nodes see.

    The job leaves the plan there, so that a pair that gave no file is missed later.

    Raises RefusedError for names that no script can hold, as `hostfiles` does.
    """
    hosts = _hosts(plan)
    looks = max((pair.looks for pair in plan.pairs), default=1)
    waves = -(-max(len(plan.pairs), len(plan.sets)) // AT_ONCE)
    minutes = max(5, int(waves * looks * _PAIR_DEADLINE * SLACK / 60) + 1)
    lines = [
        "#!/bin/bash",
        f"# Round {plan.number} of gputop fleet plan: {_counted(plan)}.",
        f"#SBATCH --job-name=gputop-fleet-{plan.number}",
        f"#SBATCH --nodes={len(hosts)}",
        f"#SBATCH --nodelist={fold(hosts)}",
        "#SBATCH --ntasks-per-node=1",
        "#SBATCH --exclusive",
        "#SBATCH --no-kill",
        f"#SBATCH --time={minutes}",
        "# Add what your site asks for: --partition, --account, --gpus-per-node.",
        held("results={:folder}", folder),
        f"at_once={AT_ONCE}",
        "",
        "# What later rounds need to know of this one.",
        f"cat > \"$results/plan-{plan.number}.json\" << 'PLAN'",
        _kept(plan, version),
        "PLAN",
        "",
        *(_set_lines(plan) if plan.sets else _pair_lines(plan)),
    ]
    return "\n".join(lines) + "\n"


def hostfiles(plan: FleetPlan) -> dict[str, str]:
    """File name -> hosts, one a line: one file for each pair or set of the round."""
    _hosts(plan)
    files = {
        f"pair-{plan.number}-{place}.hosts": f"{pair.first}\n{pair.second}\n"
        for place, pair in enumerate(plan.pairs, 1)
    }
    for place, one in enumerate(plan.sets, 1):
        files[f"set-{plan.number}-{place}.hosts"] = "".join(f"{host}\n" for host in one)
    return files


def _hosts(plan: FleetPlan) -> list[str]:
    """The nodes of the round."""
    hosts = {host for pair in plan.pairs for host in (pair.first, pair.second)}.union(*plan.sets)
    if hosts:
        held("{:name}", [*hosts])
    return in_order(hosts)


def _kept(plan: FleetPlan, version: str) -> str:
    """What later rounds need of the plan, as one line of JSON."""
    kept = {
        "schema": PLAN,
        "gputop": version,
        "round": plan.number,
        "hosts": fold(plan.wish.hosts),
        "pairs": [{"a": pair.first, "b": pair.second} for pair in plan.pairs],
        "sets": plan.sets,
    }
    return msgspec.json.encode(kept).decode()


def _counted(plan: FleetPlan) -> str:
    if plan.sets:
        return f"{len(plan.sets)} sets of {len(plan.sets[0])} nodes"
    return f"{len(plan.pairs)} pairs"


def _pair_lines(plan: FleetPlan) -> Iterator[str]:
    """One job step for each look at each pair; a pair that dies ends no other."""
    number = plan.number
    yield "look_at() {  # first node, second node, looks"
    yield "  local look name"
    yield "  for ((look = 1; look <= $3; look++)); do"
    yield f'    name="net-{number}-$1-$2-$look"'
    yield '    srun --nodes=2 --ntasks=2 --nodelist="$1,$2" --wait=0 --kill-on-bad-exit=0 \\'
    yield f'      gputop probe net --hosts "$1,$2" --round {number} \\'
    yield '      --meet "$results/$name.meet" -o "${results//%/%%}/$name.json"'
    yield "  done"
    yield "}"
    yield ""
    yield "while read -r first second looks; do"
    yield "  while (($(jobs -rp | wc -l) >= at_once)); do wait -n; done"
    yield '  look_at "$first" "$second" "$looks" < /dev/null &'
    yield "done << 'PAIRS'"
    for pair in plan.pairs:
        yield f"{pair.first} {pair.second} {pair.looks}"
    yield "PAIRS"
    yield "wait"
    yield "# What nodes that were killed left where they met."
    yield f"find \"$results\" -maxdepth 1 -type f -name 'net-{number}-*.meet.*' -delete"


def _set_lines(plan: FleetPlan) -> Iterator[str]:
    """One all-reduce of nccl-tests for each set: more nodes than gputop probe net takes."""
    yield "# all_reduce_perf of nccl-tests, built with MPI; set GPUS to the GPUs of a node."
    yield ": ${GPUS:=8}"
    yield "while read -r place count nodes; do"
    yield '  srun --nodes="$count" --ntasks="$count" --nodelist="$nodes" --mpi=pmix \\'
    yield '    all_reduce_perf -b 1G -e 1G -g "$GPUS" \\'
    yield f'    > "$results/set-{plan.number}-$place.txt" < /dev/null &'
    yield "done << 'SETS'"
    for place, one in enumerate(plan.sets, 1):
        yield f"{place} {len(one)} {fold(one)}"
    yield "SETS"
    yield "wait"
