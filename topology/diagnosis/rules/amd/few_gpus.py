"""A part of a full mesh of xGMI."""

from __future__ import annotations

from ....hardware.specs import Sku
from ....hardware.vendors import AMD
from ....model.severity import BY_DESIGN
from ....model.units import figure, gbs
from ... import vendors
from ...case import Case
from ...rule import Found, Rule


def _check_few(case: Case) -> Found:
    gpus = [gpu for gpu in vendors.amds(case) if gpu.partition is None]
    models = [case.sku(gpu) for gpu in gpus] if len(gpus) == len(case.gpus) else []
    sku = models[0] if models else None
    if (
        sku is None
        or any(model != sku for model in models)
        or not sku.pair_gbs
        or not sku.link_count
        or not sku.world_size
    ):
        return None
    # With packages of two dies, some pairs have no link and others have several.
    full = sku.link_count + 1 == sku.world_size and sku.devices == 1
    if not full or not 1 < len(gpus) < sku.world_size:
        return []
    # Cards with bridges, or without any, are no board.
    if sku.fabric != "point_to_point" or not all(pair.fast for pair in case.pairs):
        return []
    count = len(gpus)
    paper = (count - 1) * sku.pair_gbs
    return FEW.finding(
        BY_DESIGN,
        f"{count} of {sku.world_size} GPUs of a full mesh",
        devices=gpus,
        evidence=[
            (
                "GPUs that take part",
                (
                    f"{count} {sku.name}; one link of {gbs(sku.pair_gbs)} for each pair, on paper "
                    f"{count - 1} x {figure(sku.pair_gbs)} = {gbs(paper)} for each GPU, "
                    f"{gbs(sku.link_count * sku.pair_gbs)} with all {sku.world_size}"
                ),
                "amdsmi, data sheet",
            )
        ],
        impact=f"{_price(sku, count)}. That is how the board is wired; do not compare it "
        "with two GPUs on NVSwitches.",
        fix=["More channels help a little. $ export NCCL_MIN_NCHANNELS=32"],
    )


def _price(sku: Sku, count: int) -> str:
    """What so few GPUs leave unused, and what all-reduce reaches with them."""
    known = next(
        (
            figure
            for figure in sku.figures
            if figure.quantity == "allreduce_busbw"
            and figure.gpus == sku.world_size
            and figure.fraction
        ),
        None,
    )
    used = "is" if count == 2 else "are"
    price = f"{count - 1} of {sku.link_count} links of each GPU {used} in use"
    exact = next(
        (
            figure
            for figure in sku.figures
            if (figure.quantity, figure.kind, figure.gpus) == ("allreduce_busbw", "typical", count)
        ),
        None,
    )
    if exact is not None and known is not None:
        price += (
            f": all-reduce reaches {gbs(exact.measured)} busbw as others measured, where "
            f"{sku.world_size} GPUs reach {gbs(known.measured)}"
        )
    elif known is not None and known.fraction:
        reach = known.fraction * (count - 1) * (sku.pair_gbs or 0.0)
        price += (
            f": all-reduce reaches about {gbs(reach)} busbw (an estimate), where {sku.world_size} "
            f"GPUs reach {gbs(known.measured)}"
        )
    return price


FEW = Rule(
    id="amd-few-gpus",
    family="D27",
    title="A part of a full mesh of xGMI",
    evidence="number of GPUs that take part, and the model's links",
    vendor=AMD.id,
    disproof="all GPUs of the board in `amd-smi list`",
    sources=("ROCm/rccl PR 1270", "ROCm/rccl PR 1204", "stas00/ml-engineering network"),
    check=_check_few,
)


RULES = (FEW,)
