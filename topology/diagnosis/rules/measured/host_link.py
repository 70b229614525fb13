"""Copies between host and GPU that are slower than the model's PCIe link gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....expectation.devices import HOST
from ....expectation.judgement import LOW
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.page import Fix
from ....model.severity import BY_DESIGN, CANNOT_TELL, NOTICE, SLOW, Severity
from ....model.units import figure as three
from ....wiring.wires import PCIE_GTS
from ... import vendors
from ...case import Case
from ...rule import Found, Rule
from ...shared.lanes import loaded
from .figures import Judged, again, evidence_of, lost, of_gpus, sound

_SHOWN = 6
_BOUND = "pinned, NUMA node "
"""Variant of copies from memory of a named node; only those next to the GPU have a band."""
_WATCH = "nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv -l 1"


def _check(case: Case) -> Found:
    figures = [
        judged
        for judged in sound(case, HOST)
        if judged[0].variant == "pinned"
        or (judged[1].verdict == LOW and (judged[0].variant or "").startswith(_BOUND))
    ]
    explained = [judged for judged in figures if judged[1].verdict == LOW and judged[1].explained]
    rest = [judged for judged in figures if judged not in explained]
    fix = [
        again(case, "host", [gpu.address for gpu in case.gpus]),
        Fix(
            text="Compare lanes and generation under load.",
            command=vendors.command(case.gpus, nvidia=_WATCH, amd="amd-smi metric --pcie"),
        ),
    ]
    # A GPU whose link explains its figure is no sibling to compare the others with.
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
    chain = case.way_up(gpu.address)
    slot = chain[1] if len(chain) > 1 else None
    lanes = (details or {}).get("pcie_width") or (chain[0].link_width_now if chain else None)
    lanes = lanes or loaded(case).get(gpu.address, (None,))[0] or gpu.pcie_width_max
    gen = (details or {}).get("pcie_generation") or gpu.pcie_gen_max
    # NVML takes the slot into account where it sees it: a value below the GPU's is the slot's.
    most = slot.link_width_max if slot is not None else None
    if most is None and gpu.pcie_width_max and gpu.pcie_width_max < sku.pcie_width:
        most = gpu.pcie_width_max
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


LINK_LOW = Rule(
    id="host-link-low",
    family="D07",
    title="Host copies below what the PCIe link gives",
    evidence="probe host on idle GPUs, pinned memory of the near NUMA node",
    disproof="a healthy figure in a second `gputop probe host`",
    sources=("NVIDIA/nvbandwidth#53", "NVIDIA/open-gpu-kernel-modules#1010"),
    check=_check,
    implied_by=("pcie-width", "pcie-generation"),
    each=True,
)
RULES = (LINK_LOW,)
