"""Pairs of GPUs whose measured bandwidth is low, and what their pattern says."""

from collections.abc import Mapping, Sequence
from statistics import median

from ....expectation.judge import FAR
from ....expectation.judgement import LOW
from ....expectation.pairs import OF_PAIRS
from ....expectation.patterns import FigurePattern, patterns
from ....hardware.specs import LOOK
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.quantities import KERNEL_LATENCY
from ....model.severity import NOTICE, SLOW, Severity
from ....model.snapshot import Measurement
from ....model.units import figure as three
from ... import vendors
from ...case import Case
from ...pairs import FAST
from ...rule import Found, Rule, needed
from ...shared.lanes import narrow
from .figures import Judged, evidence_of, lost, severity, sound

_SHOWN = 6
_SIDES = ("sends", "receives")
"""Kinds of pattern, by the end of a figure that is their GPU."""


def _check(case: Case) -> Found:
    measured = needed(sound(case, OF_PAIRS))
    letters = {ends: pair.code for pair in case.pairs for ends in (pair.ends, pair.ends[::-1])}
    few = narrow(case)
    # The rule about lanes reports a pair over PCIe with too few; over NVLink lanes do not matter.
    whole = [
        judged
        for judged in measured
        if letters.get(_ends(judged[0]), "").startswith(FAST) or few.isdisjoint(_ends(judged[0]))
    ]
    explained = [judged for judged in whole if _low(judged) and judged[1].explained]
    figures = [judged for judged in whole if judged not in explained]
    found, reported = _by_pattern(case, figures, letters)
    rest = [judged for judged in figures if _low(judged) and _ends(judged[0]) not in reported]
    late = [judged for judged in rest if judged[0].quantity == KERNEL_LATENCY]
    slow = [judged for judged in rest if judged not in late]
    for some, what in ((slow, "low"), (late, "late")):
        found += [_others(case, some, what, _harm(some))] if some else []
    return found + _explained(case, explained)


def _harm(figures: Sequence[Judged]) -> Severity:
    """The severity: a latency varies by some tenths from run to run, but it does not double."""
    slow = any(
        figure.quantity != KERNEL_LATENCY or (judgement.share or 0.0) < FAR
        for figure, judgement in figures
    )
    return SLOW if slow else NOTICE


def _others(case: Case, figures: Sequence[Judged], what: str, harm: Severity) -> Finding:
    ordered = sorted(figures, key=lambda judged: judged[1].share or 0.0)
    who = sorted({end for figure, _ in ordered for end in _ends(figure)})
    things = "Small messages" if what == "late" else "Copies"
    return _finding(case, f"{things} between {case.names(who)} are {what}.", ordered, harm, who)


def _by_pattern(
    case: Case, figures: Sequence[Judged], letters: Mapping[tuple[str, str], str]
) -> tuple[list[Finding], set[tuple[str, str]]]:
    """What the pattern of all figures says, and the pairs that it speaks of."""
    read = patterns(
        [figure for figure, _ in figures],
        case.devices.labels,
        case.snapshot,
        prediction=case.prediction,
        judgements=[judgement for _, judgement in figures],
    )
    middles = _middles(figures, letters)
    found: list[Finding] = []
    reported: set[tuple[str, str]] = set()
    for pattern in read:
        mine = [judged for judged in figures if _belongs(pattern, judged[0])]
        mine.sort(key=lambda judged: _share(judged[0], middles, letters))
        if mine:
            slow = _share(mine[0][0], middles, letters) < LOOK or any(map(_low, mine))
            harm = SLOW if slow else NOTICE
            found.append(_finding(case, pattern.text, mine, harm, pattern.devices))
            reported |= {_ends(figure) for figure, _ in mine}
    return found, reported


