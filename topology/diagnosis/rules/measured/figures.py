"""Measured figures that are lower than this hardware should give."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

import msgspec

from ....expectation.collectives import COLLECTIVES
from ....expectation.devices import HOST, MEMORY
from ....expectation.judgement import LOW, Judgement, percent
from ....expectation.links import pcie_gbs
from ....expectation.pairs import QUANTITIES as PAIR_QUANTITIES
from ....expectation.references import pcie_practical
from ....hardware.specs import LOOK, Sku
from ....model.finding import Finding
from ....model.gathered import gathered, gathered_by
from ....model.machine import Gpu, PciDevice
from ....model.page import Fix
from ....model.quantities import GEMM
from ....model.severity import BY_DESIGN, CANNOT_TELL, NOTICE, SLOW, Severity
from ....model.snapshot import Measurement
from ....model.units import figure as three
from ....model.units import size
from ....wiring.wires import PCIE_GTS
from ... import vendors
from ...case import Case
from ...rule import Found, Proof, Rule, Step, faulty, needed
from ...shared.lanes import loaded

Judged = tuple[Measurement, Judgement]
LEAST_SIBLINGS = 3
_SHOWN = 6
_NEAR = 0.12


def disturbed(figure: Measurement) -> bool:
    """Whether another process used the GPU at the time, so that the figure proves nothing."""
    return bool(figure.details.get("shared") or figure.details.get("forced"))


VERIFIED = "verified"
WRONG_DATA = "wrong-data"
"""What a probe says of results that it compared."""
_PINNED = "pinned"


def on_gpus(case: Case) -> list[Measurement]:
    """The figures that were measured on GPUs, not on the CPU in their place."""
    return [figure for figure in case.snapshot.measurements if not figure.on_cpu]


def ends_of(figures: Iterable[Measurement]) -> list[str]:
    """The devices of some figures, each once."""
    return sorted({end for figure in figures for end in (figure.src, figure.dst) if end})


def figure_name(case: Case, figure: Measurement) -> str:
    """What was measured and where: "memory copy, GPU3, 256 MiB"."""
    ends = " to ".join(case.name(end) for end in (figure.src, figure.dst) if end)
    return ", ".join(filter(None, (figure.quantity.replace("_", " "), ends, figure.variant)))


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
        and not figure.wrong
        and not disturbed(figure)
        and counted.issuperset(ends_of([figure]))
    ]


def evidence_of(
    case: Case, figure: Measurement, judgement: Judgement, beside: float | None = None
) -> Proof:
    """A figure as evidence, with its expected value and the source of that."""
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
    return (figure_name(case, figure), value, source)


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
    groups = gathered((alike(figure), figure.value or 0.0) for figure, _ in figures)
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

    def alike(figure: Measurement) -> object:
        gpu = case.devices.gpus.get(figure.src or "")
        return figure.quantity, figure.variant, figure.bytes_per_copy, gpu and gpu.name

    mine = [(figure, judgement) for figure, judgement in figures if figure.src]
    if not mine:
        return None
    poor = _poor(mine, alike)
    if not poor:
        return []
    who = sorted({low.figure.src or "" for low in poor})
    worst = poor[0]
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
            f"{healthy} {worst.figure.unit or ''}; a job that waits for all GPUs runs at the pace "
            "of this one.",
            cost=lost(worst.healthy, worst.figure),
            fix=fix,
        )
    ]


def again(case: Case, probe: str, who: Sequence[str]) -> Step:
    """The fix that measures once more."""
    return Fix.of(
        "Measure once more, with nothing else on the node.",
        f"gputop probe {probe} --gpus {{:device,}}",
        who,
    )


def _check_memory(case: Case) -> Found:
    fix = [
        again(case, "memory", [gpu.address for gpu in case.gpus]),
        vendors.step(
            case.gpus,
            "Look for ECC errors and remapped rows.",
            nvidia="nvidia-smi -q -d ECC",
            amd="amd-smi metric --ecc",
        ),
    ]
    return of_gpus(case, MEMORY_LOW, sound(case, MEMORY), "memory bandwidth", fix)


def _check_compute(case: Case) -> Found:
    fix = [
        again(case, "gemm", [gpu.address for gpu in case.gpus]),
        vendors.step(
            case.gpus,
            "See what holds the clocks down, the power limit and the temperature.",
            nvidia="nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE",
            amd="amd-smi metric --power --temperature --clock",
        ),
    ]
    return of_gpus(case, COMPUTE_LOW, sound(case, (GEMM,)), "matrix multiplication", fix)


def _check_collectives(case: Case) -> Found:
    figures = needed(sound(case, COLLECTIVES))
    low = faulty([(figure, judgement) for figure, judgement in figures if judgement.verdict == LOW])
    worst: dict[str, Judged] = {}
    for figure, judgement in low:
        known = worst.get(figure.quantity)
        if known is None or (figure.bytes_per_copy or 0) > (known[0].bytes_per_copy or 0):
            worst[figure.quantity] = (figure, judgement)
    figure, judgement = next(iter(worst.values()))
    healthy = judgement.band.healthy if judgement.band is not None else None
    ranks = figure.details.get("ranks")
    many = f" over {ranks} GPUs" if isinstance(ranks, int) else ""
    name = figure.quantity.removesuffix("_busbw").replace("_", "-")
    expected = f" instead of about {three(healthy)}" if healthy is not None else ""
    return COLLECTIVE_LOW.finding(
        SLOW,
        f"{name}{many} reaches {three(figure.value)}{expected} GB/s busbw",
        devices=case.gpus,
        evidence=[evidence_of(case, *judged) for judged in worst.values()],
        impact=f"Each {name} of {size(figure.bytes_per_copy)} takes "
        f"{1 / max(judgement.share or 1.0, 0.001):.1f} times as long as it should.",
        cost=lost(healthy, figure),
        fix=[
            f"See which transport {case.words.library} takes and why. $ gputop explain",
            "See which variables are set. $ gputop flags",
            again(case, "collectives p2p", [gpu.address for gpu in case.gpus]),
        ],
    )


_CLOCKS = ("throttle-hardware", "throttle-thermal", "clocks-held", "power-limit-low")
_BOARD = ("nvlink-down", "nvlink-missing", "nvlink-slow-rate", "nvlink-p2p-refused")
_BOUND = "pinned, NUMA node "
"""Variant of copies from memory of a named node; only those next to the GPU have a band."""
_WATCH = "nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv -l 1"


def _check(case: Case) -> Found:
    figures = [
        (figure, judgement)
        for figure, judgement in sound(case, HOST)
        if figure.variant == _PINNED
        or (judgement.verdict == LOW and (figure.variant or "").startswith(_BOUND))
    ]
    explained = [judged for judged in figures if judged[1].verdict == LOW and judged[1].explained]
    fix = [
        again(case, "host", [gpu.address for gpu in case.gpus]),
        vendors.step(
            case.gpus,
            "Compare lanes and generation under load.",
            nvidia=_WATCH,
            amd="amd-smi metric --pcie",
        ),
    ]
    # A GPU whose link explains its figure is no sibling to compare the others with.
    rest = [judged for judged in figures if judged not in explained]
    found = of_gpus(case, LINK_LOW, rest, "host copy", fix)
    if found is None and not explained:
        return None
    return [*(found or ()), *_explained(case, explained)]


def _explained(case: Case, figures: Sequence[Judged]) -> list[Finding]:
    """The figures that lanes and generation explain, one finding for each severity."""
    groups: dict[Severity, list[Judged]] = {}
    for judged in figures:
        gpu = case.machine.gpu(judged[0].src or "")
        if gpu is not None:
            groups.setdefault(severity(case, gpu, judged[0].details), []).append(judged)
    return [_link(case, word, group) for word, group in groups.items()]


def severity(case: Case, gpu: Gpu, details: Mapping[str, object] | None = None) -> Severity:
    """The severity of a PCIe link with less than the model's data sheet says.

    `details`: of a figure, with what was read of the link while it was measured.
    """
    sku = case.sku(gpu)
    if sku is None:
        return SLOW
    seen = details or {}
    chain = case.way_up(gpu.address)
    slot = chain[1] if len(chain) > 1 else None
    lanes = seen.get("pcie_width") or (chain[0].link_width_now if chain else None)
    lanes = lanes or loaded(case).get(gpu.address, (None,))[0] or gpu.pcie_width_max
    gen = seen.get("pcie_generation") or gpu.pcie_gen_max
    most = _slot_width(gpu, slot, sku)
    speed = slot.link_speed_max_gts if slot is not None else None
    best = next((number for number, gts in PCIE_GTS.items() if gts == speed), gpu.pcie_gen_max)
    few, slow = lanes != sku.pcie_width, gen != sku.pcie_gen
    if (not few or lanes == most) and (not slow or gen == best):
        return BY_DESIGN
    if most is not None or not few:
        return SLOW
    if "pcie_width" in sku.unconfirmed:
        return NOTICE
    # A guest does not see its slot: it may be built so, or have lost lanes.
    return CANNOT_TELL if case.in_vm is not False else SLOW


def _slot_width(gpu: Gpu, slot: PciDevice | None, sku: Sku) -> int | None:
    """Lanes of the slot; NVML takes it into account where it sees it: a value below the GPU's."""
    if slot is not None and slot.link_width_max is not None:
        return slot.link_width_max
    width = gpu.pcie_width_max or 0
    return width if 0 < width < sku.pcie_width else None


