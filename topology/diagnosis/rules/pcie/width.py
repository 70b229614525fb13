"""PCIe links with fewer lanes than both ends support."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from msgspec.structs import replace

from ....expectation.cost.cost import Cost
from ....expectation.cost.costs import costs_of
from ....expectation.links import pcie_gbs
from ....model.finding import Finding
from ....model.page import MEASURED, SIMULATED
from ....model.severity import NOTICE, SLOW, Severity
from ....model.units import gbs
from ...case import Case
from ...rule import Found, Rule
from ...shared.lanes import (
    Narrow,
    by_siblings,
    generation_of,
    links_of,
    loaded,
    too_few,
    under_load,
    width_now,
)


def _check(case: Case) -> Found:
    ends = [gpu.address for gpu in case.gpus]
    ends += [nic.address for nic in case.machine.rdma if nic.address and case.pci(nic.address)]
    read = False
    found: list[Narrow] = []
    for end in ends:
        links = links_of(case, end)
        read = read or bool(links)
        found += too_few(case, end)
    loads = loaded(case)
    widths = [width_now(case, gpu) for gpu in case.gpus]
    if not read and sum(width is not None for width in widths) < 2 and not loads:
        return None
    found += by_siblings(case, {link.device for link in found})
    found += under_load(case, {link.device for link in found})
    gpus = {gpu.address for gpu in case.gpus}
    # A bridge above several devices is one link.
    shared = {link.link for link in found if link.device in gpus}
    of_gpus = [link for link in found if link.link in shared]
    of_nics = [link for link in found if link.link not in shared]
    made = [_finding(case, of_gpus, SLOW)] if of_gpus else []
    if of_nics:
        # A root port may report more lanes than its slot has; a sibling with more proves a fault.
        sisters = any(_behind(case, of_nic) for of_nic in of_nics)
        made.append(_finding(case, of_nics, SLOW if sisters else NOTICE))
    return made


def _behind(case: Case, link: Narrow) -> bool:
    """Whether another RDMA device of the same kind has more lanes."""
    mine = case.pci(link.device)
    others = (case.pci(nic.address) for nic in case.machine.rdma if nic.address)
    return mine is not None and any(
        other.link_width_now is not None and other.link_width_now > link.now
        for other in others
        if other is not None and other.device_id == mine.device_id
    )


def _finding(case: Case, found: Sequence[Narrow], severity: Severity) -> Finding:
    who = list(dict.fromkeys(link.device for link in found))
    links = list({link.link: link for link in found}.values())
    first = links[0]
    cost = _cost(case, first)
    return WIDTH.finding(
        severity,
        f"PCIe of {case.names(who)} has x{first.now} instead of x{first.most}",
        brief=f"PCIe x{first.now} of x{first.most}",
        devices=who,
        evidence=[
            (
                f"lanes of the link of {case.name(link.link)}"
                + (f", on the way to {case.name(link.device)}" if link.link != link.device else ""),
                f"x{link.now} of x{link.most}",
                link.source,
            )
            for link in links[:6]
        ],
        impact=_price(case, first),
        cost="" if cost is None else cost.brief,
        fix=[
            (
                "See what each end can do and what came up. "
                f"# lspci -vv -s {shlex.quote(first.link)} | grep -E 'LnkCap|LnkSta'"
            ),
            "Seat the card or its riser again; look at the slot's bifurcation.",
        ],
    )


def _rates(case: Case, link: Narrow) -> tuple[float | None, float | None]:
    """What the link carries now and with all its lanes, GB/s one way."""
    gpu = case.machine.gpu(link.device)
    device = case.pci(link.link)
    gen = generation_of(device.link_speed_max_gts if device is not None else None)
    if gen is None and gpu is not None:
        gen = gpu.pcie_gen_max
    now, whole = (pcie_gbs(gen, lanes) if gen else None for lanes in (link.now, link.most))
    return now, whole


def _cost(case: Case, link: Narrow) -> Cost | None:
    """What host copies lose; None where nothing is known of them."""
    now, whole = _rates(case, link)
    cost = costs_of(case.node).host(link.device)
    if now is None or whole is None or cost is None or cost.healthy is None:
        return None
    if not cost.lost and cost.basis not in (MEASURED, SIMULATED):
        # Lanes that only a copy showed, or of a link further up.
        cost = replace(cost, here=cost.healthy * now / whole)
    return cost


def _price(case: Case, link: Narrow) -> str:
    now, whole = _rates(case, link)
    if now is None or whole is None:
        return f"Host copies and PCIe traffic get {link.now} of {link.most} lanes."
    text = f"The link carries {gbs(now)} instead of {gbs(whole)} one way"
    cost = _cost(case, link)
    if cost is not None and cost.lost:
        text += f"; {cost.text}"
    return text + "."


WIDTH = Rule(
    id="pcie-width",
    family="D07",
    title="PCIe links with fewer lanes than both ends support",
    evidence="lanes now and at most of each link from a GPU or RDMA device up, and lanes while the "
    "probe host copied",
    disproof="LnkSta Width equal to the smaller LnkCap Width of both ends in `lspci -vv`",
    sources=("NVIDIA/open-gpu-kernel-modules#1010", "NVIDIA/nccl#1614", "NVIDIA/NVSentinel#890"),
    check=_check,
)


RULES = (WIDTH,)
