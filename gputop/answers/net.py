"""What a pair of nodes, or a few, measured between each other, beside what was predicted."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from gputop.answers.figures import table
from gputop.answers.question import Answer
from gputop.exits import ANSWERED, CANNOT_TELL, FAILURES, INTERRUPTED
from gputop.probes.protocol.status import DeviceKind, Status
from gputop.terminal.clean import clean
from gputop.topology.flags.values.predicting import predict_with_flags
from gputop.topology.fleet.planning.looks import WRONG_DATA
from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.report import WARN
from gputop.topology.model import units
from gputop.topology.model.english import plural
from gputop.topology.model.page import Block, Page, Text
from gputop.topology.model.severity import Word
from gputop.topology.model.snapshot import DataVerdict
from gputop.topology.nccl.settings import Settings

if TYPE_CHECKING:
    from gputop.probes.protocol.outcome import Outcome
    from gputop.topology.logs.report.communicator import Communicator
    from gputop.topology.logs.report.report import LogReport
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.nccl.prediction import NetDecision, Prediction

KINDS = {"infiniband": "IB", "roce": "RoCE", "efa": "EFA"}
"""Kind of an RDMA device -> the word for the transport over it."""
SOCKET = "Socket"
_DEVICE = re.compile(r"\[(\d{1,3})\][^\s:\[\]]{1,64}:\d{1,3}/(IB|RoCE)\b")
_LABEL = re.compile(r"NET/(.+?)/(\d+)(.*)")
_EFA = re.compile(r"\befa\b", re.IGNORECASE)
MOST_WARNINGS = 10


class NetWay(msgspec.Struct, frozen=True, kw_only=True):
    """How data goes between two nodes over one rail, or over all."""

    rail: int | None
    transport: str | None
    """"IB", "RoCE", "EFA", "Socket", the name of another plugin; "P2P", "SHM" within one host."""
    gdr: bool | None = None
    """Whether the NIC reads and writes GPU memory itself; None where that is not known."""
    nics: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    """As the library's log writes them: "NET/IB/0/GDRDMA"."""


class Predicted(msgspec.Struct, frozen=True, kw_only=True):
    """What the library should do on nodes like this one."""

    library: str | None = None
    """"nccl-2.28.9"."""
    rails: tuple[NetWay, ...] = ()
    assumptions: tuple[str, ...] = ()
    why_none: str | None = None

    def rail(self, number: int | None) -> NetWay | None:
        """The way of a rail; of None where all rails have one transport."""
        if number is not None:
            return next((way for way in self.rails if way.rail == number), None)
        alike = {(way.transport, way.gdr) for way in self.rails}
        return self.rails[0] if len(alike) == 1 else None


class Logged(msgspec.Struct, frozen=True, kw_only=True):
    """What the debug logs of this node's ranks say."""

    version: str | None = None
    ways: tuple[NetWay, ...] = ()
    warnings: tuple[str, ...] = ()

    def rail(self, number: int | None) -> NetWay | None:
        """The way of a rail, None for all of them."""
        return next((way for way in self.ways if way.rail == number), None)


def predicted(
    snapshot: NodeSnapshot | None, gpus: Sequence[str], changes: Mapping[str, str],
    library: str | None,
) -> Predicted:  # fmt: skip
    """Predict two nodes like this one; `gpus`: PCI addresses by rank, which is by rail."""
    if snapshot is None:
        return Predicted(why_none="a self-test on the CPU: nothing is predicted")
    try:
        settings = Settings.of(snapshot, changes)
        made = predict_with_flags(snapshot, settings, library=library, gpus=gpus, nodes=2)
    except (ValueError, LookupError) as error:
        return Predicted(why_none=f"no prediction: {error}")
    ways = tuple(_predicted(made, rail, snapshot) for rail in range(len(gpus)))
    name = f"{made.library.name}-{made.library.version}"
    return Predicted(library=name, rails=ways, assumptions=made.assumptions)


def _predicted(made: Prediction, rail: int, snapshot: NodeSnapshot) -> NetWay:
    near = _near(made, rail)
    names = tuple(dict.fromkeys(net.name for net in near if net.name))
    kinds = {device.name: KINDS.get(device.kind or "") for device in snapshot.machine.rdma}
    found = {kinds.get(name, SOCKET) for name in names}
    transport = found.pop() if len(found) == 1 else None
    direct = {net.gdr_send != "Disabled" and net.gdr_recv != "Disabled" for net in near}
    gdr = direct.pop() if len(direct) == 1 else None
    return NetWay(rail=rail, transport=transport, gdr=gdr, nics=names)


