"""Compares the log of a run of the probe nccl with the prediction for the same environment."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from gputop.measuring.state import ProbeRun
from gputop.topology.logs.comparing.agreement import Agreement
from gputop.topology.logs.comparing.compare import compare
from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.own_diagnostics import OwnDiagnostics
from gputop.topology.logs.report.report import WARN
from gputop.topology.model.quantities import (
    ALL_REDUCE,
    ALL_REDUCE_ALGBW,
    COLLECTIVE_FINISHES,
    SEND_RECEIVE,
    TRANSPORT,
)
from gputop.topology.model.snapshot import DataVerdict, Measurement, NodeSnapshot
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.settings import Settings

if TYPE_CHECKING:
    from gputop.topology.logs.report.communicator import Communicator
    from gputop.topology.logs.report.report import LogReport
    from gputop.topology.nccl.prediction import Prediction

MOST_WARNINGS = 20


class PairCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One ordered pair of ranks."""

    src: int
    dst: int
    src_bus_id: str
    dst_bus_id: str
    predicted: tuple[str, ...] = ()
    """Predicted labels, those of ring and tree first; empty without a prediction."""
    logged: tuple[str, ...] = ()
    """Labels in the log; empty where the log names none for this pair."""
    agrees: bool | None = None
    """None where the prediction or the log is missing."""
    data: str | None = None
    """The verdict on the bytes: "verified", "wrong-data", "failed", "timed-out"."""
    gbs: float | None = None


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """An all-reduce of one size, GB/s."""

    bytes: int
    algbw_gbs: float | None = None
    busbw_gbs: float | None = None


class NcclCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A run compared with its prediction."""

    finished: str | None
    """"finished", "wrong-data", "failed", "timed-out"; None without a collective."""
    gpus: tuple[str, ...] = ()
    """PCI addresses in the order of ranks."""
    library: str | None = None
    """The library version whose rules the prediction follows: "nccl-2.28.9"."""
    engine: str | None = None
    """"NCCL", "RCCL"; "gloo" in the self-test."""
    logged_version: str | None = None
    changes: dict[str, str] = {}
    pairs: tuple[PairCheck, ...] = ()
    speeds: tuple[Speed, ...] = ()
    ceiling_gbs: float | None = None
    """Channels of the ring times their bandwidth, GB/s: the limit of a ring's busbw."""
    predicted_failure: str | None = None
    warnings: tuple[str, ...] = ()
    """The library's own warnings, each once."""
    assumptions: tuple[str, ...] = ()
    diagnostics: tuple[OwnDiagnostics, ...] = ()
    """What the library's own diagnostics say, of versions that have them."""
    agreement: Agreement | None = None
    """The whole log compared with the prediction, as `gputop log` does it."""
    trouble: str | None = None
    """Why the prediction or the log is missing; "" where both exist."""

    @property
    def pairs_that_agree(self) -> int:
        """Pairs whose logged transport is the predicted one."""
        return sum(pair.agrees is True for pair in self.pairs)

    @property
    def pairs_that_differ(self) -> int:
        """Pairs whose logged transport differs from the predicted one."""
        return sum(pair.agrees is False for pair in self.pairs)


def check_run(
    snapshot: NodeSnapshot | None,
    run: ProbeRun,
    changes: Mapping[str, str],
    *,
    library: str | None = None,
) -> NcclCheck:
    """Compare the logs of a run with the prediction for the snapshot's environment and `changes`.

    `snapshot` is None for a self-test, which has no prediction. `library`: "nccl-2.28.9"; None
    takes the one that ran. It never raises for the content of a log; `trouble` says why the
    prediction or the log is missing.
    """
    log = log_of(run)
    gpus = gpus_of(run)
    trouble: str | None = None
    prediction: Prediction | None = None
    if snapshot is None:
        trouble = "a self-test on the CPU: no GPU took part, nothing is predicted"
    else:
        try:
            prediction = _predict(snapshot, changes, library or library_of(run), gpus)
        except (ValueError, LookupError) as error:
            trouble = f"no prediction: {error}"
        if log.empty:
            trouble = "the library wrote no log, so nothing can be compared"
    agreement = None if prediction is None or log.empty else compare(log, prediction)
    if agreement is not None and not agreement.comparable:
        trouble = agreement.why_not
    return NcclCheck(
        finished=_finished(run),
        gpus=gpus,
        library=None
        if prediction is None
        else f"{prediction.library.name}-{prediction.library.version}",
        engine=next((m.engine for m in run.measurements if m.engine), None),
        logged_version=log.versions.version,
        changes=dict(changes),
        pairs=_pairs(gpus, prediction, log.main, agreement, run),
        speeds=_speeds(run),
        ceiling_gbs=_ceiling(prediction),
        predicted_failure=None if prediction is None else prediction.failure,
        warnings=tuple(note.text for note in log.notes if note.level is WARN)[:MOST_WARNINGS],
        assumptions=() if prediction is None else prediction.assumptions,
        diagnostics=log.diagnostics,
        agreement=agreement,
        trouble=trouble,
    )


