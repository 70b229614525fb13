"""Which node this is, as the engine that started us names it, and the names of its files."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping

from gputop.exits import USAGE, Exit
from gputop.terminal.clean import clean
from gputop.topology.fleet.section import NodeOrigin

NAMED = "GPUTOP_NODE"
"""The variable by which a site names the node itself: in a pod of Kubernetes the host name is the
pod's, unless the pod uses the host's network."""
_NODES = (NAMED, "SLURMD_NODENAME")
_JOBS = (
    ("SLURM_JOB_ID", "Slurm"),
    ("PBS_JOBID", "PBS"),
    ("LSB_JOBID", "LSF"),
    ("FLUX_JOB_ID", "Flux"),
    ("COBALT_JOBID", "Cobalt"),
    ("JOB_ID", "Grid Engine"),
    ("TORCHELASTIC_RUN_ID", "torchrun"),
)
_RANKS = (
    ("SLURM_PROCID", "Slurm"),
    ("OMPI_COMM_WORLD_RANK", "Open MPI"),
    ("PMIX_RANK", "PMIx"),
    ("PMI_RANK", "MPI"),
    ("FLUX_TASK_RANK", "Flux"),
    ("JSM_NAMESPACE_RANK", "LSF"),
    ("RANK", "torchrun"),
    ("JOB_COMPLETION_INDEX", "Kubernetes"),
)
NO_JOB = "none"
_LONGEST = 100
_OUTSIDE = re.compile(r"[^A-Za-z0-9._-]")
_PATTERN = re.compile(r"%(.?)", re.DOTALL)


def origin(
    environment: Mapping[str, str] | None = None, host_name: str | None = None
) -> NodeOrigin:
    """The node, the job and the rank of this process.

    The name is $GPUTOP_NODE, else $SLURMD_NODENAME, else the host name; up to its first dot.
    """
    values = os.environ if environment is None else environment
    said = next((values[name] for name in _NODES if values.get(name)), None)
    full = said or (socket.gethostname() if host_name is None else host_name)
    job = next(((values[name], engine) for name, engine in _JOBS if values.get(name)), None)
    rank = next(
        ((values[name], engine) for name, engine in _RANKS if values.get(name, "").isdecimal()),
        None,
    )
    return NodeOrigin(
        named=bool(values.get(NAMED)),
        host=plain(full.split(".")[0]) or "unknown",
        job=None if job is None else plain(job[0]) or None,
        engine=job[1] if job is not None else rank[1] if rank is not None else None,
        rank=None if rank is None or len(rank[0]) > 9 else int(rank[0]),
    )


def file_name(pattern: str, of: NodeOrigin) -> str:
    """Put the names into a path: %n the node, %j the job ("none" outside of one), %% a percent.

    A name cannot lead out of its folder: what is no letter, digit, ".", "-" or "_" becomes "_", and
    so does a leading dot. Raises Exit for another letter behind a percent.
    """
    known: dict[str, Callable[[], str]] = {
        "n": lambda: plain(of.host),
        "j": lambda: plain(of.job or NO_JOB),
        "%": lambda: "%",
    }

    def put(found: re.Match[str]) -> str:
        if found[1] not in known:
            text = clean(found[0], 10)
            raise Exit(f"-o: {text!r}: there are %n (node), %j (job) and %%", USAGE)
        return known[found[1]]()

    return _PATTERN.sub(put, pattern)


def plain(name: str) -> str:
    """A name with which no file can lie outside its folder."""
    safe = _OUTSIDE.sub("_", name.strip())[:_LONGEST]
    return re.sub(r"^[.-]+", lambda found: "_" * len(found[0]), safe)