def _near(made: Prediction, rank: int) -> list[NetDecision]:
    """The NICs that the library takes for a rank."""
    for view in made.views:
        local = view.local_nets.get(str(rank), ())
        if found := [net for net in view.nets if net.rank == rank and net.net in local]:
            return found
    return []


def logged(outcome: Outcome, nodes: int, rails: int) -> Logged:
    """Read the logs of this node's ranks; nothing in them is trusted."""
    texts = {rank: outcome.log_of(rank) for rank in outcome.ranks_logged()}
    reports = {rank: _read(text) for rank, text in texts.items()}
    whole = "\n".join(texts.values())
    every, apart = _read(whole), [rail for rail in range(rails) if rail in reports and rails > 1]
    ways = [_logged(rail, reports[rail], nodes, texts[rail]) for rail in apart]
    ways.append(_logged(None, every, nodes * rails, whole))
    notes = dict.fromkeys(note.text for note in every.notes if note.level is WARN)
    return Logged(
        version=every.versions.version,
        ways=tuple(way for way in ways if way.labels),
        warnings=tuple(notes)[:MOST_WARNINGS],
    )


def _read(text: str) -> LogReport:
    return read_log(io.BytesIO(text.encode("utf-8", "replace")), name="probe net")


def _logged(rail: int | None, report: LogReport, ranks: int, text: str) -> NetWay:
    """The way of a communicator of so many ranks; without labels where the log has none."""
    comms = [comm for comm in report.communicators if comm.nranks == ranks]
    labels = dict.fromkeys(label for comm in comms for label in _between(comm))
    kinds = {_transport(label, text) for label in labels}
    direct = {"GDRDMA" in label for label in labels}
    is_net = all(label.startswith("NET/") for label in labels)
    return NetWay(
        rail=rail,
        transport=" and ".join(sorted(kinds)) or None,
        gdr=direct.pop() if len(direct) == 1 and is_net else None,
        labels=tuple(labels),
    )


def _between(comm: Communicator) -> list[str]:
    """The labels between nodes, else those of all pairs: two agents may share a host."""
    labels = [transport.label for transport in comm.transports]
    return [label for label in labels if label.startswith("NET/")] or labels


def _transport(label: str, text: str) -> str:
    """The word for a label, by the library's list of devices where it has one."""
    found = _LABEL.match(label)
    if found is None:
        return label.split("/")[0]
    plugin, number = found[1], found[2]
    if plugin == "IB":
        kinds: dict[str, str] = dict(_DEVICE.findall(text))
        return kinds.get(number, "IB")
    if plugin == SOCKET:
        return SOCKET
    return "EFA" if _EFA.search(text) else plugin


class NetStatus(Word):
    """How a run ended."""

    FINISHED = "finished"
    TIMED_OUT = "timed out"
    ABSENT = "absent"
    FAILED = "failed"


class NetTransfer(Word):
    """What a line of the results measured."""

    SEND_RECV = "send_recv"
    ALL_REDUCE = "all_reduce"
    ALL_TO_ALL = "all_to_all"
    IB_WRITE_BW = "ib_write_bw"


FINISHED, ABSENT = NetStatus.FINISHED, NetStatus.ABSENT
_STATUSES = {"finished": FINISHED, "timed-out": NetStatus.TIMED_OUT}
_LATENCY, _WRITES = "net_latency", "net_ib_write_bw"