_WORDS = {
    BY_DESIGN: "what the slot is built for",
    NOTICE: "what the PCIe link gives",
    CANNOT_TELL: "what fewer lanes or a lower generation give, and this guest does not show why",
    SLOW: "what is left of the PCIe link",
}


def _link(case: Case, word: Severity, figures: Sequence[Judged]) -> Finding:
    figures = sorted(figures, key=lambda judged: judged[1].share or 0.0)
    who = sorted({figure.src or "" for figure, _ in figures})
    figure, judgement = figures[0]
    healthy = f" instead of about {three(judgement.band.healthy)}" if judgement.band else ""
    fix = ["Look at the slot's lanes and speed. # lspci -vv"]
    if word == CANNOT_TELL:
        fix = [
            (
                "Compare with a healthy machine of the same type. "
                "$ gputop check --expect HEALTHY.json"
            ),
            (
                "Where the type is built so, say so once. "
                '$ gputop check --ignore host-link-low="slots of this type"'
            ),
        ]
    return LINK_LOW.finding(
        word,
        f"host copies of {case.names(who)} reach {_WORDS[word]}",
        devices=who,
        evidence=[evidence_of(case, *judged) for judged in figures[:_SHOWN]],
        impact=f"{case.name(figure.src or '')} gives {three(figure.value)}{healthy} "
        f"{figure.unit or ''}: loading data, offloading and P2P over PCIe run at that pace.",
        cost=lost(judgement.band.healthy if judgement.band else None, figure),
        fix=fix,
    )


