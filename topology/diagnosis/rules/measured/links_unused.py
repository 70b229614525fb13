"""Boards with fast links whose GPUs copy no faster than PCIe carries."""

from ....expectation.links import pcie_gbs
from ....expectation.pairs import QUANTITIES
from ....hardware.specs import WIRED, BoardLinks, Sku
from ....model import quantities
from ....model.severity import NOTICE, SLOW
from ....model.units import figure as three
from ....model.units import gbs
from ... import vendors
from ...case import Case
from ...pairs import NOT_GRANTED
from ...rule import Found, Rule, faulty, needed
from .figures import Judged, ends_of, evidence_of, lost, sound

_SHOWN = 4
_APART = 2.0
"""Links that carry less than this multiple of PCIe (MI300X) cannot be told from it by a copy."""
_COUNTED_WELL = 1.1
"""A copy that is counted in another way passes the line rate by a few per cent."""


def _check(case: Case) -> Found:
    """Only where no link was seen up; where links are up, each pair has its own expectation."""
    refused = {frozenset(pair.ends) for pair in case.pairs if NOT_GRANTED in pair.words}
    figures = [
        (sku, judged)
        for judged in sound(case, QUANTITIES)
        if (sku := _linked(case, judged)) is not None
        and frozenset((judged[0].src, judged[0].dst)) not in refused
    ]
    needed(figures)
    seen = any(case.devices.links_up.values()) or any(
        link.active for gpu in case.gpus for link in gpu.xgmi
    )
    # The first pair that is faster shows that links are in use.
    faulty([] if seen or any(_passes(*each) for each in figures) else figures)
    sku, (figure, _) = max(figures, key=lambda each: each[1][0].quantity == quantities.WRITE)
    values = [one.value or 0.0 for _, (one, _) in figures if one.quantity == figure.quantity]
    who = ends_of([judged[0] for _, judged in figures])
    most = _most(sku) * QUANTITIES[figure.quantity][1]
    link = case.words.link
    return UNUSED.finding(
        SLOW if sku.fabric in WIRED else NOTICE,
        f"the copies between {case.all_or_names(who)} do not use {link}: {three(min(values))} to "
        f"{gbs(max(values))}, the pace of PCIe; {link} of {sku.name} carries {gbs(most)}",
        devices=who,
        evidence=[evidence_of(case, *judged) for _, judged in figures[:_SHOWN]],
        impact="All traffic between these GPUs goes over PCIe. Why, these figures do not tell: "
        "links or switches that are down, a fabric that was never set up, or a guest that was "
        "given the GPUs without them.",
        cost=lost(most, figure),
        fix=[
            vendors.step(
                case.gpus,
                "Read the state of the links, and what the driver says of each pair.",
                nvidia="nvidia-smi nvlink -s; nvidia-smi topo -m; nvidia-smi topo -p2p n",
                amd="amd-smi xgmi -l; amd-smi topology",
            ),
            "On a board with NVSwitches, see whether the fabric manager runs. "
            "$ systemctl status nvidia-fabricmanager",
        ],
    )


def _linked(case: Case, judged: Judged) -> Sku | None:
    """The model of both GPUs where boards of it have links, or mostly have (NVL)."""
    figure = judged[0]
    one, other = (case.machine.gpu(end or "") for end in (figure.src, figure.dst))
    if one is None or other is None or one.mig_enabled or other.mig_enabled:
        return None
    sku = case.sku(one)
    if sku is None or case.sku(other) != sku or "staged" in (figure.engine or ""):
        return None
    board = sku.fabric in WIRED or (sku.fabric is BoardLinks.BRIDGE and "NVL" in sku.name)
    return sku if board and _most(sku) > _APART * _pcie(sku) else None


def _most(sku: Sku) -> float:
    """What one pair's links carry one way."""
    return sku.pair_gbs or (sku.link_count or 0) * (sku.link_gbs or 0.0)


def _pcie(sku: Sku) -> float:
    return pcie_gbs(sku.pcie_gen, sku.pcie_width) or 0.0


def _passes(sku: Sku, judged: Judged) -> bool:
    """Whether a copy is faster than PCIe carries."""
    ways = QUANTITIES[judged[0].quantity][1]
    return (judged[0].value or 0.0) > _COUNTED_WELL * _pcie(sku) * ways


UNUSED = Rule(
    id="links-unused",
    family="D01",
    title="copies of boards with {any_link} that are no faster than PCIe",
    evidence="GB/s of pairs of GPUs whose boards have {any_links}, where none was read as up",
    disproof="a copy between two of these GPUs that is faster than PCIe carries",
    sources=("CUDA samples p2pBandwidthLatencyTest", "NVIDIA Fabric Manager user guide"),
    check=_check,
    implied_by=(
        "nvlink-down",
        "nvlink-missing",
        "nvlink-p2p-refused",
        "fabric-state",
        "fabric-manager",
        "xgmi-link-down",
        "p2p-data-wrong",
    ),
)

RULES = (UNUSED,)