class NetResult(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the results: one direction between two nodes, or all of them together."""

    what: NetTransfer
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
    verdict: DataVerdict | None = None
    """None where no data is compared."""

    @property
    def wrong(self) -> bool:
        """Whether the data that arrived was wrong."""
        return self.verdict == WRONG_DATA


class NetAnswer(Answer, frozen=True, kw_only=True, tag="gputop.net/1"):
    """What a pair of nodes, or a few, measured between each other."""

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
    status: NetStatus
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
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    """Of the host that wrote it."""
    results: tuple[NetResult, ...] = ()
    predicted: Predicted
    log: Logged
    notes: tuple[str, ...] = ()

    @property
    def on_cpu(self) -> bool:
        """Whether it is a self-test."""
        return self.device_kind == DeviceKind.CPU

    @property
    def exit_code(self) -> int:
        """0 finished, 2 wrong data, 3 for what could not be measured to the end."""
        if any(result.wrong for result in self.results):
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


def answer_of(
    outcome: Outcome, where: Circumstances, predicted: Predicted, logged: Logged
) -> NetAnswer:
    """The answer of a run, whatever its end."""
    notes = {note.topic: note for note in outcome.notes}
    met = notes["met"].details if "met" in notes else {}
    missing, hosts = _hosts(where, met, notes["absent"].details if "absent" in notes else {})
    status = ABSENT if "absent" in notes else _STATUSES.get(outcome.status, NetStatus.FAILED)
    hello = outcome.hello
    figures = outcome.latest()
    return NetAnswer(
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


def code_of(found: NetAnswer, outcome: Outcome) -> int:
    """The exit code of a run."""
    return INTERRUPTED if outcome.status == Status.CANCELLED else found.exit_code


def _why(status: NetStatus, outcome: Outcome, missing: tuple[str, ...], host: str) -> str | None:
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


def _results(outcome: Outcome, predicted: Predicted, logged: Logged) -> list[NetResult]:
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
            NetResult(
                what=NetTransfer(details.get("what")),
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
                verdict=None if figure.verdict is None else DataVerdict(figure.verdict),
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


_NAME = 24


def page(found: NetAnswer) -> Page:
    """The hosts and how it ended, a row for each rail and for all, what the log warns of."""
    return Page(title="net", blocks=(Text(_head(found)), *_figures(found), *_ends(found)))


def _head(found: NetAnswer) -> str:
    hosts = " <-> ".join(clean(host, _NAME) for host in found.hosts)
    about = [hosts]
    if found.rails:
        about.append(plural(found.rails, "rail"))
    version = found.versions.get("nccl")
    if found.engine:
        about.append(" ".join(filter(None, (found.engine, version and clean(version, 20)))))
    if found.on_cpu:
        about.append("a self-test on the CPU")
    said = found.status if found.why is None else f"{found.status}: {clean(found.why, 400)}"
    return f"{', '.join(about)}: {said}"


def _figures(found: NetAnswer) -> Iterator[Block]:
    """A row for each rail and for all, GB/s."""
    if not found.results:
        return
    ways = list(
        dict.fromkeys((r.src, r.dst) for r in found.results if r.what is NetTransfer.SEND_RECV)
    )
    verbs = any(result.what is NetTransfer.IB_WRITE_BW for result in found.results)
    rails = list(dict.fromkeys(result.rail for result in found.results))
    head = [f"{clean(src, _NAME)} -> {clean(dst, _NAME)}" for src, dst in ways]
    by_gpu = not found.on_cpu  # gloo writes no log, and nothing is predicted for it
    head += ["latency, µs", "all-reduce", "all-to-all", *(["ib_write_bw"] * verbs)]
    head += ["transport"] * by_gpu
    rows = []
    for rail in rails:
        here = [result for result in found.results if result.rail == rail]
        sends = {(r.src, r.dst): r for r in here if r.what is NetTransfer.SEND_RECV}
        latencies = [r.latency_us for r in sends.values() if r.latency_us is not None]
        rows.append(
            [
                "all rails" if rail is None else f"rail {rail}",
                *(_cell(sends.get(way)) for way in ways),
                f"{max(latencies):.1f}" if latencies else "",
                _cell(_one(here, NetTransfer.ALL_REDUCE)),
                _cell(_one(here, NetTransfer.ALL_TO_ALL)),
                *([_cell(_one(here, NetTransfer.IB_WRITE_BW))] * verbs),
                *([said_way(found.log.rail(rail), found.predicted.rail(rail))] * by_gpu),
            ]
        )
    yield table(head, rows, "GB/s")


def _one(results: list[NetResult], what: NetTransfer) -> NetResult | None:
    """The lowest of both directions."""
    found = [result for result in results if result.what == what]
    return min(found, key=lambda result: result.gbs, default=None)


def _cell(result: NetResult | None) -> str:
    if result is None:
        return ""
    digits = 1 if result.gbs >= 10 else 2
    return f"{result.gbs:.{digits}f}" + "!" * result.wrong


def said_way(way: NetWay | None, predicted: NetWay | None) -> str:
    """The logged way, and the predicted one where it is another."""
    expected = _way(predicted)
    if way is None:
        return f"{units.UNKNOWN} ({expected} predicted)" if expected else units.UNKNOWN
    said = _way(way)
    return f"{said} (predicted {expected})" if expected and expected != said else said


def _way(way: NetWay | None) -> str:
    if way is None or way.transport is None:
        return ""
    return clean(way.transport, 30) + {True: " GDR", False: " no GDR", None: ""}[way.gdr]


def _ends(found: NetAnswer) -> Iterator[Block]:
    """What stands below the table."""
    if any(result.wrong for result in found.results):
        yield Text("!: the data that arrived was wrong")
    if found.results:
        yield Text("One way: bytes sent. Collectives: bus bandwidth, as nccl-tests counts it.")
    for warning in found.log.warnings:
        yield Text(clean(warning, 300))