def _check_far(case: Case) -> Found:
    known = needed([judged for judged in case.judged if judged[1].band is not None])
    far = faulty(
        [
            (figure, judgement)
            for figure, judgement in known
            if judgement.far and not figure.wrong and not disturbed(figure)
        ]
    )
    groups = gathered_by(far, lambda judged: judged[0].quantity)
    return [_far(case, group) for group in list(groups.values())[:1]]


def _far(case: Case, figures: Sequence[Judged]) -> Finding:
    figure, judgement = min(figures, key=lambda judged: judged[1].share or 0.0)
    who = ends_of([figure for figure, _ in figures])
    healthy = judgement.band.healthy if judgement.band is not None else None
    what = figure.quantity.replace("_", " ")
    of_whom = f" of {case.all_or_names(who)}" if who else ""
    return FAR_LOW.finding(
        NOTICE,
        f"{what}{of_whom} is far below what this hardware gives: {three(figure.value)} of about "
        f"{three(healthy)} {figure.unit or ''}{as_lanes(case, figure)}",
        devices=who,
        evidence=[
            (
                figure_name(case, figure),
                f"{three(figure.value)} {figure.unit or ''}, about {three(judgement.band.healthy)} "
                f"expected ({percent(judgement.share or 0.0)}), by an estimate",
                f"{figure.source}; {judgement.band.source}",
            )
            for figure, judgement in figures[:_SHOWN]
            if judgement.band is not None
        ],
        impact="An estimate is not exact, but not off by so much: something holds this back.",
        cost=lost(healthy, figure),
        fix=[
            "Compare lanes and generation of each GPU's slot with what the card can do. "
            "# lspci -vv | grep -E '^[0-9a-f]|LnkCap:|LnkSta:'",
            "See what lies between the devices. $ "
            + (
                vendors.command(case.gpus, nvidia="nvidia-smi topo -m", amd="amd-smi topology")
                or "lspci -tv"
            ),
        ],
    )


def as_lanes(case: Case, figure: Measurement) -> str:
    """Which narrower PCIe link gives a figure of this size: ", about what PCIe 4.0 x4 gives"."""
    gpu = case.machine.gpu(figure.src or "")
    sku = case.sku(gpu) if gpu is not None else None
    ways = PAIR_QUANTITIES.get(figure.quantity, ("", 1.0))[1]
    if sku is None or figure.unit != "GB/s" or figure.value is None:
        return ""
    for lanes in (1, 2, 4, 8):
        line, share = pcie_gbs(sku.pcie_gen, lanes), pcie_practical(sku.pcie_gen)
        gives = (line or 0.0) * (share.fraction if share else 0.0) * ways
        if gives and abs(figure.value - gives) < _NEAR * gives:
            return f", about what PCIe {sku.pcie_gen}.0 x{lanes} gives"
    return ""


MEMORY_LOW = Rule(
    id="memory-bandwidth-low",
    family="D01",
    title="memory bandwidth below that of the model",
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
    title="matrix multiplication below that of the model",
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
    title="collectives below what this node gives",
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
LINK_LOW = Rule(
    id="host-link-low",
    family="D07",
    title="host copies below what the PCIe link gives",
    evidence="probe host on idle GPUs, pinned memory of the near NUMA node",
    disproof="a healthy figure in a second `gputop probe host`",
    sources=("NVIDIA/nvbandwidth#53", "NVIDIA/open-gpu-kernel-modules#1010"),
    check=_check,
    implied_by=("pcie-width", "pcie-generation"),
    each=True,
)
FAR_LOW = Rule(
    id="figure-far-below",
    family="D40",
    title="figures a third or less of even an estimate",
    evidence="a measured figure and an estimate of what this hardware gives",
    disproof="a figure near the estimate in a second measurement on an idle node",
    sources=("tinygrad/open-gpu-kernel-modules#44",),
    check=_check_far,
    implied_by=(
        *_BOARD,
        "pair-bandwidth-low",
        "p2p-slower-than-staging",
        "links-unused",
        "pcie-width",
        "pcie-generation",
        "host-link-low",
        "collective-low",
        "xgmi-link-down",
        "flag-costs",
    ),
)
RULES = (COLLECTIVE_LOW, MEMORY_LOW, COMPUTE_LOW, LINK_LOW, FAR_LOW)
