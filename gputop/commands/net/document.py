"""The result of a pair of nodes as JSON, schema gputop.net/1."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from gputop import __version__
from gputop.exits import ANSWERED, CANNOT_TELL, FAILURES, INTERRUPTED

if TYPE_CHECKING:
    from gputop.commands.net.transports import Logged, NetWay, Predicted
    from gputop.probes.protocol.outcome import Outcome

SCHEMA = "gputop.net/1"
FINISHED, TIMED_OUT, ABSENT, FAILED = "finished", "timed out", "absent", "failed"
_STATUSES = {"finished": FINISHED, "timed-out": TIMED_OUT}
_LATENCY, _WRITES = "net_latency", "net_ib_write_bw"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the results: one direction between two nodes, or all of them together."""

    what: str
    """"send_recv", "all_reduce", "all_to_all" or "ib_write_bw"."""
    rail: int | None
    """None: all rails."""
    src: str | None = msgspec.field(name="from")
    dst: str | None = msgspec.field(name="to")
    bytes: int
    gbs: float
    """GB/s, 10^9 bytes a second: one direction, or the bus bandwidth of a collective."""
    low_gbs: float | None = None
    high_gbs: float | None = None
    latency_us: float | None = None
    """Half a round trip of 8 bytes."""
    transport: str | None = None
    gdr: bool | None = None
    agrees: bool | None = None
    """Whether the log names the predicted way; None where one of them is missing."""
    verdict: str | None = None
    """"verified" or "wrong-data"; None where no data is compared."""


class NetDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a pair of nodes, or a few, measured between each other."""

    schema: str = SCHEMA
    gputop: str = __version__
    source: tuple[str, ...] = ("live",)
    assumptions: tuple[str, ...] = ()
    job: str | None = None
    round: int | None = None
    """The round of the plan that started it."""
    run: str | None = None
    """The name that the nodes gave this run; None where they did not meet."""
    taken_at: float
    """Seconds since the epoch, by the clock of the host that wrote it."""
    elapsed_seconds: float
    written_by: str
    hosts: tuple[str, ...]
    """By node; hosts that never came stand here too where somebody named them."""
    status: str
    """"finished", "timed out", "absent" or "failed"."""
    why: str | None = None
    """One sentence; None where it finished."""
    missing: tuple[str, ...] = ()
    """Hosts that never came; "node 1" where nobody named it."""
    method: str
    device_kind: str | None = None
    """"gpu"; "cpu" in a self-test, which says nothing about GPUs."""
    engine: str | None = None
    """"NCCL", "RCCL", "gloo"."""
    rails: int | None = None
    gpus: tuple[int, ...] = ()
    """GPUs of each node."""
    versions: dict[str, str] = {}
    """Of the host that wrote it."""
    results: tuple[Result, ...] = ()
    predicted: Predicted
    log: Logged
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 finished, 2 wrong data, 3 for what could not be measured to the end."""
        if any(result.verdict == "wrong-data" for result in self.results):
            return FAILURES
        return ANSWERED if self.status == FINISHED else CANNOT_TELL


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What the worker does not know."""

    host: str
    node: int
    nodes: int
    named: tuple[str, ...] = ()
    """The hosts that should come, where the launcher or the user says it."""
    job: str | None = None
    round: int | None = None


def document(
    outcome: Outcome, where: Circumstances, predicted: Predicted, logged: Logged
) -> NetDocument:
    """Make the document of a run, whatever its end."""
    notes = {note.topic: note for note in outcome.notes}
    met = notes["met"].details if "met" in notes else {}
    missing, hosts = _hosts(where, met, notes["absent"].details if "absent" in notes else {})
    status = ABSENT if "absent" in notes else _STATUSES.get(outcome.status, FAILED)
    hello = outcome.hello
    figures = outcome.latest()
    return NetDocument(
        assumptions=predicted.assumptions,
        job=where.job,
        round=where.round,
        run=met.get("run"),
        taken_at=round(time.time(), 3),
        elapsed_seconds=outcome.elapsed_seconds,
        written_by=where.host,
        hosts=hosts,
        status=status,
        why=_why(status, outcome, missing, where.host),
        missing=missing,
        method="net/1" if hello is None else hello.method,
        device_kind=None if hello is None else hello.device_kind,
        engine=next((figure.engine for figure in figures), None),
        rails=met.get("rails"),
        gpus=tuple(met.get("gpus", ())),
        versions=_versions(outcome),
        results=tuple(_results(outcome, predicted, logged)),
        predicted=predicted,
        log=logged,
        notes=tuple(note.text for note in outcome.notes if note.text and note.topic != "absent"),
    )


def code_of(found: NetDocument, outcome: Outcome) -> int:
    """The exit code of a run."""
    return INTERRUPTED if outcome.status == "cancelled" else found.exit_code


def _why(status: str, outcome: Outcome, missing: tuple[str, ...], host: str) -> str | None:
    if status == FINISHED:
        return None
    if status == ABSENT:
        after = outcome.message.rpartition(" did not come ")[2]
        return f"{', '.join(missing)} did not come {after}"
    return f"On {host}: {outcome.message}"


def _hosts(
    where: Circumstances, met: Mapping[str, Any], absent: Mapping[str, Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The hosts that never came, and all hosts, by node."""
    if met.get("hosts"):
        return (), tuple(met["hosts"])
    came = {int(node): str(host) for node, host in dict(absent.get("hosts", {})).items()}
    came.setdefault(where.node, where.host)
    lost = [node for node in range(where.nodes) if node not in came]
    rest = [name for name in where.named if _short(name) not in map(_short, came.values())]
    known = dict(zip(lost, rest, strict=True)) if len(rest) == len(lost) else {}
    names = [came.get(node) or known.get(node) or f"node {node}" for node in range(where.nodes)]
    gone = absent.get("missing", ())
    return tuple(names[node] for node in gone), tuple(names)


