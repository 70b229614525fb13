"""The band of a collective's bus bandwidth, by GPUs that take part, algorithm and message size."""

from __future__ import annotations

import msgspec

from ..hardware.specs import Sku
from ..model import quantities
from ..model.machine import Gpu
from ..model.snapshot import Measurement
from ..node import Node
from ..wiring.codes import UNKNOWN
from .collective_figures import LARGE_BYTES, Reached, estimated, published
from .judgement import ESTIMATE, TOO_HIGH, Band, Expected, band
from .links import FAST, PCIE, SAME, LinkRates, link_of_pair, mesh_links_down, proven
from .modelled import modelled, overlooked, rings_left
from .over_pcie import over_pcie
from .variables import Variables, choice_at
from .ways import TakenWay, way_of_rings

COLLECTIVES = {
    quantities.ALL_REDUCE: ("allreduce_busbw", "AllReduce"),
    quantities.ALL_GATHER: ("allgather_busbw", "AllGather"),
    quantities.REDUCE_SCATTER: ("reducescatter_busbw", "ReduceScatter"),
    quantities.ALL_TO_ALL: ("alltoall_busbw", ""),
    quantities.SEND_RECEIVE_ALL: ("sendrecv_busbw", ""),
    quantities.BROADCAST: ("broadcast_busbw", "Broadcast"),
}
"""Quantity -> quantity of the table, and the library's name for the collective if it models it."""
MODEL = "the library's own model of this topology"
NETWORK = "between hosts the network decides; this text does not say which NICs they have"
UNTOLD = 1.11
"""How much wider a band is where nothing tells how the GPUs are joined."""
PLATEAU_BYTES = 256 << 20
"""Curves are judged from this size on; smaller messages show latency too."""
CURVE_BYTES = 16 << 20
"""Below this size, two correct ways of timing differ by more than a tenth."""


