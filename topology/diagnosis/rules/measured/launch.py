"""Runs of nccl-tests whose processes and GPUs do not add up."""

from __future__ import annotations

from ....model.finding import Finding
from ....model.severity import BROKEN, NOTICE
from ....model.snapshot import Measurement
from ...case import Case
from ...rule import Found, Proof, Rule

_SHOWN = 4
_OPTIONS = "processes of mpirun times -t times -g"


def _runs(case: Case) -> list[Measurement]:
    """One figure of each pasted run that says how many ranks it had."""
    found: dict[str, Measurement] = {}
    for figure in case.snapshot.measurements:
        if "pasted" in figure.details and "gpus_per_process" in figure.details:
            found.setdefault(figure.variant or "", figure)
    return list(found.values())


def _check(case: Case) -> Found:
    runs = _runs(case)
    if not runs:
        return None
    found = []
    for run in runs:
        copies, ranks = run.details.get("copies"), run.details.get("ranks")
        twice = run.details.get("twice")
        if isinstance(copies, int) and copies > 1:
            found.append(_apart(run, copies))
        elif isinstance(twice, list) and twice:
            found.append(_twice(run, [str(name) for name in twice]))
        elif ranks == 1:
            found.append(_alone(run))
    return found


def _apart(run: Measurement, copies: int) -> Finding:
    return LAUNCH.finding(
        BROKEN,
        f"{copies} processes of the test each ran alone",
        evidence=[_said(run, "processes that call themselves rank 0", str(copies))],
        impact="They never talked to each other: the figures are of one GPU with itself, and "
        "all processes may share one GPU.",
        fix=[
            "Build the tests with MPI, and start them with the mpirun of that MPI. "
            "$ make MPI=1 MPI_HOME=/path/to/mpi"
        ],
    )


def _twice(run: Measurement, twice: list[str]) -> Finding:
    more = f" and {len(twice) - _SHOWN} more" if len(twice) > _SHOWN else ""
    return LAUNCH.finding(
        BROKEN,
        "several ranks of the test use the same GPU",
        evidence=[_said(run, "GPUs of several ranks", ", ".join(twice[:_SHOWN]) + more)],
        impact="The library refuses two ranks of one communicator on one GPU: the test ends "
        "with an invalid usage, or measures the GPU against itself.",
        fix=[f"Give each GPU one rank: {_OPTIONS} is the number of GPUs."],
    )


def _alone(run: Measurement) -> Finding:
    return LAUNCH.finding(
        NOTICE,
        "the test ran on one GPU alone",
        evidence=[_said(run, "ranks in the list of devices", "1")],
        impact="With one rank nothing is sent: busbw is 0 by its definition and says nothing "
        "about the links.",
        fix=[
            "Run it over all GPUs of the node from one process. "
            "$ all_reduce_perf -b 8 -e 8G -f 2 -g 8"
        ],
    )


def _said(run: Measurement, what: str, value: str) -> Proof:
    return (what, value, run.source)


LAUNCH = Rule(
    id="test-launch",
    title="Runs of a bandwidth test whose processes and GPUs do not add up",
    evidence="the list of devices in a pasted output of nccl-tests or rccl-tests",
    disproof="a list of devices with one line for each GPU and ranks that count from 0 once",
    sources=("NVIDIA/nccl-tests README", "NVIDIA/nccl-tests#287"),
    check=_check,
    without_gpus=True,
)
RULES = (LAUNCH,)
