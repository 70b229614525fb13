"""Compare a log with the prediction for the same GPUs: transports, paths, graphs, choices."""

import re
from collections.abc import Iterator

from ...model.units import size
from ...nccl.prediction import Prediction
from ..report.communicator import Communicator
from ..report.places import first_host, normal, places
from ..report.report import LogReport
from ..report.settings import settings_from
from .agreement import Agreement, ComparedItem, LogTopic, PairAgreement
from .compare_graphs import Mapping, graph_items, path_items, ring_items, tree_items

ROUNDING = 0.0511
"""Allowed difference: the log prints one decimal."""
_FLAVOUR = re.compile(r"\AP2P/(?:CUMEM|IPC)(?=(?:/read)?\Z)")
"""Memory that two processes share; with the copy engine ("/CE") one process uses it too."""

PLUGIN = ("TUNER/Plugin: Using", "Successfully loaded external tuner")
NO_PLUGIN = ("TUNER/Plugin: Using internal", "TUNER/Plugin: Using tuner plugin none")
QUIET = (
    "NCCL_DEBUG",
    "NCCL_GRAPH_DUMP_",
    "NCCL_NVTX",
    "NCCL_RAS_",
    "NCCL_RUN_",
    "NCCL_TOPO_DUMP_",
    "NCCL_VERSION",
)
"""Beginnings of the names of variables that change nothing that is compared.

NCCL_VERSION is of container images; no library reads it.
"""
LEVELS = {"0": "LOC", "1": "PIX", "2": "PXB", "3": "PHB", "4": "SYS"}
"""Numbers of a level, which the log prints by name (graph/paths.cc:ncclGetLevel)."""


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
    if _same_shape(comm, prediction, skipped):
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
    here = {rank: place.address for rank, place in places(comm).items() if place.host == host}
    if not predicted and len(here) == 1:
        # A GPU alone on its host has no pair that would name it.
        return {rank: view.ranks[0] for rank in here for view in prediction.views}
    return {rank: predicted[address] for rank, address in here.items() if address in predicted}


def _same_shape(comm: Communicator, prediction: Prediction, skipped: list[str]) -> bool:
    """Whether graphs, channels and tuning can be compared: they hold for a whole communicator."""
    predicted = prediction.ranks
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
    seen = comm.all_labels()
    for src, predicted_src in ranks.items():
        for dst, predicted_dst in ranks.items():
            pair = prediction.pair(predicted_src, predicted_dst)
            if pair is None:
                continue
            logged = seen.get((src, dst), ())
            labels = pair.labels
            if direct and share_one(comm, src, dst):
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


def share_one(comm: Communicator, src: int, dst: int) -> bool:
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
                topic=LogTopic.NODES,
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
                topic=LogTopic.CHANNELS,
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
                topic=LogTopic.TUNING,
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
            topic=LogTopic.CHOICE,
            subject=f"{choice.collective} of {size(choice.bytes)}",
            logged=_chosen(choice.algorithm, choice.protocol, choice.channels),
            predicted=_chosen(predicted.algorithm, predicted.protocol, channels),
            agrees=same,
            line=choice.line,
        )


def _chosen(algorithm: str, protocol: str, channels: tuple[int, int] | None) -> str:
    text = f"{algorithm} {protocol}"
    return text if channels is None else f"{text}, channels {channels[0]} to {channels[1]}"


# Why a log and a prediction may differ: the known differences between the two.
def reasons(
    log: LogReport, comm: Communicator, prediction: Prediction, found: Agreement, hosts: int
) -> tuple[str, ...]:
    """Give sentences about the causes of a difference, the likeliest first."""
    known = [
        *_versions(log, prediction),
        *_environment(log, prediction),
        *_shape(comm, prediction, found, hosts),
        *_p2p(comm, found),
        *_outside_help(log),
        *_nvls(log, found),
        *_assumptions(prediction),
    ]
    if not known:
        known.append(
            "nothing is known to be different: the prediction itself may be wrong here; "
            "please report it with the log"
        )
    return tuple(dict.fromkeys(known))


def _versions(log: LogReport, prediction: Prediction) -> Iterator[str]:
    logged, followed = log.versions, prediction.library
    if logged.version is None:
        yield (
            f"the log names no version; the rules of {followed.name} {followed.version} were "
            "followed"
        )
    elif (logged.library, logged.version) != (followed.name, followed.version):
        yield (
            f"the log is of {logged.library} {logged.version}, the rules followed are those of "
            f"{followed.name} {followed.version}"
        )