def _short(name: str) -> str:
    return name.partition(".")[0]


def _versions(outcome: Outcome) -> dict[str, str]:
    hello = outcome.hello
    if hello is None:
        return {}
    found = {"driver": hello.driver, "cuda": hello.cuda, "hip": hello.hip, "nccl": hello.nccl}
    found |= {"torch": hello.torch}
    return {name: version for name, version in found.items() if version}


def _results(outcome: Outcome, predicted: Predicted, logged: Logged) -> list[Result]:
    figures = outcome.latest()
    latencies = {_key(m.details): m.value for m in figures if m.name == _LATENCY}
    found = []
    for figure in figures:
        details = figure.details
        if figure.name == _LATENCY or figure.value is None:
            continue
        rail = details.get("rail")
        by_library = figure.name != _WRITES
        way = logged.rail(rail) if by_library else None
        found.append(
            Result(
                what=str(details.get("what")),
                rail=rail,
                src=details.get("from"),
                dst=details.get("to"),
                bytes=figure.bytes_per_copy or 0,
                gbs=figure.value,
                low_gbs=figure.minimum,
                high_gbs=figure.maximum,
                latency_us=latencies.get(_key(details)) if by_library else None,
                transport=None if way is None else way.transport,
                gdr=None if way is None else way.gdr,
                agrees=agrees(predicted.rail(rail), way),
                verdict=figure.verdict,
            )
        )
    return found


def agrees(predicted: NetWay | None, way: NetWay | None) -> bool | None:
    """Whether a logged way is the predicted one; None where one of them is not known."""
    if predicted is None or way is None or None in (predicted.transport, way.transport):
        return None
    if predicted.transport != way.transport:
        return False
    return None if None in (predicted.gdr, way.gdr) else predicted.gdr == way.gdr


def _key(details: Mapping[str, Any]) -> tuple[Any, ...]:
    return details.get("what"), details.get("rail"), details.get("from"), details.get("to")
