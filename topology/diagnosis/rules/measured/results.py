"""Results of probes: collectives that fail, wrong data, odd matrix products, bad launches."""

from ....expectation.judgement import LOW
from ....model.finding import Finding
from ....model.quantities import GEMM
from ....model.severity import BROKEN, NOTICE
from ....model.snapshot import Measurement
from ....model.units import figure as three
from ...case import Case
from ...rule import Found, Proof, Rule, faulty, needed
from .figures import (
    VERIFIED,
    WRONG_DATA,
    again,
    disturbed,
    ends_of,
    evidence_of,
    figure_name,
    on_gpus,
)

FAILED = ("failed", "timed-out", "wrong-data")
_SHOWN = 6


_COLLECTIVES = ("nccl", "collectives")
"""The probes that let GPUs talk to each other through a library."""


def _check_finishes(case: Case) -> Found:
    figures = [figure for figure in on_gpus(case) if figure.probe in _COLLECTIVES]
    known = needed([figure for figure in figures if figure.verdict])
    bad = faulty([figure for figure in known if figure.verdict in FAILED])
    words = ", ".join(sorted({figure.verdict or "" for figure in bad}))
    return COLLECTIVE_FAILS.finding(
        BROKEN,
        f"a collective does not do its work: {words}",
        devices=ends_of(bad) or case.gpus,
        evidence=[_failure(case, figure) for figure in bad[:_SHOWN]],
        impact="A job hangs, stops with an error, or computes with wrong numbers as soon "
        "as its GPUs talk to each other.",
        fix=[
            "Read the library's own log. $ NCCL_DEBUG=INFO gputop probe nccl",
            "See whether it works through host memory. $ NCCL_P2P_DISABLE=1 gputop probe nccl",
        ],
    )


def _failure(case: Case, figure: Measurement) -> Proof:
    why = f": {figure.why_none[:200]}" if figure.why_none else ""
    return (figure_name(case, figure), f"{figure.verdict}{why}", figure.source)


def _check_wrong(case: Case) -> Found:
    counted = {gpu.address for gpu in case.gpus}
    figures = [
        figure
        for figure in on_gpus(case)
        if figure.src in counted and not figure.dst and figure.probe not in _COLLECTIVES
    ]
    known = needed([figure for figure in figures if figure.verdict in (VERIFIED, WRONG_DATA)])
    bad = faulty([figure for figure in known if figure.wrong])
    who = ends_of(bad)
    return WRONG.finding(
        BROKEN,
        f"{case.names(who)} gave wrong data",
        devices=who,
        evidence=[_failure(case, figure) for figure in bad[:_SHOWN]],
        impact="What this GPU computes or copies cannot be trusted.",
        fix=[
            again(case, bad[0].probe, who),
            "If it repeats, drain the node and have the GPU looked at.",
        ],
    )


def _check_disturbed(case: Case) -> Found:
    needed(case.snapshot.measurements)
    counted = {gpu.address for gpu in case.gpus}
    low = faulty(
        [
            (figure, judgement)
            for figure, judgement in case.judged
            if disturbed(figure)
            and judgement.verdict == LOW
            and counted.issuperset(ends_of([figure]))
        ]
    )
    who = ends_of([figure for figure, _ in low])
    return DISTURBED.finding(
        NOTICE,
        f"low figures of {case.names(who) or 'several GPUs'} prove nothing: they were not alone",
        devices=who,
        evidence=[evidence_of(case, *judged) for judged in low[:_SHOWN]],
        impact="Another process had a part of the time, memory or links of these GPUs. "
        "Whether they are well is not known.",
        fix=[again(case, low[0][0].probe, who)],
    )