def _environment(log: LogReport, prediction: Prediction) -> Iterator[str]:
    logged = {name: value for name, value in settings_from(log).items() if _counts(name)}
    assumed = {name: value for name, value in prediction.environment.items() if _counts(name)}
    for name, value in logged.items():
        if name not in assumed:
            yield (
                f"{name}={value} in the job (its environment, or an nccl.conf in its container) "
                "and not in the prediction"
            )
        elif _spelled(assumed[name]) != _spelled(value):
            yield f"{name} is {value} in the job and {assumed[name]} in the prediction"
    if not log.kinds.get("environment"):
        if assumed:
            yield "the log shows no variables (NCCL_DEBUG_SUBSYS lacks ENV)"
        return
    yield from (
        f"{name}={value} was predicted with, and the log does not show it: not set in the "
        "job, or its value was not understood"
        for name, value in assumed.items()
        if name not in logged and name.startswith(("NCCL_", "RCCL_"))
    )


def _counts(name: str) -> bool:
    return not name.startswith(QUIET)


def _spelled(value: str) -> str:
    return LEVELS.get(value, value).upper()


def _shape(
    comm: Communicator, prediction: Prediction, found: Agreement, hosts: int
) -> Iterator[str]:
    predicted = prediction.ranks
    if comm.nranks != predicted:
        yield (
            f"the job has {comm.nranks} ranks and the prediction {predicted}: what NCCL decides "
            "depends on which GPUs take part"
        )
    if hosts > 1:
        yield f"{hosts} hosts were predicted as if all were like the first"
    elif found.outside:
        yield "some ranks are on other hosts or GPUs, which the prediction is not about"
    if comm.p2p_type is not None and comm.p2p_type.direct_mode:
        yield "some ranks share a process; the prediction is for one process per GPU"


def _p2p(comm: Communicator, found: Agreement) -> Iterator[str]:
    """Tell policy from capability by the line on P2P, whichever variables the log shows."""
    kind = comm.p2p_type
    less = any(
        pair.agrees is False and pair.predicted[0].startswith("P2P") for pair in found.pairs
    ) and any(not label.startswith("P2P") for pair in found.pairs for label in pair.logged)
    if kind is None or not less or kind.all_direct:
        return
    if kind.all_cuda:
        yield (
            "a flag or level keeps P2P off in the job, although CUDA would allow it "
            f"(line {kind.line}: isAllDirectP2p 0, isAllCudaP2p 1)"
        )
    elif kind.all_cuda is False and comm.nodes == len(comm.hosts):
        yield f"CUDA does not offer P2P in the job (line {kind.line}: isAllCudaP2p 0)"


def _outside_help(log: LogReport) -> Iterator[str]:
    for note in log.notes:
        if note.text.startswith(PLUGIN) and not note.text.startswith(NO_PLUGIN):
            yield f"a tuner plugin decides algorithms (line {note.line})"
        elif note.text.startswith("Loading topology file"):
            yield f"the job read its topology from a file (line {note.line})"
        elif note.text.startswith("Loading graphs"):
            yield f"the job read its rings from a file (line {note.line})"
        elif "P2P is disabled between" in note.text or "Could not enable P2P" in note.text:
            yield f"the driver refuses P2P between some GPUs (line {note.line})"
        elif "cuMem host allocations do not appear" in note.text:
            yield f"cuMem host memory does not work in the job's container (line {note.line})"


def _nvls(log: LogReport, found: Agreement) -> Iterator[str]:
    if any(
        item.topic is LogTopic.GRAPH and item.subject.startswith("nvls") for item in _items(found)
    ):
        said = [note for note in log.notes if "multicast support" in note.text]
        line = f" (line {said[0].line})" if said else ""
        yield f"NVLS needs multicast from the driver, which no file can tell{line}"


def _items(found: Agreement) -> list[ComparedItem]:
    return [item for item in found.items if not item.agrees]


def _assumptions(prediction: Prediction) -> Iterator[str]:
    for graph in (prediction.graphs.ring, prediction.graphs.tree, prediction.graphs.nvls):
        if graph is not None and graph.estimate:
            yield f"the predicted graph is an estimate: {graph.estimate}"
    for text in prediction.assumptions:
        yield f"taken for granted in the prediction: {text}"