def transports(check: NcclCheck, taken_at: float) -> tuple[Measurement, ...]:
    """The logged transport of each pair, as measurements that stay with the node."""
    version = check.logged_version
    return tuple(
        Measurement(
            probe="nccl",
            quantity=TRANSPORT,
            src=pair.src_bus_id,
            dst=pair.dst_bus_id,
            verdict=DataVerdict(" and ".join(pair.logged)),
            method="nccl-log/1",
            taken_at=taken_at,
            versions=() if version is None else ((check.engine or "NCCL", version),),
        )
        for pair in check.pairs
        if pair.logged
    )


def gpus_of(run: ProbeRun) -> tuple[str, ...]:
    """PCI addresses of the ranks, in order."""
    hello = run.outcome.hello
    used = () if hello is None else tuple(d for d in hello.devices if d.selected)
    return tuple(device.pci_address or device.key for device in used)


def library_of(run: ProbeRun) -> str | None:
    """Name and version of the library that ran: "nccl-2.28.9"."""
    hello = run.outcome.hello
    if hello is None or hello.nccl is None:
        return None
    return f"{hello.library_name.lower()}-{hello.nccl}"


def log_of(run: ProbeRun) -> LogReport:
    """Parse the logs of all ranks as one log."""
    outcome = run.outcome
    text = "\n".join(outcome.log_of(rank) for rank in outcome.ranks_logged())
    return read_log(io.BytesIO(text.encode("utf-8", "replace")), name="probe nccl")


def _predict(
    snapshot: NodeSnapshot,
    changes: Mapping[str, str],
    library: str | None,
    gpus: tuple[str, ...],
) -> Prediction:
    settings = Settings.of(snapshot, changes)
    return predict(snapshot, settings, library=library, gpus=gpus or None)


def _finished(run: ProbeRun) -> str | None:
    said = [m.verdict for m in run.measurements if m.quantity == COLLECTIVE_FINISHES]
    return next((word for word in said if word != "finished"), said[0] if said else None)


def _pairs(
    gpus: tuple[str, ...],
    prediction: Prediction | None,
    comm: Communicator | None,
    agreement: Agreement | None,
    run: ProbeRun,
) -> tuple[PairCheck, ...]:
    moved = {(m.src, m.dst): m for m in run.measurements if m.quantity == SEND_RECEIVE}
    compared = {} if agreement is None else {(p.src, p.dst): p for p in agreement.pairs}
    made = () if prediction is None else prediction.pairs
    predicted = {(pair.src_bus_id, pair.dst_bus_id): pair.labels for pair in made}
    found = []
    for src, gpu in enumerate(gpus):
        for dst, other in enumerate(gpus):
            if src == dst:
                continue
            both = compared.get((src, dst))
            figure = moved.get((gpu, other))
            found.append(
                PairCheck(
                    src=src,
                    dst=dst,
                    src_bus_id=gpu,
                    dst_bus_id=other,
                    predicted=predicted.get((gpu, other), ()),
                    logged=() if comm is None else comm.labels(src, dst),
                    agrees=None if both is None else both.agrees,
                    data=None if figure is None else figure.verdict,
                    gbs=None if figure is None else figure.value,
                )
            )
    return tuple(found)


def _speeds(run: ProbeRun) -> tuple[Speed, ...]:
    by_size: dict[int, dict[str, float | None]] = {}
    for figure in run.measurements:
        name = {ALL_REDUCE_ALGBW: "algbw_gbs", ALL_REDUCE: "busbw_gbs"}.get(figure.quantity)
        if name is not None:
            by_size.setdefault(figure.bytes_per_copy or 0, {})[name] = figure.value
    return tuple(Speed(bytes=size, **by_size[size]) for size in sorted(by_size))


def _ceiling(prediction: Prediction | None) -> float | None:
    if prediction is None or prediction.nodes != 1:
        return None  # over the network the graph of one domain does not limit a ring
    ring = prediction.graphs.ring
    return None if ring is None else round(ring.channels * ring.bw_intra, 3) or None
