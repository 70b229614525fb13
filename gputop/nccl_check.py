"""What a run of the probe nccl proves: the log beside the prediction for the same environment."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import msgspec

from gputop.measuring import Told
from gputop.topology.snapshot import NodeSnapshot


class PairCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One ordered pair of ranks."""

    src: int
    dst: int
    src_bus_id: str
    dst_bus_id: str
    predicted: tuple[str, ...] = ()
    """Labels, those of ring and tree first; empty without a prediction."""
    logged: tuple[str, ...] = ()
    """Labels in the log; empty where it names none for this pair."""
    agrees: bool | None = None
    """None where one of the two is missing."""
    data: str | None = None
    """What became of the bytes: "verified", "wrong-data", "failed", "timed-out"."""
    gbs: float | None = None


class GraphFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome of the graph search; channels are counted before the library doubles them."""

    channels: int
    bw_intra: float
    type_intra: str


class GraphCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Ring, tree or NVLS."""

    name: str
    predicted: GraphFigures | None = None
    logged: GraphFigures | None = None
    agrees: bool | None = None


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """An all-reduce of one size, GB/s."""

    bytes: int
    algbw_gbs: float | None = None
    busbw_gbs: float | None = None


class NcclCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A run beside its prediction."""

    finished: str | None
    """"finished", "wrong-data", "failed", "timed-out"; None when no collective was tried."""
    gpus: tuple[str, ...] = ()
    """PCI addresses in the order of ranks."""
    library: str | None = None
    """Whose rules the prediction follows: "nccl-2.28.9"."""
    engine: str | None = None
    """"NCCL", "RCCL"; "gloo" in the self-test."""
    logged_version: str | None = None
    changes: dict[str, str] = {}
    pairs: tuple[PairCheck, ...] = ()
    graphs: tuple[GraphCheck, ...] = ()
    coll_channels: tuple[int | None, int | None] = (None, None)
    """Predicted and logged."""
    speeds: tuple[Speed, ...] = ()
    ceiling_gbs: float | None = None
    """Channels of the ring times their bandwidth: the most that a ring's busbw can be."""
    predicted_failure: str | None = None
    warnings: tuple[str, ...] = ()
    """The library's own, each once."""
    assumptions: tuple[str, ...] = ()
    agreement: dict[str, Any] | None = None
    """The comparison of the whole log, as `gputop log` makes it."""
    trouble: str | None = None
    """Why there is no prediction or no log to compare."""

    @property
    def pairs_that_agree(self) -> int:
        """Pairs whose logged transport is the predicted one."""
        return sum(pair.agrees is True for pair in self.pairs)

    @property
    def pairs_that_differ(self) -> int:
        """Pairs whose logged transport is another one."""
        return sum(pair.agrees is False for pair in self.pairs)


def check_run(
    snapshot: NodeSnapshot | None,
    result: Told,
    changes: Mapping[str, str],
    *,
    library: str | None = None,
) -> NcclCheck:
    """Compare a run's logs with what is predicted for the snapshot's environment and `changes`.

    `snapshot` is None for a self-test, which has nothing to predict. `library`: "nccl-2.28.9";
    without it, the one that ran. Never raises for what the log says; a
    missing prediction or log is the check's `trouble`.
    """
    log = _read(result)
    gpus = gpus_of(result)
    asked = library or library_of(result)
    trouble, prediction = None, None
    if snapshot is None:
        trouble = "a self-test on the CPU: no GPU took part, nothing is predicted"
    elif log.empty:
        trouble = "the library wrote no log, so nothing can be compared"
    if snapshot is not None:
        try:
            prediction = _predict(snapshot, changes, asked, gpus)
        except (ValueError, LookupError) as error:
            trouble = f"no prediction: {error}"
    comm = log.main
    return NcclCheck(
        finished=_finished(result),
        gpus=gpus,
        library=None
        if prediction is None
        else f"{prediction.library.name}-{prediction.library.version}",
        engine=next((m.engine for m in result.measurements if m.engine), None),
        logged_version=log.versions.version,
        changes=dict(changes),
        pairs=_pairs(gpus, prediction, comm, result),
        graphs=() if comm is None else _graphs(prediction, comm),
        coll_channels=(
            None if prediction is None else prediction.coll_channels,
            None if comm is None or comm.counts is None else comm.counts.coll,
        ),
        speeds=_speeds(result),
        ceiling_gbs=_ceiling(prediction),
        predicted_failure=None if prediction is None else prediction.failure,
        warnings=tuple(note.text for note in log.notes if note.level == "WARN")[:20],
        assumptions=() if prediction is None else prediction.assumptions,
        agreement=None if prediction is None or log.empty else _agreement(log, prediction),
        trouble=trouble,
    )


