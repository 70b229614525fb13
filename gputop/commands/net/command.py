"""`gputop probe net`: measures the network between nodes, one process on each of them."""

from __future__ import annotations

import math
import os
import socket
from functools import partial
from pathlib import Path
from typing import Any

import click

from gputop.commands.net import meeting_place
from gputop.commands.net.document import Circumstances
from gputop.commands.net.launcher import Launch, LaunchError, hosts_named, launched
from gputop.commands.net.run import NetRun
from gputop.commands.net.transports import predicted
from gputop.commands.options import completing, gpus_option, json_option, measuring_options
from gputop.commands.predicting import changes_of
from gputop.commands.probe.node import chosen, live_snapshot
from gputop.exits import USAGE, Exit
from gputop.measuring.planning import Plan, plan
from gputop.probes.catalog.net.plan import MOST_NODES
from gputop.probes.runner.nccl_library import TORCH
from gputop.terminal.clean import clean
from gputop.terminal.lines import say
from gputop.terminal.naming import job_of, named
from gputop.topology.model.machine import Machine
from gputop.topology.model.snapshot import NodeSnapshot

DEADLINE_SECONDS = 120.0
_SELFTEST_RAILS = 2


@click.command("net")
@click.option("--rank", type=click.IntRange(0), metavar="R", help="Number of this node, from 0.")
@click.option("--of", type=click.IntRange(2), metavar="N", help="How many nodes there are.")
@click.option(
    "--meet",
    metavar="FILE",
    shell_complete=completing("files"),
    help="Meet in files beside this one, on a file system that all nodes see; by default, under "
    "torchrun, in its store.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=completing("files"),
    help="Write the result here, by the first node that lives; %n is its host, %j the job.",
)
@json_option
@click.option(
    "--deadline",
    type=click.FloatRange(5, 86400),
    default=DEADLINE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Give up after this time; about half of it may go by until all nodes are here.",
)
@click.option("--hosts", metavar="LIST", help="Hosts that should come: g1,g9 or g[1-2].")
@click.option("--round", "number", type=click.IntRange(1), metavar="N", help="Round of a plan.")
@gpus_option("Use")
@measuring_options
@click.option("--selftest", is_flag=True, help="Test the program on the CPU, over loopback.")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=completing("settings"),
    help="Set a variable for the run, on this node. May be repeated.",
)
@click.option(
    "--nccl-lib",
    "nccl_lib",
    metavar="FILE",
    shell_complete=completing("files"),
    help="The libnccl to load; torch for the one of --python's torch, by torch.",
)
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
    on each node drives all of its GPUs. Nothing listens when it has ended.
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
    if not math.isfinite(deadline):
        raise Exit("--deadline is a number of seconds", USAGE)
    host = _host()
    path_of = _output(output, host)
    if launch.local != 0:
        say(f"net: process {launch.local} of {host} steps back: one on each node drives all GPUs")
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
        host=host, node=launch.node, nodes=launch.nodes, named=wanted, job=job_of(os.environ),
        round=number,
    )  # fmt: skip
    run = NetRun(planned, snapshot, where, changes, path_of, as_json=as_json)
    try:
        context.exit(run.run())
    finally:
        if "file" in place:
            meeting_place.clear(Path(place["file"]), launch.node)


def _host() -> str:
    """The name of this node, as Slurm knows it or as it calls itself."""
    name = os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
    return clean(name, 200) or "unnamed"


def _output(template: str | None, host: str) -> Any:
    """Where a host writes; None without -o. Raises Exit for a name that cannot be one."""
    if template is None:
        return None
    if not template or template.endswith("/"):
        raise Exit("-o names a file: DIR/%n.json", USAGE)
    job = job_of(os.environ)
    try:
        named(template, host, job)
    except ValueError as error:
        raise Exit(f"-o: {error}", USAGE) from error
    return partial(_path, template, job)


def _path(template: str, job: str | None, host: str) -> Path:
    return named(template, host, job)


def _place(meet: str | None, launch: Launch) -> dict[str, Any]:
    """Where the nodes meet; raises Exit where nothing says it."""
    if meet is not None:
        return {"file": str(meeting_place.checked(meet))}
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
