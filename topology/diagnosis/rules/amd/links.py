"""xGMI links: down, slow, with new errors, and meshes that lack some."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from ....expectation.cost.costs import costs_of
from ....hardware.specs import BoardLinks, Sku
from ....hardware.vendors import AMD
from ....model.machine import Gpu, XgmiLink
from ....model.readings import GpuReading
from ....model.severity import BY_DESIGN, NOTICE, SLOW
from ....model.units import figure, gbs
from ....model.units import seconds as time_of
from ... import vendors
from ...case import Case
from ...gpu_rule import of_gpus
from ...rule import Found, Rule, faulty, needed
from ...shared.counters import both_readings, elapsed_seconds, growth

_READ_XGMI = (
    "Look for xGMI errors in the kernel's log, then drain and restart the node. "
    "# dmesg | grep -i xgmi"
)


Ends = tuple[str, str]


def _check_xgmi(case: Case) -> Found:
    gpus = [gpu for gpu in vendors.amds(case) if any(link.active is not None for link in gpu.xgmi)]
    links = [(gpu.address, link) for gpu in needed(gpus) for link in gpu.xgmi]
    down = [
        (gpu, link.remote_address)
        for gpu, link in links
        if link.active is False and link.remote_address in case.devices.gpus
    ]
    gone = [] if case.in_vm is not False else _gone(case, gpus)
    lost = [*down, *(pair for pair in gone if pair not in down)]
    some = any(link.active for _, link in links)
    # A guest may be shown all its links as down (ROCm/rocm-systems PR 2053).
    if not lost or (not some and case.in_vm is not False):
        return [] if some else None
    ends = _unordered(lost)
    rates = {_rate(case, a, b) for a, b in lost} - {None}
    rate = f" of {gbs(rates.pop())}" if len(rates) == 1 else ""
    cost = costs_of(case.node).all_reduce
    return XGMI.finding(
        SLOW,
        f"xGMI links are down: {_named(case, ends)}",
        devices=devices_in(ends),
        evidence=[
            (
                f"xGMI link of {case.name(a)} to {case.name(b)}",
                "down" if (a, b) in down else "none; the model has one for every pair",
                "amdsmi link metrics and topology",
            )
            for a, b in lost[:_MOST]
        ],
        impact=f"Each of these pairs loses its own link{rate} one way and goes over PCIe; "
        f"RCCL finds no full mesh and builds fewer rings{_all_reduce(case)}.",
        cost="" if cost is None else cost.brief,
        fix=["Read the links. $ amd-smi xgmi -l", _READ_XGMI],
    )


def _all_reduce(case: Case) -> str:
    cost = costs_of(case.node).all_reduce
    return f": {cost.text}" if cost is not None and cost.lost else ""


def _unordered(pairs: Iterable[Ends]) -> list[Ends]:
    """Each pair once, whichever end came first."""
    return sorted({(a, b) if a < b else (b, a) for a, b in pairs})


def devices_in(pairs: Iterable[Ends]) -> list[str]:
    """The ends of all pairs, each once."""
    return sorted({end for pair in pairs for end in pair})


def _named(case: Case, pairs: Sequence[Ends]) -> str:
    names = [f"{case.name(a)}-{case.name(b)}" for a, b in pairs]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _full_mesh(sku: Sku) -> bool:
    """Whether the model joins every pair by one link; with packages of two dies it cannot."""
    links = sku.link_count or 0
    return links > 0 and links + 1 == sku.world_size and sku.devices == 1


def _gone(case: Case, gpus: list[Gpu]) -> list[Ends]:
    """Pairs without a record of a link, on a whole board of a model that joins every pair."""
    sku = case.sku(gpus[0])
    board = [gpu for gpu in case.machine.gpus if gpu.vendor == AMD.id and gpu.partition is None]
    if (
        sku is None
        or sku.fabric != BoardLinks.POINT_TO_POINT
        or not _full_mesh(sku)
        or len(board) != sku.world_size
    ):
        return []
    if any(case.sku(gpu) != sku for gpu in board):
        return []
    linked = {(gpu.address, link.remote_address) for gpu in gpus for link in gpu.xgmi}
    return [
        (gpu.address, other.address)
        for gpu, other in product(gpus, board)
        if other is not gpu
        and gpu.why("xgmi") is None
        # The library names no link to a GPU that it does not see.
        and (other.index is None) == (gpu.index is None)
        and (gpu.address, other.address) not in linked
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


def _check_few(case: Case) -> Found:
    gpus = [gpu for gpu in vendors.amds(case) if gpu.partition is None]
    models = [*map(case.sku, gpus)] if len(gpus) == len(case.gpus) else []
    sku = models[0] if models and models.count(models[0]) == len(models) else None
    if sku is None or not (sku.pair_gbs and sku.link_count and sku.world_size):
        return None
    if not _full_mesh(sku) or not 1 < len(gpus) < sku.world_size:
        return []
    # Cards with bridges, or without any, are no board.
    if sku.fabric != BoardLinks.POINT_TO_POINT or not all(pair.fast for pair in case.pairs):
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
                f"{count} {sku.name}; one link of {gbs(sku.pair_gbs)} for each pair, on paper "
                f"{count - 1} x {figure(sku.pair_gbs)} = {gbs(paper)} for each GPU, "
                f"{gbs(sku.link_count * sku.pair_gbs)} with all {sku.world_size}",
                "amdsmi, data sheet",
            )
        ],
        impact=f"{_price(sku, count)}. That is how the board is wired; do not compare it "
        "with two GPUs on NVSwitches.",
        fix=["More channels help a little. $ export NCCL_MIN_NCHANNELS=32"],
    )


def _price(sku: Sku, count: int) -> str:
    """What so few GPUs leave unused, and what all-reduce reaches with them."""
    figures = [figure for figure in sku.figures if figure.quantity == _ALL_REDUCE]
    known = next((f for f in figures if f.gpus == sku.world_size and f.fraction), None)
    exact = next((f for f in figures if (f.kind, f.gpus) == ("typical", count)), None)
    used = "is" if count == 2 else "are"
    price = f"{count - 1} of {sku.link_count} links of each GPU {used} in use"
    if known is None or not known.fraction:
        return price
    reach = f"about {gbs(known.fraction * (count - 1) * (sku.pair_gbs or 0.0))} busbw (an estimate)"
    if exact is not None:
        reach = f"{gbs(exact.measured)} busbw as others measured"
    return (
        f"{price}: all-reduce reaches {reach}, where {sku.world_size} GPUs reach "
        f"{gbs(known.measured)}"
    )


_ALL_REDUCE = "allreduce_busbw"
HOP_WEIGHT = 15
"""The weight that amdgpu gives one hop of xGMI."""
BITS = 8
_BLOCK = "XGMI_WAFL"
"""The part of an AMD GPU whose ECC watches the xGMI links."""
_MOST = 8


def _links(case: Case) -> Iterator[tuple[Gpu, XgmiLink]]:
    for gpu in case.gpus:
        for link in gpu.xgmi:
            if link.active is not False and link.remote_address in case.devices.gpus:
                yield gpu, link


def _best(case: Case, known: list[tuple[Gpu, XgmiLink, float]]) -> dict[str | None, float]:
    """Rate of one link by model of GPU: the data sheet's, or the best of such GPUs here."""
    best: dict[str | None, float] = {}
    for gpu, _, rate in known:
        sku = case.sku(gpu)
        sheet = (sku.link_gbs if sku is not None else None) or 0.0
        best[gpu.name] = max(best.get(gpu.name, 0.0), rate, sheet)
    return best


