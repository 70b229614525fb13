"""The way between nodes that was predicted, and the one that NCCL's log names, rail by rail."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from gputop.topology.flags.values.predicting import predict_with_flags
from gputop.topology.logs.reading.read import read_log
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
        found = [net for net in view.nets if net.rank == rank and net.net in local]
        if found:
            return found
    return []


def logged(outcome: Outcome, nodes: int, rails: int) -> Logged:
    """Read the logs of this node's ranks; nothing in them is trusted."""
    texts = {rank: outcome.log_of(rank) for rank in outcome.ranks_logged()}
    reports = {rank: _read(text) for rank, text in texts.items()}
    whole = "\n".join(texts.values())
    apart = [rail for rail in range(rails) if rail in reports and rails > 1]
    ways = [_logged(rail, reports[rail], nodes, texts[rail]) for rail in apart]
    every = _read(whole)
    ways.append(_logged(None, every, nodes * rails, whole))
    notes = [note.text for note in every.notes if note.level == "WARN"]
    return Logged(
        version=every.versions.version,
        ways=tuple(way for way in ways if way.labels),
        warnings=tuple(dict.fromkeys(notes))[:MOST_WARNINGS],
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