def _explained(case: Case, figures: Sequence[Judged]) -> list[Finding]:
    """The figures that the read links explain, where no rule about those links reports them."""
    groups: dict[Severity, list[Judged]] = {}
    for figure, judgement in figures:
        pair = [gpu for end in _ends(figure) if (gpu := case.machine.gpu(end)) is not None]
        harm: Severity = SLOW
        if not all(map(_linked, pair)):
            harm = min((severity(case, gpu) for gpu in pair), key=lambda found: found.order)
        groups.setdefault(harm, []).append((figure, judgement))
    what = "as slow as their links"
    return [_others(case, group, what, harm) for harm, group in groups.items()]


def _linked(gpu: Gpu) -> bool:
    return any(x.active for x in gpu.nvlinks) or any(x.active for x in gpu.xgmi)


def _low(judged: Judged) -> bool:
    return judged[1].verdict == LOW


def _ends(figure: Measurement) -> tuple[str, str]:
    return figure.src or "", figure.dst or ""


def _belongs(pattern: FigurePattern, figure: Measurement) -> bool:
    if figure.quantity != pattern.quantity:
        return False
    if pattern.kind == "gpu":
        return pattern.devices[0] in _ends(figure)
    if pattern.kind in _SIDES:
        return _ends(figure)[_SIDES.index(pattern.kind)] == pattern.devices[0]
    return set(_ends(figure)) <= set(pattern.devices)


def _middles(
    figures: Sequence[Judged], letters: Mapping[tuple[str, str], str]
) -> dict[tuple[str, str], float]:
    """Median of the pairs of one kind, by quantity and letters."""
    groups: dict[tuple[str, str], list[float]] = {}
    for figure, _ in figures:
        kind = figure.quantity, letters.get(_ends(figure), "")
        groups.setdefault(kind, []).append(figure.value or 0.0)
    return {kind: median(values) for kind, values in groups.items()}


def _share(
    figure: Measurement,
    middles: Mapping[tuple[str, str], float],
    letters: Mapping[tuple[str, str], str],
) -> float:
    middle = middles.get((figure.quantity, letters.get(_ends(figure), "")), 0.0)
    return (figure.value or 0.0) / middle if middle > 0 else 1.0


def _finding(
    case: Case, text: str, figures: Sequence[Judged], severity: Severity, devices: Sequence[str]
) -> Finding:
    figure, judgement = figures[0]
    healthy = judgement.band.healthy if judgement.verdict == LOW and judgement.band else None
    instead = f" instead of about {three(healthy)}" if healthy else ""
    ends = f"{case.name(figure.src or '')} to {case.name(figure.dst or '')}"
    return PAIRS.finding(
        severity,
        text.rstrip("."),
        devices=sorted(devices),
        evidence=[evidence_of(case, *judged) for judged in figures[:_SHOWN]],
        impact=f"{ends} takes {three(figure.value)}{instead} {figure.unit or ''} for a small "
        "store: messages of some KiB wait longer."
        if figure.quantity == KERNEL_LATENCY
        else f"{ends} copies {three(figure.value)}{instead} GB/s. A ring is as fast as its slowest "
        "pair, so that every collective over these GPUs slows down.",
        cost=lost(healthy, figure),
        fix=[
            "Measure once more, with nothing else on the node. $ gputop probe p2p",
            vendors.step(
                case.gpus,
                "Compare the links of these GPUs.",
                nvidia="nvidia-smi nvlink -s",
                amd="amd-smi xgmi -l",
            ),
        ],
    )


PAIRS = Rule(
    id="pair-bandwidth-low",
    family="D40",
    title="pairs of GPUs that copy more slowly than they should",
    evidence="probe p2p on idle GPUs: GB/s of every ordered pair",
    disproof="a healthy matrix in a second `gputop probe p2p`",
    sources=("tinygrad/open-gpu-kernel-modules#6", "NVIDIA/nccl-tests#268"),
    check=_check,
    implied_by=(
        "nvlink-down",
        "nvlink-missing",
        "nvlink-slow-rate",
        "nvlink-p2p-refused",
        "pcie-generation",
        "p2p-data-wrong",
        "p2p-slower-than-staging",
        "acs-redirect",
        "iommu-translated",
        "xgmi-link-down",
    ),
)

RULES = (PAIRS,)