def _check_slow(case: Case) -> Found:
    known = needed(
        [
            (gpu, link, link.speed_gts * link.width / BITS)
            for gpu, link in _links(case)
            if link.speed_gts and link.width
        ]
    )
    best = _best(case, known)
    least = case.threshold(SLOW_LINK, "minimum_share")
    low = faulty([entry for entry in known if entry[2] < least * best[entry[0].name]])
    ends = _unordered((gpu.address, link.remote_address) for gpu, link, _ in low)
    share = min(rate / best[gpu.name] for gpu, _, rate in low)
    return SLOW_LINK.finding(
        SLOW,
        f"xGMI links run below their rate: {_named(case, ends)}",
        devices=devices_in(ends),
        evidence=[
            (
                f"xGMI link of {case.name(gpu)} to {case.name(link.remote_address)}",
                f"{figure(link.speed_gts)} GT/s x{link.width}, {gbs(rate)} one way; "
                f"{gbs(best[gpu.name])} is usual",
                "amdsmi; data sheet and sister links",
            )
            for gpu, link, rate in low[:_MOST]
        ],
        impact=f"These pairs carry {100 * share:.0f} % of what they could, and a ring "
        "over all GPUs runs at the rate of its slowest link.",
        fix=["Read the links. $ amd-smi xgmi -m", _READ_XGMI],
    )


def _check_errors(case: Case) -> Found:
    elapsed = elapsed_seconds(case)
    if elapsed is None:
        return None
    counts = needed(
        [(gpu, grown) for gpu, *both in both_readings(case) if (grown := _grown(case, *both))]
    )
    added = [
        (gpu, {what: count for what, count in grown.items() if count}) for gpu, grown in counts
    ]
    sick = faulty([(gpu, grown) for gpu, grown in added if grown])
    hard = any(grown.keys() - {"corrected"} for _, grown in sick)
    return of_gpus(
        ERRORS,
        case,
        sick,
        SLOW if hard else NOTICE,
        f"xGMI errors of {{gpus}} grew in {time_of(elapsed)}",
        (
            f"added on the xGMI links of {{gpu}} in {time_of(elapsed)}",
            lambda _, grown: ", ".join(f"{count} {word}" for word, count in grown.items()),
            f"amdsmi, block {_BLOCK} and link counters, two readings",
        ),
        impact="Such a link often goes down next, and then a job hangs or ends."
        if hard
        else "The links corrected these by themselves, which costs nothing. Watch whether it "
        "goes on.",
        fix=[
            "Watch the counters. $ amd-smi metric --ecc-blocks",
            "If they go on, drain the node and have the board looked at.",
        ],
    )


