"""Differences from a healthy sister node (--expect SNAPSHOT): settings, software, figures."""

from collections import Counter
from collections.abc import Sequence
from operator import itemgetter

from ....hardware.vendors import AMD
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.record import Record
from ....model.severity import NOTICE, SLOW
from ....model.snapshot import Measurement, NodeSnapshot
from ....model.units import size
from ...case import Case
from ...rule import Found, NotRead, Proof, Rule, faulty, needed

_SOURCES = ("gputop check --expect with the snapshot of a healthy node of the same kind",)
_LESS = (
    ("pcie_width_max", "PCIe lanes"),
    ("pcie_gen_max", "PCIe generation"),
    ("power_limit_watts", "power limit, W"),
    ("memory_bytes", "memory"),
    ("bar1_bytes", "BAR1"),
)
"""Fields of a GPU where less is worse."""
_OTHER = (
    ("ecc_enabled", "ECC"),
    ("mig_enabled", "MIG"),
    ("persistence", "persistence mode"),
    ("compute_mode", "compute mode"),
    ("vbios", "VBIOS"),
    ("gsp_firmware", "GSP firmware"),
)
"""Fields of a GPU that should be equal."""
_HOST = (
    ("shm_bytes", "/dev/shm"),
    ("numa_balancing", "kernel.numa_balancing"),
    ("cmdline_flags", "kernel command line"),
    ("nvidia_module", "kind of the NVIDIA module"),
    ("kernel", "kernel"),
)
_SOFTWARE = (
    ("nvidia_driver", "driver"),
    ("amd_driver", "driver"),
    ("cuda_driver", "CUDA of the driver"),
    ("rocm", "ROCm"),
    ("nccl", "NCCL"),
    ("rccl", "RCCL"),
    ("torch", "torch"),
)
_TIMES = ("us", "ms", "s")
_SAME_SHARE = 0.999
_MOST = 12
"""The most differences that are listed."""


def _sister(case: Case) -> NodeSnapshot:
    """The snapshot of the healthy node; the rule ends without one."""
    if case.reference is None or case.reference.sister is None:
        raise NotRead
    return case.reference.sister


def _pairs(case: Case) -> list[tuple[Gpu, Gpu]]:
    """Each GPU with its counterpart: at the same address, else at the same place."""
    others = _sister(case).machine
    if len(others.gpus) != len(case.machine.gpus):
        return []
    opposite = zip(case.machine.gpus, others.gpus, strict=True)
    pairs = [(gpu, others.gpu(gpu.address) or other) for gpu, other in opposite]
    return [(gpu, other) for gpu, other in pairs if gpu in case.gpus]


def _settings(case: Case) -> Found:
    pairs = needed(_pairs(case))
    less = faulty(
        [
            (gpu, _shown(what, getattr(gpu, field), getattr(other, field)))
            for field, what in _LESS
            for gpu, other in pairs
            if _below(getattr(gpu, field), getattr(other, field))
        ]
    )
    devices = list(dict.fromkeys(gpu.address for gpu, _ in less))
    return SETTINGS.finding(
        SLOW,
        f"{case.names(devices)}: less than on {_name(case)}: "
        + ", ".join(dict.fromkeys(what for _, (what, _) in less)),
        devices=devices,
        evidence=_evidence(
            case, [(f"{case.name(gpu)}: {what}", said) for gpu, (what, said) in less]
        ),
        impact="What is less here bounds what these GPUs can do, whatever the job does.",
        fix=[
            "Look at the limits and the PCIe link of each GPU "
            "$ nvidia-smi -q -d POWER,MEMORY,PERFORMANCE"
        ],
    )


def _software(case: Case) -> Found:
    there = _sister(case).machine
    pairs = _pairs(case)
    found = [
        (f"{case.name(gpu)}: {what}", said)
        for entry in _OTHER
        for gpu, other in pairs
        for what, said in _differing((entry,), gpu, other)
    ]
    found += _differing(_HOST, case.host, there.host)
    found += _differing(_SOFTWARE, case.machine.software, there.software)
    what = ", ".join(dict.fromkeys(name.rpartition(": ")[2] for name, _ in faulty(found)))
    return SOFTWARE.finding(
        NOTICE,
        f"not as on {_name(case)}: {what}",
        evidence=_evidence(case, found),
        impact="Figures of the two nodes may differ for these reasons alone.",
    )


def _differing(
    fields: Sequence[tuple[str, str]], here: Record | None, there: Record | None
) -> list[tuple[str, str]]:
    """The fields that are known of both and differ: what it is, and both values in words."""
    values = [(what, getattr(here, f, None), getattr(there, f, None)) for f, what in fields]
    return [_shown(what, one, other) for what, one, other in values if _unlike(one, other)]


