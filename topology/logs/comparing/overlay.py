"""Predicts for the environment that a log shows, and compares the two."""

from __future__ import annotations

import msgspec

from ...model.snapshot import NodeSnapshot
from ...nccl.decide.predict import NoGpusError, predict
from ...nccl.prediction import Prediction
from ...nccl.settings import Settings
from ...nccl.versions import UnknownVersionError
from ...nccl.xml.machine import part_of_topology
from ...sources.collect import merge
from ..report.communicator import Communicator
from ..report.places import first_host, gpus_from, normal, places
from ..report.report import LogReport
from ..report.settings import settings_from
from .agreement import Agreement
from .compare import compare
from .system import Rebuilt, rebuild

OWN_BLOCK = "the log's own System block"
_RCCL_WITH_DEVICES = "rccl-2.30.4"


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction for what the log shows, and how far the two agree."""

    agreement: Agreement
    prediction: Prediction | None = None
    node: str = ""
    """What the prediction was made for: names of files, "live", or the log's own block."""
    assumptions: tuple[str, ...] = ()


def lay(log: LogReport, snapshot: NodeSnapshot | None, *, library: str | None = None) -> Overlay:
    """Predict for the environment, version and GPUs that the log shows, and compare.

    `snapshot` is the node; None rebuilds it from the log's own System block. `library`
    ("nccl-2.28.9") overrides the version in the log. Never raises for what a log holds.
    """
    comm = log.main
    if comm is None:
        return _none("the log shows no communicator")
    assumptions: tuple[str, ...] = ()
    if snapshot is None:
        found = rebuild(log)
        if isinstance(found, str):
            return _none(found)
        snapshot, assumptions = snapshot_of(found), found.assumptions
    known = {normal(gpu.address): gpu.address for gpu in snapshot.machine.gpus}
    wanted = [known[address] for address in gpus_from(log) if address in known]
    if not wanted:
        return _none("the GPUs of the log are not those of this node")
    hosts = hosts_of(comm)
    try:
        prediction = predict(
            snapshot,
            Settings(settings_from(log)),
            library=library or library_of(log),
            gpus=wanted if len(wanted) < len(known) else None,
            nodes=hosts,
        )
    except (NoGpusError, UnknownVersionError) as error:
        return _none(str(error))
    return Overlay(
        agreement=compare(log, prediction, hosts=hosts),
        prediction=prediction,
        node=", ".join(snapshot.source),
        assumptions=(*assumptions, *prediction.assumptions),
    )


def _none(why: str) -> Overlay:
    return Overlay(agreement=Agreement(comparable=False, why_not=why))


def snapshot_of(rebuilt: Rebuilt) -> NodeSnapshot:
    """Make a snapshot of a rebuilt topology."""
    part = part_of_topology(rebuilt.element)
    return merge([part], taken_at=0.0, source=(OWN_BLOCK,), gputop="")


def library_of(log: LogReport) -> str | None:
    """Name the rules for the library of a log: "nccl-2.28.9"; None when the log does not say."""
    versions = log.versions
    if versions.library is None:
        return None
    if versions.version is None:
        return _RCCL_WITH_DEVICES if versions.library == "rccl" and _has_devices(log) else None
    return f"{versions.library}-{versions.version}"


def _has_devices(log: LogReport) -> bool:
    """Whether ranks hang on nodes for devices in the System block, as they do since 2.30."""
    return any(
        node.name.startswith("DEV/")
        for comm in log.communicators
        for system in comm.systems
        for node in system.nodes
    )


def hosts_of(comm: Communicator) -> int:
    """How many hosts of equal size the communicator spans; 1 where the log does not show it."""
    here = [place for place in places(comm).values() if place.host == first_host(comm)]
    known = sum(1 for rank in comm.ranks if rank.host is not None)
    if known == comm.nranks:
        return len(comm.hosts) if len(here) * len(comm.hosts) == comm.nranks else 1
    if comm.nodes and comm.local_ranks and comm.local_ranks == len(here) and comm.local_ranks > 1:
        return comm.nodes if comm.nodes * comm.local_ranks == comm.nranks else 1
    return 1