def _check_linear(case: Case) -> Found:
    speeds: dict[tuple[object, ...], dict[str, float]] = {}
    for figure in case.figures(GEMM):
        entry = figure.details.get("entry")
        if entry in ("matmul", "linear") and figure.value and not disturbed(figure):
            key = (figure.src, *(figure.details.get(name) for name in ("dtype", "m", "k", "n")))
            speeds.setdefault(key, {})[entry] = figure.value
    both = needed({key: found for key, found in speeds.items() if len(found) == 2})
    least = case.threshold(LINEAR, "minimum_share")
    far = faulty(
        [
            (key, found)
            for key, found in both.items()
            if min(found.values()) < least * max(found.values())
        ]
    )
    key, found = min(far, key=lambda item: min(item[1].values()) / max(item[1].values()))
    slower = min(found, key=lambda entry: found[entry])
    return LINEAR.finding(
        NOTICE,
        f"matmul and F.linear differ for the same product, most on {case.name(str(key[0]))}",
        devices=sorted({str(key[0]) for key, _ in far}),
        evidence=[
            (
                f"{case.name(str(gpu))}, {dtype} M{m} K{k} N{n}",
                f"matmul {three(pair['matmul'])}, F.linear {three(pair['linear'])} TFLOP/s",
                "probe gemm",
            )
            for (gpu, dtype, m, k, n), pair in far[:_SHOWN]
        ],
        impact=f"{slower} is the slower one: the library picks another kernel for the "
        "other layout of the weight. A model pays this in every layer.",
        fix=["Try another version of torch or cuBLAS, or the other layout."],
    )


_MOST_NAMED = 4
_OPTIONS = "processes of mpirun times -t times -g"


def _runs(case: Case) -> list[Measurement]:
    """One figure of each pasted run that says how many ranks it had."""
    found: dict[str, Measurement] = {}
    for figure in case.snapshot.measurements:
        if "pasted" in figure.details and "gpus_per_process" in figure.details:
            found.setdefault(figure.variant or "", figure)
    return list(found.values())


def _check(case: Case) -> Found:
    runs = needed(_runs(case))
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
    more = f" and {len(twice) - _MOST_NAMED} more" if len(twice) > _MOST_NAMED else ""
    return LAUNCH.finding(
        BROKEN,
        "several ranks of the test use the same GPU",
        evidence=[_said(run, "GPUs of several ranks", ", ".join(twice[:_MOST_NAMED]) + more)],
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


COLLECTIVE_FAILS = Rule(
    id="collective-fails",
    family="D02",
    title="collectives that hang, fail or give wrong sums",
    evidence="probe nccl or collectives: kernels on two GPUs that wait for each other",
    disproof="the verdict finished in a second `gputop probe nccl`",
    sources=("NVIDIA/nccl-tests#117", "noonghunna/club-3090 PR 902"),
    check=_check_finishes,
    implied_by=("nvlink-p2p-refused", "p2p-data-wrong", "fabric-state", "gpu-lost"),
)
WRONG = Rule(
    id="gpu-data-wrong",
    family="D32",
    title="GPUs that compute or copy wrongly",
    evidence="probes host, memory, gemm and train-step: results that were compared",
    disproof="the verdict verified in a second run",
    sources=("NVIDIA/nvbandwidth#19",),
    check=_check_wrong,
)
LINEAR = Rule(
    id="matmul-linear-differ",
    title="matrix products whose speed depends on how they are called",
    evidence="probe gemm: matmul and F.linear of the same shape",
    disproof="equal speeds in a second `gputop probe gemm`",
    sources=("stas00/ml-engineering compute/accelerator/benchmarks",),
    check=_check_linear,
    implied_by=("compute-low",),
    thresholds=(("minimum_share", 0.9),),
)
DISTURBED = Rule(
    id="figures-disturbed",
    family="D24",
    title="low figures that were measured beside another process",
    evidence="figures of probes, and who else used the GPUs meanwhile",
    disproof="a healthy figure while nobody else uses the GPU",
    sources=("NVIDIA/DCGM#272",),
    check=_check_disturbed,
)
LAUNCH = Rule(
    id="test-launch",
    title="runs of a bandwidth test whose processes and GPUs do not add up",
    evidence="the list of devices in a pasted output of nccl-tests or rccl-tests",
    disproof="a list of devices with one line for each GPU and ranks that count from 0 once",
    sources=("NVIDIA/nccl-tests README", "NVIDIA/nccl-tests#287"),
    check=_check,
    without_gpus=True,
)
RULES = (COLLECTIVE_FAILS, WRONG, LINEAR, DISTURBED, LAUNCH)
