"""Measured figures that are lower than this hardware should give."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

import msgspec

from ....expectation.collectives import COLLECTIVES
from ....expectation.devices import MEMORY
from ....expectation.judgement import LOW, Judgement, percent
from ....hardware.specs import LOOK
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.page import Fix
from ....model.quantities import GEMM
from ....model.severity import SLOW
from ....model.snapshot import Measurement
from ....model.units import figure as three
from ....model.units import size
from ... import vendors
from ...case import Case
from ...rule import Found, Proof, Rule, Step

Judged = tuple[Measurement, Judgement]
LEAST_SIBLINGS = 3
_SHOWN = 6
_AGAIN = "gputop probe {} --gpus {}"


def disturbed(figure: Measurement) -> bool:
    """Whether another process used the GPU at the time, so that the figure proves nothing."""
    return bool(figure.details.get("shared") or figure.details.get("forced"))


def sound(case: Case, quantities: Iterable[str]) -> list[Judged]:
    """The judged figures of these quantities on the examined GPUs, without disturbed ones."""
    wanted = set(quantities)
    counted = {gpu.address for gpu in case.gpus}
    if not any(measurement.quantity in wanted for measurement in case.snapshot.measurements):
        return []
    return [
        (figure, judgement)
        for figure, judgement in case.judged
        if figure.quantity in wanted
        and figure.value is not None
        and figure.verdict != "wrong-data"
        and not disturbed(figure)
        and all(end in counted for end in (figure.src, figure.dst) if end)
    ]


def evidence_of(
    case: Case, figure: Measurement, judgement: Judgement, beside: float | None = None
) -> Proof:
    """A figure as evidence, with its expected value and the source of that."""
    ends = " to ".join(case.name(end) for end in (figure.src, figure.dst) if end)
    parts = [figure.quantity.replace("_", " "), ends, figure.variant or ""]
    unit = figure.unit or ""
    value = f"{three(figure.value)} {unit}"
    source = figure.source
    if judgement.band is not None and judgement.verdict == LOW:
        value += f", about {three(judgement.band.healthy)} {unit} expected"
        value += f" ({percent(judgement.share)})" if judgement.share is not None else ""
        source += f"; expected by {judgement.band.source}"
    elif beside is not None:
        value += f", {three(beside)} {unit} by its siblings"
    if judgement.cause:
        value += f"; {judgement.cause}"
    return (", ".join(filter(None, parts)), value, source)


class _Poor(msgspec.Struct, frozen=True):
    """One figure that is low: against the table, or against siblings alone."""

    figure: Measurement
    judgement: Judgement
    beside: float | None

    @property
    def share(self) -> float:
        """The figure as a share of what it should be."""
        if self.judgement.verdict == LOW and self.judgement.share is not None:
            return self.judgement.share
        return (self.figure.value or 0.0) / self.beside if self.beside else 1.0

    @property
    def healthy(self) -> float | None:
        """What it should be."""
        if self.judgement.verdict == LOW and self.judgement.band is not None:
            return self.judgement.band.healthy
        return self.beside


def _poor(figures: Sequence[Judged], alike: Callable[[Measurement], object]) -> list[_Poor]:
    groups: dict[object, list[float]] = {}
    for figure, _ in figures:
        groups.setdefault(alike(figure), []).append(figure.value or 0.0)
    middle = {
        key: median(values) for key, values in groups.items() if len(values) >= LEAST_SIBLINGS
    }
    found = []
    for figure, judgement in figures:
        beside = middle.get(alike(figure))
        behind = beside is not None and (figure.value or 0.0) < LOOK * beside
        if judgement.verdict == LOW or behind:
            found.append(_Poor(figure, judgement, beside if behind else None))
    return sorted(found, key=lambda poor: poor.share)


def lost(healthy: float | None, figure: Measurement) -> str:
    """Both figures for a column; "" for what is no bandwidth."""
    if healthy is None or figure.value is None or figure.unit != "GB/s":
        return ""
    return f"{three(healthy)}→{three(figure.value)}"


def of_gpus(
    case: Case, rule: Rule, figures: Sequence[Judged], what: str, fix: Sequence[Step]
) -> list[Finding] | None:
    """One finding for all GPUs whose figures of one kind are low."""
    names: Mapping[str, Gpu] = {gpu.address: gpu for gpu in case.machine.gpus}

    def alike(figure: Measurement) -> object:
        gpu = names.get(figure.src or "")
        return figure.quantity, figure.variant, figure.bytes_per_copy, gpu and gpu.name

    mine = [(figure, judgement) for figure, judgement in figures if figure.src]
    if not mine:
        return None
    poor = _poor(mine, alike)
    if not poor:
        return []
    who = sorted({low.figure.src or "" for low in poor})
    worst = poor[0]
    unit = worst.figure.unit or ""
    healthy = f" instead of about {three(worst.healthy)}" if worst.healthy else ""
    return [
        rule.finding(
            SLOW,
            f"{what} of {case.names(who)} is low",
            devices=who,
            evidence=[
                evidence_of(case, low.figure, low.judgement, low.beside) for low in poor[:_SHOWN]
            ],
            impact=f"{case.name(worst.figure.src or '')} gives {three(worst.figure.value)}"
            f"{healthy} {unit}; a job that waits for all GPUs runs at the pace of this one.",
            cost=lost(worst.healthy, worst.figure),
            fix=fix,
        )
    ]


def again(case: Case, probe: str, who: Sequence[str]) -> Step:
    """The fix that measures once more."""
    return Fix(
        text="Measure once more, with nothing else on the node.",
        command=_AGAIN.format(probe, shlex.quote(",".join(who))),
    )


def _check_memory(case: Case) -> Found:
    fix = [
        again(case, "memory", [gpu.address for gpu in case.gpus]),
        Fix(
            text="Look for ECC errors and remapped rows.",
            command=vendors.command(
                case.gpus, nvidia="nvidia-smi -q -d ECC", amd="amd-smi metric --ecc"
            ),
        ),
    ]
    return of_gpus(case, MEMORY_LOW, sound(case, MEMORY), "memory bandwidth", fix)


def _check_compute(case: Case) -> Found:
    fix = [
        again(case, "gemm", [gpu.address for gpu in case.gpus]),
        Fix(
            text="See what holds the clocks down, the power limit and the temperature.",
            command=vendors.command(
                case.gpus,
                nvidia="nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE",
                amd="amd-smi metric --power --temperature --clock",
            ),
        ),
    ]
    return of_gpus(case, COMPUTE_LOW, sound(case, (GEMM,)), "matrix multiplication", fix)


def _check_collectives(case: Case) -> Found:
    figures = sound(case, COLLECTIVES)
    if not figures:
        return None
    low = [(figure, judgement) for figure, judgement in figures if judgement.verdict == LOW]
    if not low:
        return []
    worst: dict[str, Judged] = {}
    for figure, judgement in low:
        known = worst.get(figure.quantity)
        if known is None or (figure.bytes_per_copy or 0) > (known[0].bytes_per_copy or 0):
            worst[figure.quantity] = (figure, judgement)
    figure, judgement = next(iter(worst.values()))
    band = judgement.band
    ranks = figure.details.get("ranks")
    many = f" over {ranks} GPUs" if isinstance(ranks, int) else ""
    name = figure.quantity.removesuffix("_busbw").replace("_", "-")
    expected = f" instead of about {three(band.healthy)}" if band is not None else ""
    return COLLECTIVE_LOW.finding(
        SLOW,
        f"{name}{many} reaches {three(figure.value)}{expected} GB/s busbw",
        devices=case.gpus,
        evidence=[evidence_of(case, *judged) for judged in worst.values()],
        impact=f"Each {name} of {size(figure.bytes_per_copy)} takes "
        f"{1 / max(judgement.share or 1.0, 0.001):.1f} times as long as it should.",
        cost=lost(None if band is None else band.healthy, figure),
        fix=[
            f"See which transport {case.words.library} takes and why. $ gputop explain",
            "See which variables are set. $ gputop flags",
            again(case, "collectives p2p", [gpu.address for gpu in case.gpus]),
        ],
    )


_CLOCKS = ("throttle-hardware", "throttle-thermal", "clocks-held", "power-limit-low")
_BOARD = ("nvlink-down", "nvlink-missing", "nvlink-slow-rate", "nvlink-p2p-refused")
MEMORY_LOW = Rule(
    id="memory-bandwidth-low",
    family="D01",
    title="Memory bandwidth below that of the model",
    evidence="probe memory on idle GPUs, arrays far beyond the caches",
    disproof="a healthy figure in a second `gputop probe memory`",
    sources=("stas00/ml-engineering compute/accelerator",),
    check=_check_memory,
    implied_by=_CLOCKS,
    each=True,
)
COMPUTE_LOW = Rule(
    id="compute-low",
    family="D34",
    title="Matrix multiplication below that of the model",
    evidence="probe gemm on idle GPUs; 5 % between siblings is normal",
    disproof="a healthy figure in a second `gputop probe gemm`",
    sources=("NVIDIA/NVSentinel#890", "stas00/ml-engineering compute/accelerator"),
    check=_check_compute,
    implied_by=(*_CLOCKS, "gpu-data-wrong"),
    each=True,
)
COLLECTIVE_LOW = Rule(
    id="collective-low",
    family="D01",
    title="Collectives below what this node gives",
    evidence="probe collectives: busbw at 256 MiB and more",
    disproof="a plateau inside the band in a second `gputop probe collectives`; a small message "
    "alone proves nothing",
    sources=("NVIDIA/nccl-tests#212", "NVIDIA/nccl-tests#149"),
    check=_check_collectives,
    implied_by=(
        *_BOARD,
        "pair-bandwidth-low",
        "p2p-data-wrong",
        "xgmi-link-down",
        "flag-costs",
        "same-host-net",
    ),
)
RULES = (COLLECTIVE_LOW, MEMORY_LOW, COMPUTE_LOW)
