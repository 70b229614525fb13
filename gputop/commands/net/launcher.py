"""Which node this process is among how many, as launchers say it in the environment.

One process on each node drives all of its GPUs. Of several that a launcher starts on one node, the
first does, and the others step back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gputop.topology.fleet.hosts import expand

_MOST_LISTED = 10_000


class LaunchError(ValueError):
    """The environment, or the options, do not say which node this is; one sentence."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """The place of this process."""

    node: int
    nodes: int
    by: str
    """What said so: "--rank", "torchrun", "mpirun", "PMI", "srun"."""
    local: int = 0
    """Its number on this node; all but 0 step back."""
    store: dict[str, Any] | None = None
    """Where torchrun's processes meet: host, port, prefix, serve; None without it."""


def launched(
    environment: Mapping[str, str], rank: int | None = None, of: int | None = None
) -> Launch:
    """The place by the options, else by the launcher; LaunchError where neither tells it."""
    if rank is not None or of is not None:
        if rank is None or of is None:
            raise LaunchError("--rank and --of belong together: --rank 0 --of 2, --rank 1 --of 2")
        return _checked(Launch(node=rank, nodes=of, by="--rank"))
    for found in (_torchrun, _mpirun, _pmi, _slurm, _plain):
        launch = found(environment)
        if launch is not None:
            return _checked(launch)
    raise LaunchError(
        "no launcher says which node this is: start it with torchrun, srun or mpirun, or give "
        "--rank and --of"
    )


def hosts_named(environment: Mapping[str, str], given: str | None = None) -> tuple[str, ...]:
    """The hosts that should come, by option or by Slurm; () where nobody says it.

    Raises LaunchError for a list that is none.
    """
    listed = given or environment.get("SLURM_STEP_NODELIST") or ""
    try:
        return expand(listed, _MOST_LISTED) if listed else ()
    except ValueError as error:
        raise LaunchError(f"the list of hosts: {error}") from error


def _checked(launch: Launch) -> Launch:
    if launch.nodes < 2:
        raise LaunchError(f"{launch.by} has 1 node; the network takes two or more")
    if not 0 <= launch.node < launch.nodes:
        text = f"{launch.by}: there is no node {launch.node} of {launch.nodes}, they count from 0"
        raise LaunchError(text)
    return launch


def _torchrun(environment: Mapping[str, str]) -> Launch | None:
    """GROUP_RANK is the number of the agent, of which there is one on each node."""
    if "GROUP_RANK" not in environment or "GROUP_WORLD_SIZE" not in environment:
        return None
    read = _Reading(environment, "torchrun")
    store = None
    if environment.get("MASTER_ADDR") and environment.get("MASTER_PORT"):
        run, again = (
            environment.get(f"TORCHELASTIC_{name}", "0") for name in ("RUN_ID", "RESTART_COUNT")
        )
        store = {
            "host": environment["MASTER_ADDR"],
            "port": read.number("MASTER_PORT"),
            "prefix": f"gputop/{run}/{again}",
            # Else the first of the processes serves it, while it runs.
            "serve": environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
        }
    return Launch(
        node=read.number("GROUP_RANK"),
        nodes=read.number("GROUP_WORLD_SIZE"),
        local=read.number("LOCAL_RANK", 0),
        by="torchrun",
        store=store,
    )


def _mpirun(environment: Mapping[str, str]) -> Launch | None:
    """Open MPI numbers processes; which node one is on follows where each has as many."""
    at = "OMPI_COMM_WORLD_"
    names = (f"{at}RANK", f"{at}SIZE", f"{at}LOCAL_RANK", f"{at}LOCAL_SIZE")
    return _by_process(environment, "mpirun", names)


def _pmi(environment: Mapping[str, str]) -> Launch | None:
    """MPICH and Intel MPI."""
    if "SLURM_STEP_ID" in environment:
        return None  # srun sets these too, and its own say more
    names = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    return _by_process(environment, "PMI", names)


def _slurm(environment: Mapping[str, str]) -> Launch | None:
    if "SLURM_PROCID" not in environment or "SLURM_STEP_ID" not in environment:
        return None
    read = _Reading(environment, "srun")
    nodes = read.number("SLURM_STEP_NUM_NODES", read.number("SLURM_NNODES", 0))
    return Launch(
        node=read.number("SLURM_NODEID"),
        nodes=nodes,
        local=read.number("SLURM_LOCALID", 0),
        by="srun",
    )


def _plain(environment: Mapping[str, str]) -> Launch | None:
    """RANK and WORLD_SIZE alone, as operators of Kubernetes set them."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    return _by_process(environment, "RANK", names)


def _by_process(
    environment: Mapping[str, str], by: str, names: tuple[str, str, str, str]
) -> Launch | None:
    """From the number of a process: those of one node follow each other."""
    rank_name, size_name, local_name, local_size_name = names
    if rank_name not in environment or size_name not in environment:
        return None
    read = _Reading(environment, by)
    rank, size = read.number(rank_name), read.number(size_name)
    local, each = read.number(local_name, 0), max(1, read.number(local_size_name, 1))
    if size % each or (local == 0 and rank % each):
        raise LaunchError(
            f"{by}: {size} processes, {each} on this node, and which node this is cannot be told: "
            "start one process on each node"
        )
    return Launch(node=rank // each, nodes=size // each, local=local, by=by)


class _Reading:
    """Reads numbers of the environment."""

    def __init__(self, environment: Mapping[str, str], by: str) -> None:
        self._environment = environment
        self._by = by

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number; LaunchError where there is none and no default."""
        text = self._environment.get(name, "")
        if not text and default is not None:
            return default
        if not text.isascii() or not text.isdecimal() or len(text) > 9:
            raise LaunchError(f"{self._by}: {name} is {text[:40]!r}, which is no number")
        return int(text)
