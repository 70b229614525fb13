"""`gputop probe net`: measures the network between nodes, one process on each of them."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from gputop.answers.measured import chosen, live_snapshot
from gputop.answers.predicting import changes_of
from gputop.checking.origin import file_name, origin
from gputop.checking.redacting import HostNames
from gputop.commands.net.document import Circumstances
from gputop.commands.net.launcher import Launch, LaunchError, hosts_named, launched
from gputop.commands.net.run import NetRun
from gputop.commands.net.transports import predicted
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
from gputop.topology.fleet.section import NodeOrigin
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
    help="Write the result here, by the first node that lives, packed if it ends in .gz; %n is its "
    "host, %j the job.",
)
@click.option(
    "--redact", is_flag=True, help="Replace names in the JSON, as `gputop check --redact` does."
)
@json_option
@deadline_option(
    5,
    "Give up after this time; about half of it may go by until all nodes are here.",
    DEADLINE_SECONDS,
)
@click.option("--hosts", metavar="LIST", help="Hosts that should come: g1,g9 or g[1-2].")
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
    if redact and not (output or as_json):
        raise Exit("--redact is about the JSON: add --json or -o", USAGE)
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
