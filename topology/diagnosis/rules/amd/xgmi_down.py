"""xGMI links that are down, or gone."""

from __future__ import annotations

from ....expectation.cost.costs import costs_of
from ....hardware.vendors import AMD
from ....model.machine import Gpu
from ....model.severity import SLOW
from ....model.units import gbs
from ... import vendors
from ...case import Case
from ...rule import Found, Rule


def _check_xgmi(case: Case) -> Found:
    gpus = [gpu for gpu in vendors.amds(case) if any(link.active is not None for link in gpu.xgmi)]
    if not gpus:
        return None
    here = {gpu.address for gpu in case.machine.gpus}
    down = [
        (gpu.address, link.remote_address)
        for gpu in gpus
        for link in gpu.xgmi
        if link.active is False and link.remote_address in here
    ]
    gone = [] if case.in_vm is not False else _gone(case, gpus)
    lost = [*down, *(pair for pair in gone if pair not in down)]
    some = any(link.active for gpu in gpus for link in gpu.xgmi)
    # A guest may be shown all its links as down (ROCm/rocm-systems PR 2053).
    if not lost or (not some and case.in_vm is not False):
        return [] if some else None
    ends = sorted({tuple(sorted(pair)) for pair in lost})
    who = sorted({end for pair in ends for end in pair})
    names = [f"{case.name(a)}-{case.name(b)}" for a, b in ends]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    rates = {_rate(case, a, b) for a, b in lost} - {None}
    rate = f" of {gbs(rates.pop())}" if len(rates) == 1 else ""
    cost = costs_of(case.node).all_reduce
    return XGMI.finding(
        SLOW,
        f"xGMI links are down: {', '.join(names[:4])}{more}",
        devices=who,
        evidence=[
            (
                f"xGMI link of {case.name(a)} to {case.name(b)}",
                "down" if (a, b) in down else "none; the model has one for every pair",
                "amdsmi link metrics and topology",
            )
            for a, b in lost[:8]
        ],
        impact=f"Each of these pairs loses its own link{rate} one way and goes over PCIe; "
        f"RCCL finds no full mesh and builds fewer rings{_all_reduce(case)}.",
        cost="" if cost is None else cost.brief,
        fix=[
            "Read the links. $ amd-smi xgmi -l",
            (
                "Look for xGMI errors in the kernel's log, then restart the node. "
                "# dmesg | grep -i xgmi"
            ),
        ],
    )


def _all_reduce(case: Case) -> str:
    cost = costs_of(case.node).all_reduce
    return f": {cost.text}" if cost is not None and cost.lost else ""


def _gone(case: Case, gpus: list[Gpu]) -> list[tuple[str, str]]:
    """Pairs without a record of a link, on a whole board of a model that joins every pair."""
    sku = case.sku(gpus[0])
    board = [gpu for gpu in case.machine.gpus if gpu.vendor == AMD.id and gpu.partition is None]
    if (
        sku is None
        or sku.devices > 1
        or sku.fabric != "point_to_point"
        or not sku.link_count
        or sku.link_count + 1 != sku.world_size
        or len(board) != sku.world_size
        or any(case.sku(gpu) != sku for gpu in board)
    ):
        return []
    return [
        (gpu.address, other.address)
        for gpu in gpus
        for other in board
        if other is not gpu
        and gpu.why("xgmi") is None
        # The library names no link to a GPU that it does not see.
        and (other.index is None) == (gpu.index is None)
        and all(link.remote_address != other.address for link in gpu.xgmi)
    ]


def _rate(case: Case, a: str, b: str) -> float | None:
    """What the links of a pair carry; the model's figure where no record of one is left."""
    gpu = case.machine.gpu(a)
    if gpu is None:
        return None
    link = next((port for port in gpu.xgmi if port.remote_address == b), None)
    sku = case.sku(gpu)
    if link is not None and link.raw_gbs is not None:
        return link.raw_gbs
    return None if sku is None else sku.pair_gbs


XGMI = Rule(
    id="xgmi-link-down",
    family="D25",
    title="xGMI links that are down",
    evidence="state of the xGMI links of each GPU",
    vendor=AMD.id,
    disproof="all links up in `amd-smi xgmi -l`; a guest may show none although they work",
    sources=("ROCm/rocm-systems#5763", "ROCm/rocm-systems PR 2053"),
    check=_check_xgmi,
)


RULES = (XGMI,)