class Participants(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs that took part."""

    count: int
    gpus: tuple[Gpu, ...]
    """The GPUs; arbitrary ones where all are alike and only their number is known."""
    addresses: tuple[str, ...] | None
    """None for all GPUs of the node."""


def group_of(node: Node, figure: Measurement) -> Participants | None:
    """The GPUs that took part according to the figure; all GPUs where it does not say."""
    everyone = node.machine.gpus
    named = next(
        (
            value
            for name in ("devices", "gpus", "ranks")
            if isinstance(value := figure.details.get(name), list | tuple)
        ),
        None,
    )
    if named is not None:
        found = [node.devices.gpu(key) for key in named if isinstance(key, str)]
        gpus = tuple(gpu for gpu in found if gpu is not None)
        if len(gpus) != len(named) or not gpus:
            return None
        some = len(gpus) < len(everyone)
        addresses = tuple(gpu.address for gpu in gpus) if some else None
        return Participants(count=len(gpus), gpus=gpus, addresses=addresses)
    if figure.details.get("hosts", 1) != 1:
        return None  # between hosts the network decides
    ranks = figure.details.get("ranks", len(everyone))
    if not isinstance(ranks, int) or isinstance(ranks, bool) or not 1 < ranks <= len(everyone):
        return None
    gpus = everyone[:ranks]
    some = ranks < len(everyone)
    return Participants(
        count=ranks, gpus=gpus, addresses=tuple(gpu.address for gpu in gpus) if some else None
    )


def expected(node: Node, variables: Variables, figure: Measurement) -> Expected:
    """The band of a healthy node of this kind, where the library chooses freely."""
    if not node.machine.gpus:
        return Expected(note="the snapshot holds no GPU")
    group = group_of(node, figure)
    if group is None and figure.details.get("hosts", 1) != 1:
        return Expected(note=NETWORK)
    if group is None:
        return Expected(note="which GPUs took part is not known")
    sku = _model(node, group)
    if isinstance(sku, str):
        return Expected(note=sku)
    size = figure.bytes_per_copy
    plateau = size is None or size >= PLATEAU_BYTES
    link = narrowest(node, group, sku)
    algorithm, found = _healthy(variables, figure, group, sku, link)
    if found is None or found[2] == MODEL:
        ranged = _of_links(node, variables, figure, group)
        if ranged is not None:
            return ranged
    if found is None:
        return Expected(note=f"no published figure for {group.count} GPUs", algorithm=algorithm)
    healthy, basis, source, what = found
    if link is not None and plateau:
        link = _proven_by(figure, link, healthy)
    gone = link is not None and link.gone
    reach, missing = _left(variables, figure, group, link, healthy)
    scaled = tuple(text for text in (what, *missing) if text)
    made = band(healthy, "GB/s", basis, source, scaled=scaled, reach=reach)
    if any(
        node.pairs.kind(group.gpus[0].address, gpu.address) == UNKNOWN for gpu in group.gpus[1:]
    ):
        made = msgspec.structs.replace(made, low=made.low / UNTOLD, high=made.high * UNTOLD)
    return msgspec.structs.replace(_sized(made, missing, size, algorithm), settled=gone)


def _model(node: Node, group: Participants) -> Sku | str:
    """The one model of a group of whole GPUs; a sentence where there is none."""
    sku, *others = [node.devices.sku(gpu) for gpu in group.gpus]
    if sku is None or any(other != sku for other in others):
        return "no table holds this model, or the GPUs are of several"
    if any(gpu.mig_enabled or gpu.partition is not None for gpu in group.gpus):
        return "parts of GPUs; the table holds whole ones"
    return sku


def _healthy(
    variables: Variables,
    figure: Measurement,
    group: Participants,
    sku: Sku,
    link: LinkRates | None,
) -> tuple[str | None, Reached | None]:
    """The algorithm, and figure, basis, source and remark of a healthy node: the best known."""
    quantity, collective = COLLECTIVES[figure.quantity]
    size = figure.bytes_per_copy
    algorithm, model_gbs = _chosen(variables, figure, group, collective, size)
    found = published(sku, quantity, group.count, algorithm, size)
    if found is None:
        found = estimated(sku, quantity, group.count, algorithm, size, link)
    # The model's figure is the one of large messages.
    if found is None and model_gbs and (size is None or size >= PLATEAU_BYTES):
        found = (model_gbs, ESTIMATE, MODEL, "")
    return algorithm, found


def _of_links(
    node: Node,
    variables: Variables,
    figure: Measurement,
    group: Participants,
) -> Expected | None:
    """A range where rings go over PCIe, of which the library's model knows three rates."""
    size = figure.bytes_per_copy
    if size is not None and size < CURVE_BYTES:
        return None
    free = variables.healthy(variables.had(figure), group.addresses)
    if free is None or way_of_rings(free) is TakenWay.LINKS:
        return None  # what takes its links from a group is no property of a healthy node
    made = variables.with_variables(variables.had(figure), group.addresses)
    over = None if made is None or made.failure else over_pcie(made, node)
    if over is None:
        return None
    point = band(over.gbs, "GB/s", ESTIMATE, over.source, scaled=(over.because,))
    ranged = msgspec.structs.replace(point, low=over.low, high=over.high)
    return Expected(band=ranged, plateau=size is None or size >= PLATEAU_BYTES)


def _left(
    variables: Variables,
    figure: Measurement,
    group: Participants,
    link: LinkRates | None,
    healthy: float,
) -> tuple[float | None, tuple[str, ...]]:
    """What the links that are up leave of a healthy figure, and what is missing, in clauses."""
    missing = link.missing if link is not None and link.kind is not PCIE else ()
    if link is not None and link.gone:
        return None, missing
    _, collective = COLLECTIVES[figure.quantity]
    reach = _reach(variables, figure, group, collective, healthy)
    if reach is not None and figure.value is not None and figure.value > TOO_HIGH * reach:
        reach = None  # too fast for the fault that was read
    elif reach is not None and not missing:
        missing = mesh_links_down(group.gpus)
    if reach is None and link is not None and missing:
        reach = healthy * link.now_gbs / link.design_gbs
    return reach, missing


def _proven_by(figure: Measurement, link: LinkRates, healthy: float) -> LinkRates:
    """The link without the doubts that the figure refutes because it is too fast for them."""
    reach = healthy * link.now_gbs / link.design_gbs
    over = figure.value is not None and figure.value > TOO_HIGH * reach
    return proven(link, link.design_gbs * SAME) if over else link


def _sized(
    made: Band, missing: tuple[str, ...], size: int | None, algorithm: str | None
) -> Expected:
    plateau = size is None or size >= PLATEAU_BYTES
    note = ""
    if size is not None and size < CURVE_BYTES:
        made = msgspec.structs.replace(made, basis=ESTIMATE)
        note = "below 16 MiB ways of timing differ too much for a verdict"
    return Expected(band=made, causes=missing, plateau=plateau, algorithm=algorithm, note=note)


def _chosen(
    variables: Variables,
    figure: Measurement,
    group: Participants,
    collective: str,
    size: int | None,
) -> tuple[str | None, float | None]:
    """The algorithm without variables that decide, and the model's bus bandwidth of it, GB/s."""
    if not collective:
        return "P2P", None
    made = variables.healthy(variables.had(figure), group.addresses)
    if made is None or made.failure:
        return None, None
    choice = choice_at(made, "AllReduce", size)
    algorithm = choice.algorithm if choice is not None else None
    if collective != "AllReduce" and algorithm is not None:
        algorithm = "RING"  # NVLS serves the all-reduce alone
    table = made.tuning.get(collective, {}).get(algorithm or "RING", {})
    best = max((gbs for _, gbs in table.values()), default=0.0)
    n = group.count
    factor = {"AllReduce": 2 * (n - 1) / n, "Broadcast": 1.0}.get(collective, (n - 1) / n)
    return algorithm, best * factor or None


def _reach(
    variables: Variables,
    figure: Measurement,
    group: Participants,
    collective: str,
    healthy: float,
) -> float | None:
    """What the library's own model leaves of an all-reduce with the links that are up.

    None where the model does not say. A missing link costs more than its share, because the search
    settles for fewer or slower channels.
    """
    if collective != "AllReduce":
        return None
    values = variables.had(figure)
    whole = variables.healthy(values, group.addresses)
    here = variables.without(values, group.addresses)
    if whole is None or here is None:
        return None
    size = figure.bytes_per_copy or LARGE_BYTES
    before, after = modelled(whole, size), modelled(here, size)
    if before is not None and after is not None and not overlooked(whole, here, size):
        return min(after, healthy) if after < SAME * before else None
    share = rings_left(whole, here)
    return None if share is None else healthy * share


def narrowest(node: Node, group: Participants, sku: Sku) -> LinkRates | None:
    """The slowest link of the group, which sets the pace of a collective."""
    links = [
        link
        for other in group.gpus[1:]
        if (link := link_of_pair(node, group.gpus[0], other, sku)) is not None
    ]
    return min(links, key=lambda link: link.now_gbs, default=None)


def send_gbs(node: Node, group: Participants, sku: Sku) -> float | None:
    """What the poorest GPU of a group can send to the others together by design, GB/s.

    Through switches that is its bundle of links; on a mesh the sum of its links in the group;
    PCIe counts for a GPU without either.
    """
    found = []
    islands = not _joined(node, group, sku)
    for gpu in group.gpus:
        links = [
            link
            for other in group.gpus
            if other is not gpu and (link := link_of_pair(node, gpu, other, sku)) is not None
        ]
        # Between islands (bridged pairs) everything crosses PCIe (NVIDIA/nccl-tests#178).
        wanted = (PCIE,) if islands else FAST
        used = [link for link in links if link.kind in wanted] or ([] if islands else links)
        added = not islands and used[:1] and used[0].kind in FAST
        mesh = added and not any(link.switched for link in used)
        if used:
            found.append((sum if mesh else max)(link.design_gbs for link in used))
    return min(found, default=None)


def _joined(node: Node, group: Participants, sku: Sku) -> bool:
    """Whether fast links lead from each GPU to every other, through others if necessary."""
    reached, queue = {group.gpus[0].address}, [group.gpus[0]]
    for gpu in queue:
        for other in group.gpus:
            if other.address in reached:
                continue
            link = link_of_pair(node, gpu, other, sku)
            if link is not None and link.kind in FAST:
                reached.add(other.address)
                queue.append(other)
    return len(reached) == len(group.gpus)


def ring_gbs(sku: Sku, figure: Measurement, count: int) -> float | None:
    """What a ring reaches in this collective on this model; None where it was not measured."""
    quantity, _ = COLLECTIVES[figure.quantity]
    found = published(sku, quantity, count, "RING", figure.bytes_per_copy)
    return None if found is None else found[0]