def gpus_of(result: Told) -> tuple[str, ...]:
    """PCI addresses of the ranks, in order."""
    hello = result.outcome.hello
    used = () if hello is None else tuple(d for d in hello.devices if d.selected)
    return tuple(device.pci_address or device.key for device in used)


def library_of(result: Told) -> str | None:
    """Name and version of the library that torch carries: "nccl-2.28.9"."""
    hello = result.outcome.hello
    if hello is None or hello.nccl is None:
        return None
    return f"{'rccl' if hello.hip else 'nccl'}-{hello.nccl}"


def _read(result: Told) -> Any:
    from gputop.topology.logs.read import read_log

    outcome = result.outcome
    text = "\n".join(outcome.log_of(rank) for rank in outcome.ranks_logged())
    return read_log(io.BytesIO(text.encode("utf-8", "replace")), name="probe nccl")


def _predict(
    snapshot: NodeSnapshot,
    changes: Mapping[str, str],
    library: str | None,
    gpus: tuple[str, ...],
) -> Any:
    from gputop.topology.nccl.predict import predict
    from gputop.topology.nccl.settings import Settings

    settings = Settings.of(snapshot, changes)
    return predict(snapshot, settings, library=library, gpus=gpus or None)


def _agreement(log: Any, prediction: Any) -> dict[str, Any] | None:
    from gputop.topology.logs.compare import compare

    found: dict[str, Any] = msgspec.to_builtins(compare(log, prediction))
    return found


def _finished(result: Told) -> str | None:
    said = [m.verdict for m in result.measurements if m.quantity == "collective_finishes"]
    return next((word for word in said if word != "finished"), said[0] if said else None)


def _pairs(
    gpus: tuple[str, ...], prediction: Any, comm: Any, result: Told
) -> tuple[PairCheck, ...]:
    moved = {(m.src, m.dst): m for m in result.measurements if m.quantity == "send_receive"}
    found = []
    for src, one in enumerate(gpus):
        for dst, other in enumerate(gpus):
            if src == dst:
                continue
            expected = None if prediction is None else prediction.pair(src, dst)
            predicted = () if expected is None else expected.labels
            logged = () if comm is None else comm.labels(src, dst)
            figure = moved.get((one, other))
            found.append(
                PairCheck(
                    src=src,
                    dst=dst,
                    src_bus_id=one,
                    dst_bus_id=other,
                    predicted=predicted,
                    logged=logged,
                    # A pair that is no neighbour in a ring or tree shows its second label alone.
                    agrees={*logged} <= {*predicted} if predicted and logged else None,
                    data=None if figure is None else figure.verdict,
                    gbs=None if figure is None else figure.value,
                )
            )
    return tuple(found)


_NAMES = {4: "ring", 1: "tree", 2: "tree", 3: "tree", 5: "nvls"}
"""Pattern number of the log -> graph (graph/topo.h)."""


def _graphs(prediction: Any, comm: Any) -> tuple[GraphCheck, ...]:
    logged = {}
    for graph in comm.graphs:
        name = _NAMES.get(graph.pattern)
        if name is not None and (0 in graph.ranks or not graph.ranks):
            logged.setdefault(name, graph)
    found = []
    for name in ("ring", "tree", "nvls"):
        one = None if prediction is None else getattr(prediction.graphs, name)
        predicted, seen = _figures(one), _figures(logged.get(name))
        if predicted is not None or seen is not None:
            agrees = None if predicted is None or seen is None else predicted == seen
            found.append(GraphCheck(name=name, predicted=predicted, logged=seen, agrees=agrees))
    return tuple(found)


def _figures(graph: Any) -> GraphFigures | None:
    if graph is None or not graph.channels:
        return None
    return GraphFigures(
        channels=graph.channels,
        bw_intra=round(graph.bw_intra, 3),
        type_intra=graph.type_intra,
    )


def _speeds(result: Told) -> tuple[Speed, ...]:
    by_size: dict[int, dict[str, float | None]] = {}
    for figure in result.measurements:
        if figure.quantity in ("all_reduce_algbw", "all_reduce_busbw"):
            name = f"{figure.quantity.rpartition('_')[2]}_gbs"
            by_size.setdefault(figure.bytes_per_copy or 0, {})[name] = figure.value
    return tuple(Speed(bytes=size, **by_size[size]) for size in sorted(by_size))


def _ceiling(prediction: Any) -> float | None:
    ring = None if prediction is None else prediction.graphs.ring
    return None if ring is None else round(ring.channels * ring.bw_intra, 3) or None