def _figures(case: Case) -> Found:
    theirs = {figure.key: figure for figure in _sister(case).measurements if figure.value}
    ends = {gpu.address: other.address for gpu, other in _pairs(case)}
    least = case.threshold(FIGURES, "minimum_share")
    compared: list[tuple[float, Measurement, Measurement]] = []
    for figure in case.snapshot.measurements:
        other = theirs.get(
            (
                figure.probe,
                figure.quantity,
                figure.src and ends.get(figure.src),
                figure.dst and ends.get(figure.dst),
                figure.way,
                figure.variant,
                figure.bytes_per_copy,
            )
        )
        if other is not None and figure.value and other.value and figure.unit == other.unit:
            share = figure.value / other.value
            share = 1 / share if figure.unit in _TIMES else share
            compared.append((share, figure, other))
    low = faulty([entry for entry in needed(compared) if entry[0] < least])
    return _low(case, sorted(low, key=itemgetter(0)))


def _low(case: Case, low: Sequence[tuple[float, Measurement, Measurement]]) -> Finding:
    ends = Counter(end for _, figure, _ in low for end in (figure.src, figure.dst) if end)
    known = [gpu.address for gpu in case.gpus if gpu.address in ends]
    share, worst, _ = low[0]
    return FIGURES.finding(
        SLOW,
        f"{worst.quantity} at {100 * share:.0f} % of what {_name(case)} gave"
        + (f", and {len(low) - 1} more low figures" if len(low) > 1 else ""),
        devices=known,
        evidence=_evidence(
            case,
            [
                (
                    " ".join(filter(None, (figure.quantity, figure.variant, _ends(case, figure)))),
                    f"{figure.value:.4g} here, {other.value:.4g} there, {figure.unit}",
                )
                for _, figure, other in low
            ],
            f"probe {worst.probe}",
        ),
        impact=f"What is bounded by it takes {1 / share:.1f} times as long as on that node.",
        fix=["Measure both nodes again with the same options $ gputop probe --full"],
    )


def _ends(case: Case, figure: Measurement) -> str:
    return " -> ".join(case.name(end) for end in (figure.src, figure.dst) if end)


def _evidence(case: Case, found: Sequence[tuple[str, str]], source: str = "") -> list[Proof]:
    of = source or case.source
    evidence = [(what, said, f"{of}; {_name(case)}") for what, said in found[:_MOST]]
    if len(found) > _MOST:
        more = ("more of them", str(len(found) - _MOST), of)
        evidence.append(more)
    return evidence


def _name(case: Case) -> str:
    return "" if case.reference is None else case.reference.name


def _below(here: float | None, there: float | None) -> bool:
    return here is not None and there is not None and here < _SAME_SHARE * there


def _unlike(here: object, there: object) -> bool:
    """Whether both are known and differ."""
    return here is not None and there is not None and here != there


def _shown(what: str, here: object, there: object) -> tuple[str, str]:
    return what, f"{_word(what, here)} here, {_word(what, there)} there"


def _word(what: str, value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "nothing"
    if isinstance(value, int) and what in ("memory", "BAR1", "/dev/shm"):
        return size(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


SETTINGS = Rule(
    id="unexpected-settings",
    title="GPUs with less than those of the expected node",
    evidence="--expect SNAPSHOT, and limits, lanes and memory of each GPU",
    disproof="the same values on both nodes in `nvidia-smi -q`",
    disproof_by=((AMD.id, "the same values on both nodes in `amd-smi static`"),),
    sources=_SOURCES,
    implied_by=("unexpected-gpus", "pcie-width", "power-limit-low", "bar1-small"),
    check=_settings,
)
SOFTWARE = Rule(
    id="unexpected-software",
    title="software and modes that differ from the expected node",
    evidence="--expect SNAPSHOT, and versions and modes",
    disproof="the same versions on both nodes",
    sources=_SOURCES,
    check=_software,
)
FIGURES = Rule(
    id="unexpected-figures",
    title="figures lower than those of the expected node",
    evidence="--expect SNAPSHOT with measurements, and the same measured here",
    disproof="a second run of the same probes that is not lower",
    sources=_SOURCES,
    family="D01",
    implied_by=("unexpected-gpus", "unexpected-links", "unexpected-settings"),
    check=_figures,
    thresholds=(("minimum_share", 0.85),),
)

RULES = (SETTINGS, SOFTWARE, FIGURES)
