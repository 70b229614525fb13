"""Compare a log with the prediction for the same GPUs: transports, paths, graphs, choices."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...model.units import size
from ...nccl.prediction import Prediction
from ..report.communicator import Communicator
from ..report.places import first_host, normal, places
from ..report.report import LogReport
from .agreement import Agreement, ComparedItem, PairAgreement
from .compare_graphs import Mapping, graph_items, path_items, ring_items, tree_items
from .reasons import reasons

ROUNDING = 0.0511
"""Allowed difference: the log prints one decimal."""
_FLAVOUR = re.compile(r"\AP2P/(?:CUMEM|IPC)(?=(?:/read)?\Z)")
"""Memory that two processes share; with the copy engine ("/CE") one process uses it too."""


def compare(log: LogReport, prediction: Prediction, *, hosts: int = 1) -> Agreement:
    """Compare the main communicator of a log with a prediction.

    Ranks are matched by PCI address. Ranks of other hosts than the first, and of GPUs that the
    prediction does not know, are outside it. Nothing is alarming here: a difference comes with
    sentences about what may be behind it. `hosts`: how many equal hosts the prediction is for.
    """
    comm = log.main
    library = f"{prediction.library.name}-{prediction.library.version}"
    if comm is None:
        return _not(library, "the log shows no communicator")
    seen = places(comm)
    if not seen:
        return _not(library, "the log does not say which GPU each rank uses (no Init lines)")
    ranks = _matched(comm, prediction)
    outside = tuple(rank for rank in seen if rank not in ranks)
    if not ranks:
        return _not(library, "the GPUs of the log are not those of the prediction", outside)
    skipped: list[str] = []
    pairs = tuple(_pairs(comm, prediction, ranks))
    items = [*path_items(comm, prediction, ranks)]
    if _same_shape(comm, prediction, hosts, skipped):
        items += _whole(comm, prediction, ranks, skipped)
    found = Agreement(
        library=library,
        ranks={str(rank): predicted for rank, predicted in ranks.items()},
        outside=outside,
        pairs=pairs,
        items=tuple(items),
        skipped=tuple(skipped),
    )
    if not found.differing:
        return found
    return Agreement(
        library=library,
        ranks=found.ranks,
        outside=outside,
        pairs=pairs,
        items=found.items,
        skipped=found.skipped,
        reasons=reasons(log, comm, prediction, found, hosts),
    )


def _not(library: str, why: str, outside: tuple[int, ...] = ()) -> Agreement:
    return Agreement(comparable=False, why_not=why, library=library, outside=outside)


def _matched(comm: Communicator, prediction: Prediction) -> Mapping:
    """Rank in the log -> rank in the prediction, for the first host."""
    predicted: dict[str, int] = {}
    for pair in prediction.pairs:
        predicted.setdefault(normal(pair.src_bus_id), pair.src)
    host = first_host(comm)
    return {
        rank: predicted[place.address]
        for rank, place in places(comm).items()
        if place.host == host and place.address in predicted
    }


def _same_shape(comm: Communicator, prediction: Prediction, hosts: int, skipped: list[str]) -> bool:
    """Whether graphs, channels and tuning can be compared: they hold for a whole communicator."""
    predicted = len({pair.src for pair in prediction.pairs}) * hosts
    if comm.nranks == predicted:
        return True
    skipped.append(
        f"rings, trees, channels and tuning: the log's communicator has {comm.nranks} ranks, "
        f"the prediction {predicted}"
    )
    return False


def _pairs(comm: Communicator, prediction: Prediction, ranks: Mapping) -> Iterator[PairAgreement]:
    lines: dict[tuple[int, int], int] = {}
    direct = prediction.environment.get("NCCL_P2P_DIRECT_DISABLE", "0") in ("", "0")
    for transport in comm.transports:
        key = (transport.src, transport.dst)
        lines[key] = min(transport.line, lines.get(key, transport.line))
    for src, predicted_src in ranks.items():
        for dst, predicted_dst in ranks.items():
            pair = prediction.pair(predicted_src, predicted_dst)
            if pair is None:
                continue
            logged = comm.labels(src, dst)
            labels = pair.labels
            if direct and _share_one(comm, src, dst):
                labels = tuple(_FLAVOUR.sub("P2P/direct pointer", label) for label in labels)
            yield PairAgreement(
                src=src,
                dst=dst,
                src_bus_id=pair.src_bus_id,
                dst_bus_id=pair.dst_bus_id,
                logged=logged,
                predicted=labels,
                agrees=_plain(logged) <= _plain(labels) if logged else None,
                line=lines.get((src, dst)),
            )


def _share_one(comm: Communicator, src: int, dst: int) -> bool:
    """Whether one process runs both ranks, which then see each other's pointers.

    The prediction has one process for each GPU (transport/p2p.cc:p2pSendSetup).
    """
    a, b = comm.rank(src), comm.rank(dst)
    if a is None or b is None or a.pid is None:
        return False
    return (a.host, a.pid) == (b.host, b.pid)


def _plain(labels: tuple[str, ...]) -> set[str]:
    """Strip from labels what sets connections for send/receive apart from those of rings and trees.

    Which of the two a pair uses depends on what the job called, and on the trees between nodes.
    """
    return {label.removesuffix("/Shared") for label in labels}


def _whole(
    comm: Communicator, prediction: Prediction, ranks: Mapping, skipped: list[str]
) -> list[ComparedItem]:
    items = [
        *graph_items(comm, prediction, ranks),
        *ring_items(comm, prediction, ranks),
        *tree_items(comm, prediction, ranks),
    ]
    if comm.nodes is not None:
        items.append(
            ComparedItem(
                topic="nodes",
                subject="nodes as the library counts",
                logged=str(comm.nodes),
                predicted=str(prediction.nodes),
                agrees=comm.nodes == prediction.nodes,
                line=comm.shape.line if comm.shape else None,
            )
        )
    if comm.counts is not None and prediction.coll_channels is not None:
        items.append(
            ComparedItem(
                topic="channels",
                subject="channels for collectives",
                logged=str(comm.counts.coll),
                predicted=str(prediction.coll_channels),
                agrees=comm.counts.coll == prediction.coll_channels,
                line=comm.counts.line,
            )
        )
    items += _tuning(comm, prediction)
    items += _choices(comm, prediction)
    for name, there in (("graphs", comm.graphs), ("tuning table", comm.tuning)):
        if not there:
            subsystem = "GRAPH" if name == "graphs" else "TUNING"
            skipped.append(f"{name}: not in the log (NCCL_DEBUG_SUBSYS lacks {subsystem})")
    return items


def _tuning(comm: Communicator, prediction: Prediction) -> Iterator[ComparedItem]:
    """Yield an item for each collective and algorithm of the table, with all its protocols."""
    for collective, algorithms in comm.tuning.items():
        for algorithm, protocols in algorithms.items():
            expected = prediction.tuning.get(collective, {}).get(algorithm)
            if expected is None:
                continue
            common = [protocol for protocol in protocols if protocol in expected]
            agrees = all(_alike(protocols[name], expected[name]) for name in common)
            yield ComparedItem(
                topic="tuning",
                subject=f"{collective} {algorithm}",
                logged=_figures(protocols, common),
                predicted=_figures(expected, common),
                agrees=agrees,
                line=comm.tuning_line,
            )


def _alike(logged: tuple[float, float], predicted: tuple[float, float]) -> bool:
    """Whether latency and bandwidth agree; without bandwidth nothing is chosen by its latency.

    NCCL 2.32 gives such an algorithm a latency of 0, older versions that of the model.
    """
    if logged[1] == predicted[1] == 0:
        return True
    return all(abs(a - b) <= ROUNDING for a, b in zip(logged, predicted, strict=True))


def _figures(table: dict[str, tuple[float, float]], names: list[str]) -> str:
    return ", ".join(f"{name} {table[name][0]:.1f} us {table[name][1]:.1f} GB/s" for name in names)


def _choices(comm: Communicator, prediction: Prediction) -> Iterator[ComparedItem]:
    expected = {(choice.collective, choice.bytes): choice for choice in prediction.choices}
    for choice in comm.choices:
        predicted = expected.get((choice.collective, choice.bytes))
        if predicted is None:
            continue
        same = (choice.algorithm, choice.protocol) == (predicted.algorithm, predicted.protocol)
        if choice.channels is not None:
            same = same and choice.channels == predicted.channels
        channels = predicted.channels if choice.channels is not None else None
        yield ComparedItem(
            topic="choice",
            subject=f"{choice.collective} of {size(choice.bytes)}",
            logged=_chosen(choice.algorithm, choice.protocol, choice.channels),
            predicted=_chosen(predicted.algorithm, predicted.protocol, channels),
            agrees=same,
            line=choice.line,
        )


def _chosen(algorithm: str, protocol: str, channels: tuple[int, int] | None) -> str:
    text = f"{algorithm} {protocol}"
    return text if channels is None else f"{text}, channels {channels[0]} to {channels[1]}"
