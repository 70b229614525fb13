"""Why a log and a prediction may differ: the known differences between the two."""

from __future__ import annotations

from collections.abc import Iterator

from ...nccl.prediction import Prediction
from ..report.communicator import Communicator
from ..report.report import LogReport
from ..report.settings import settings_from
from .agreement import Agreement, ComparedItem

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
    for name, value in assumed.items():
        if name not in logged and name.startswith(("NCCL_", "RCCL_")):
            yield (
                f"{name}={value} was predicted with, and the log does not show it: not set in the "
                "job, or its value was not understood"
            )


def _counts(name: str) -> bool:
    return not name.startswith(QUIET)


def _spelled(value: str) -> str:
    return LEVELS.get(value, value).upper()


def _shape(
    comm: Communicator, prediction: Prediction, found: Agreement, hosts: int
) -> Iterator[str]:
    predicted = len({pair.src for pair in prediction.pairs}) * hosts
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
    if any(item.topic == "graph" and item.subject.startswith("nvls") for item in _items(found)):
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