def _grown(case: Case, now: GpuReading, before: GpuReading) -> dict[str, int]:
    """How much the counters of a GPU's xGMI links grew, those that stood still included."""
    grown: dict[str, int] = {}
    blocks = {ecc.block: ecc for ecc in before.ecc_blocks if ecc.block == _BLOCK}
    for ecc in now.ecc_blocks:
        if ecc.block in blocks:
            grown |= growth(ecc, blocks[ecc.block], ("corrected", "uncorrected"))
    links = {link.remote_address: link for link in before.xgmi}
    for link in now.xgmi:
        if link.remote_address in links:
            new = growth(link, links[link.remote_address], ("errors",))
            grown |= {
                f"errors to {case.name(link.remote_address)}": n for n in new.values() if n or new
            }
    return grown


def _check_hops(case: Case) -> Found:
    chosen = {gpu.address for gpu in case.gpus}
    known = [
        pair
        for pair in case.machine.pairs
        if pair.link_type == "xgmi" and pair.weight and {pair.src, pair.dst} <= chosen
    ]
    direct = {(gpu.address, link.remote_address) for gpu in case.gpus for link in gpu.xgmi}
    weights = {
        (pair.src, pair.dst): pair.weight or 0
        for pair in needed(known)
        if (pair.weight or 0) > HOP_WEIGHT and (pair.src, pair.dst) not in direct
    }
    ends = faulty(_unordered(weights))
    rates = [link.raw_gbs for _, link in _links(case) if link.raw_gbs]
    least = f" A direct link has {gbs(min(rates))} or more." if rates else ""
    return HOPS.finding(
        BY_DESIGN,
        f"{len(ends)} pairs of GPUs have no xGMI link of their own"
        if len(ends) > 1
        else "one pair of GPUs has no xGMI link of its own",
        devices=devices_in(ends),
        evidence=[
            (
                f"weight of {case.name(a)} to {case.name(b)}",
                f"{weights.get((b, a), weights.get((a, b)))}, {HOP_WEIGHT} for each hop",
                "the driver's io_links",
            )
            for a, b in ends[:_MOST]
        ],
        impact="amd-smi calls such a pair XGMI with one hop all the same, but its bytes "
        "pass through other GPUs and share their links; RCCL before 2.30 counts it over PCIe."
        f"{least} A job on few GPUs is fastest on those that are joined directly.",
    )


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
FEW = Rule(
    id="amd-few-gpus",
    family="D27",
    title="a part of a full mesh of xGMI",
    evidence="number of GPUs that take part, and the model's links",
    vendor=AMD.id,
    disproof="all GPUs of the board in `amd-smi list`",
    sources=("ROCm/rccl PR 1270", "ROCm/rccl PR 1204", "stas00/ml-engineering network"),
    check=_check_few,
)
SLOW_LINK = Rule(
    id="xgmi-link-slow",
    family="D25",
    title="xGMI links below their rate",
    evidence="rate and width of each xGMI link that is up, and the model's",
    vendor=AMD.id,
    disproof="the full rate and width of these links in `amd-smi xgmi -m`",
    sources=("ROCm/amdsmi amdsmi_get_link_metrics", "ROCm/rocm-systems#5763"),
    check=_check_slow,
    implied_by=("xgmi-link-down",),
    thresholds=(("minimum_share", 0.95),),
)
ERRORS = Rule(
    id="xgmi-errors",
    family="D22",
    title="xGMI errors that were added between two readings",
    evidence="errors of each xGMI link and of the block XGMI_WAFL, now and earlier on one boot",
    over_time=True,
    vendor=AMD.id,
    disproof="equal counters in two readings of `amd-smi metric --ecc-blocks`",
    sources=("Azure/azurehpc-health-checks", "ROCm/amdsmi amdsmi_get_gpu_ecc_count"),
    check=_check_errors,
)
HOPS = Rule(
    id="xgmi-several-hops",
    family="D25",
    title="pairs of GPUs that xGMI joins only over other GPUs",
    evidence="link type and weight of each pair, links of each GPU",
    vendor=AMD.id,
    disproof="a bandwidth other than 0-0 of the pair in `rocm-smi --shownodesbw`",
    sources=("ROCm/rocm-systems#5763", "open-mpi/hwloc#775", "ROCm/rocm_smi_lib#108"),
    check=_check_hops,
)
RULES = (XGMI, FEW, ERRORS, SLOW_LINK, HOPS)
