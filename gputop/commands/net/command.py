"""`gputop probe net`: measures the network between nodes, one process on each of them."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from gputop.answers.measured import chosen, live_snapshot
from gputop.answers.net import Circumstances, predicted
from gputop.answers.predicting import changes_of
from gputop.checking.file import file_name, origin
from gputop.checking.redacting import HostNames
from gputop.commands.examples import WithExamples
from gputop.commands.net.run import NetRun
from gputop.commands.options import (
    completing,
    deadline_option,
    gpus_option,
    json_option,
    library_option,
    measuring_options,
    set_option,
)
from gputop.exits import USAGE, Exit
from gputop.measuring.planning import Plan, plan
from gputop.probes.catalog.net.plan import MOST_NODES
from gputop.probes.runner.nccl_library import TORCH
from gputop.terminal.clean import clean
from gputop.terminal.lines import warn
from gputop.terminal.writing import STDOUT
from gputop.topology.fleet.hosts import expand
from gputop.topology.fleet.section import NodeOrigin
from gputop.topology.model.errors import GputopError
from gputop.topology.model.machine import Machine
from gputop.topology.model.snapshot import NodeSnapshot

DEADLINE_SECONDS = 120.0
_SELFTEST_RAILS = 2

# Which node this process is among how many, as launchers say it in the environment.
#
# One process on each node drives all of its GPUs. Of several that a launcher starts on one node,
# the first does, and the others step back.
_MOST_LISTED = 10_000


class LaunchError(GputopError):
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


@click.command("probe net", cls=WithExamples)
@click.option("--rank", type=click.IntRange(0), metavar="R", help="Number of this node, from 0.")
@click.option("--of", type=click.IntRange(2), metavar="N", help="How many nodes there are.")
@click.option(
    "--meet",
    metavar="FILE",
    shell_complete=completing("files"),
    help="Rendezvous through files beside this one, on a file system that all nodes see; by "
    "default, under torchrun, through its store.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=completing("files"),
    help="Write the result here, packed if it ends in .gz; the first node that is alive writes. "
    "%n is its host, %j the job.",
)
@click.option(
    "--redact", is_flag=True, help="Replace names in the JSON, as `gputop check --redact` does."
)
@json_option
@deadline_option(
    5,
    "Give up after this time; up to about half of it may pass before all nodes are here.",
    DEADLINE_SECONDS,
)
@click.option("--hosts", metavar="LIST", help="Hosts that should take part: g1,g9 or g[1-2].")
@click.option("--round", "number", type=click.IntRange(1), metavar="N", help="Round of a plan.")
@gpus_option("Use")
@measuring_options
@click.option("--selftest", is_flag=True, help="Test the program on the CPU, over loopback.")
@set_option("assignments", "Set a variable for the run, on this node")
@library_option()
@click.option(
    "--ib-write-bw",
    "verbs",
    is_flag=True,
    help="Also run perftest's ib_write_bw on every rail, where it is installed.",
)
@click.pass_context
def command(
    context: click.Context,
    rank: int | None,
    of: int | None,
    meet: str | None,
    output: str | None,
    redact: bool,
    as_json: bool,
    deadline: float,
    hosts: str | None,
    number: int | None,
    gpus: str | None,
    python: str | None,
    force: bool,
    selftest: bool,
    assignments: tuple[str, ...],
    nccl_lib: str | None,
    verbs: bool,
) -> None:
    """Measure the network between nodes: NCCL or RCCL rail by rail, then over all rails.

    Start it on each of two nodes (or a few), by torchrun, srun, mpirun or by hand. One process
    on each node drives all of its GPUs. Nothing keeps listening afterwards.
    """
    try:
        launch = launched(os.environ, rank, of)
        wanted = hosts_named(os.environ, hosts)
    except LaunchError as error:
        raise Exit(str(error), USAGE) from error
    if launch.nodes > MOST_NODES:
        text = f"{launch.nodes} nodes: at most {MOST_NODES} measure each other; take pairs instead"
        raise Exit(text, USAGE)
    if selftest and gpus is not None:
        raise Exit("--selftest measures no GPU: leave --gpus out", USAGE)
    if redact and not (output or as_json):
        raise Exit("--redact is about the JSON: add --json or -o", USAGE)
    if output == STDOUT:
        output, as_json = None, True
    here, names = origin(), HostNames() if redact else None
    host, path_of = here.host, _output(output, here, names)
    if launch.local != 0:
        warn(f"net: process {launch.local} of {host} steps back: one on each node drives all GPUs")
        return
    place = _place(meet, launch)
    if "file" not in place:
        nccl_lib = TORCH  # the store is torch's
    elif nccl_lib is not None and nccl_lib != TORCH:
        nccl_lib = os.path.abspath(nccl_lib)
        if not os.path.isfile(nccl_lib):
            raise Exit(f"--nccl-lib names no file: {clean(nccl_lib, 200)}", USAGE)
    changes = {name: value or "" for name, value in changes_of(assignments).items()}
    snapshot = None if selftest else live_snapshot()
    addresses = () if snapshot is None else chosen(gpus, snapshot)
    params: dict[str, Any] = {
        "node": launch.node, "nodes": launch.nodes, "host": host, "meet": place,
        "wait": max(deadline - 6, deadline / 2) / 2, "set": changes, "verbs": verbs,
        "nics": _nics(snapshot, addresses, changes) if verbs else [],
    }  # fmt: skip
    if selftest:
        params["count"] = _SELFTEST_RAILS
    planned = _planned(
        snapshot, addresses, params, force=force, selftest=selftest, python=python,
        nccl_lib=nccl_lib, deadline_seconds=deadline,
    )  # fmt: skip
    where = Circumstances(
        host=host, node=launch.node, nodes=launch.nodes, named=wanted, job=here.job,
        round=number,
    )  # fmt: skip
    run = NetRun(planned, snapshot, where, changes, path_of, names, as_json=as_json)
    try:
        context.exit(run.run())
    finally:
        if "file" in place:
            clear(Path(place["file"]), launch.node)


def _output(
    template: str | None, of: NodeOrigin, names: HostNames | None
) -> Callable[[str], Path] | None:
    """Where a host writes; None without -o. Raises Exit for a name that cannot be one."""
    if template is None:
        return None
    if not template or template.endswith("/"):
        raise Exit("-o names a file: DIR/%n.json.gz", USAGE)
    file_name(template, of)
    return partial(_path, template, of, names)


def _path(template: str, of: NodeOrigin, names: HostNames | None, host: str) -> Path:
    shown = host if names is None else names.of(host)
    return Path(file_name(template, msgspec.structs.replace(of, host=shown)))


def _place(meet: str | None, launch: Launch) -> dict[str, Any]:
    """Where the nodes meet; raises Exit where nothing says it."""
    if meet is not None:
        return {"file": str(checked(meet))}
    if launch.store is None:
        text = "where do the nodes meet? --meet FILE, on a file system that all of them see"
        raise Exit(text, USAGE)
    return dict(launch.store)


def _nics(
    snapshot: NodeSnapshot | None, gpus: tuple[str, ...], changes: dict[str, str]
) -> list[str]:
    """The first RDMA device of each rail, "" where there is none."""
    known = predicted(snapshot, gpus, changes, None).rails
    devices = () if snapshot is None else {device.name for device in snapshot.machine.rdma}
    return [next((nic for nic in way.nics if nic in devices), "") for way in known]


def _planned(
    snapshot: NodeSnapshot | None, gpus: tuple[str, ...], params: dict[str, Any], **more: Any
) -> Plan:
    machine = Machine() if snapshot is None else snapshot.machine
    return plan(("net",), machine, gpus, params={"net": tuple(params.items())}, **more)


# The files in which nodes meet, beside the one that the user names.
def checked(named: str) -> Path:
    """The whole path of --meet; raises Exit where nothing can be put beside it."""
    path = Path(os.path.abspath(named))
    if not named or named.endswith("/") or os.path.isdir(path):
        raise Exit("--meet names a file; the nodes meet in files beside it", USAGE)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise Exit(f"--meet: nothing can be written in {clean(path.parent, 200)}", USAGE)
    return path


def clear(path: Path, node: int) -> None:
    """Take away what this node left there; what is no file stays."""
    mine = f"{path.name}.{node}"
    with contextlib.suppress(OSError):
        for name in os.listdir(path.parent):
            if name == mine or name.startswith(f"{mine}-"):
                with contextlib.suppress(OSError):
                    found = path.parent / name
                    if stat.S_ISREG(found.lstat().st_mode):
                        found.unlink()
