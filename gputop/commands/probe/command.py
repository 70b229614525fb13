"""`gputop probe`: measures GPUs in another process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from gputop.answers.predicting import changes_of
from gputop.commands.options import (
    completing,
    deadline_option,
    demo_option,
    gpus_option,
    json_option,
    library_option,
    measuring_options,
    set_option,
)
from gputop.commands.probe.history import print_history
from gputop.commands.probe.list import print_list
from gputop.commands.probe.node import chosen, demo_snapshot, live_snapshot
from gputop.commands.probe.run import SuiteRun
from gputop.exits import USAGE, Exit
from gputop.measuring.planning import plan
from gputop.measuring.selection import hidden_note
from gputop.probes import catalog
from gputop.probes.runner.nccl_library import TORCH
from gputop.reading import check_sources
from gputop.simulating.suite import simulated_plan
from gputop.terminal.clean import clean
from gputop.terminal.lines import warn
from gputop.terminal.nearest import did_you_mean
from gputop.topology.model.machine import Machine
from gputop.topology.nccl.versions import UnknownVersionError, version_for

RANKED = ("nccl", "collectives", "train-step")
"""Probes with a process on each GPU; they accept variables."""


@click.command("probe")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=completing("probes"))
@json_option
@click.option("--list", "listing", is_flag=True, help="List the probes and what they cost.")
@click.option(
    "--history", is_flag=True, help="Compare the last runs on this node with earlier ones."
)
@gpus_option("Measure")
@click.option("--quick", is_flag=True, help="The useful minimum: under a minute on four GPUs.")
@click.option("--full", is_flag=True, help="Every size, shape and NUMA node.")
@click.option("--large", is_flag=True, help="collectives: messages above 1 GiB too.")
@measuring_options
@click.option("--selftest", is_flag=True, help="Test the probes on the CPU; no GPU is measured.")
@click.option("--trace", is_flag=True, help="p2p: name the kernels that ran (profiles one pair).")
@set_option("assignments", "nccl, collectives, train-step: set a variable for the run")
@click.option(
    "--loopback",
    is_flag=True,
    help="The same probes: rendezvous on lo, not on the job's interface.",
)
@click.option(
    "--nccl",
    "version",
    metavar="VERSION",
    shell_complete=completing("versions"),
    help="nccl: compare with the prediction for this library.",
)
@library_option("nccl, collectives")
@click.option(
    "--logs",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="nccl: keep each rank's debug log here.",
)
@deadline_option(1, "Stop a probe after this time.")
@demo_option
@click.pass_context
def command(
    context: click.Context,
    names: tuple[str, ...],
    as_json: bool,
    listing: bool,
    history: bool,
    gpus: str | None,
    quick: bool,
    full: bool,
    large: bool,
    python: str | None,
    force: bool,
    selftest: bool,
    trace: bool,
    assignments: tuple[str, ...],
    loopback: bool,
    version: str | None,
    nccl_lib: str | None,
    logs: Path | None,
    deadline: float | None,
    demo: str | None,
) -> None:
    """Measure GPUs and their links: the named probes, or all that can run here.

    `gputop probe net` is a command of its own: it measures between nodes.
    """
    if any(name in catalog.BETWEEN_NODES for name in names):
        raise Exit("the network is measured alone, between nodes: gputop probe net --help", USAGE)
    unknown = [name for name in names if name not in catalog.NAMES]
    if unknown:
        name = unknown[0]
        hint = did_you_mean(name, catalog.NAMES) or f"; there are: {', '.join(catalog.NAMES)}"
        raise Exit(f"no probe {clean(name, 60)!r}{hint}", USAGE)
    if quick and full:
        raise Exit("use --quick or --full, not both", USAGE)
    if listing and history:
        raise Exit("use --list or --history, not both", USAGE)
    check_sources((), demo)
    if selftest and demo:
        raise Exit("--selftest and --demo exclude each other", USAGE)
    if demo and history:
        raise Exit("a demo has no history: what is simulated is not kept", USAGE)
    if selftest and gpus is not None:
        raise Exit("--selftest measures no GPU: leave --gpus out", USAGE)
    if python == "":
        raise Exit("--python is empty: name a Python, or leave it out", USAGE)
    level = "quick" if quick else "full" if full else "normal"
    if listing:
        print_list(names, gpus, as_json=as_json)
        return
    if history:
        print_history(names, as_json=as_json)
        return
    changes = _changes(assignments, loopback=loopback)
    _check_version(version)
    library = _library(nccl_lib, names or catalog.NAMES, demo=demo, selftest=selftest)
    _check_options(names or catalog.NAMES, changes, version, logs, large=large, trace=trace)
    snapshot = None if selftest else demo_snapshot(demo) if demo else live_snapshot()
    machine = Machine() if snapshot is None else snapshot.machine
    if snapshot is not None and gpus is None and (note := hidden_note(snapshot)):
        warn(f"note: {note}")
    planned = plan(
        names,
        machine,
        () if snapshot is None else chosen(gpus, snapshot),
        level=level,
        force=force,
        selftest=selftest,
        python=python,
        nccl_lib=library,
        deadline_seconds=deadline,
        params=_params(changes, large=large, trace=trace, loopback=loopback),
    )
    if demo:
        planned = simulated_plan(planned)
    suite_run = SuiteRun(planned, snapshot, changes, version, logs, as_json=as_json)
    context.exit(suite_run.run())


def _check_options(
    names: tuple[str, ...],
    changes: dict[str, str],
    version: str | None,
    logs: Path | None,
    *,
    large: bool,
    trace: bool,
) -> None:
    """Reject options of probes that do not run."""
    if (version or logs) and "nccl" not in names:
        raise Exit("--nccl and --logs are for the probe nccl", USAGE)
    ranked = [name for name in RANKED if name in names]
    if changes and not ranked:
        others = ", ".join(name for name in RANKED if name != "nccl")
        raise Exit(f"--set and --loopback are for the probe nccl and for {others}", USAGE)
    if large and "collectives" not in names:
        raise Exit("--large is for the probe collectives", USAGE)
    if trace and "p2p" not in names:
        raise Exit("--trace is for the probe p2p", USAGE)


def _params(
    changes: dict[str, str], *, large: bool, trace: bool, loopback: bool
) -> dict[str, tuple[tuple[str, Any], ...]]:
    """Further parameters by name of the probe."""
    ranked = (("set", changes), ("loopback", loopback))
    params: dict[str, tuple[tuple[str, Any], ...]] = dict.fromkeys(RANKED, ranked)
    if large:
        params["collectives"] += (("large", True),)
    if trace:
        params["p2p"] = (("trace", True),)
    return params


def _changes(assignments: tuple[str, ...], *, loopback: bool) -> dict[str, str]:
    """Variables that the ranks get in addition to their environment."""
    changes = {name: value or "" for name, value in changes_of(assignments).items()}
    if loopback:
        if "NCCL_SOCKET_IFNAME" in changes:
            raise Exit("--loopback sets NCCL_SOCKET_IFNAME itself", USAGE)
        changes["NCCL_SOCKET_IFNAME"] = "lo"
    return changes


def _library(
    named: str | None, names: tuple[str, ...], *, demo: str | None, selftest: bool
) -> str | None:
    """The file of the library as a whole path, or the word for torch's own."""
    if named is None:
        return None
    if not any(catalog.load(name).SPEC.by_library for name in names):
        raise Exit("--nccl-lib is for the probes nccl and collectives", USAGE)
    if demo or selftest:
        without = "--demo simulates" if demo else "--selftest uses torch on the CPU"
        raise Exit(f"{without}, and loads no library: leave --nccl-lib out", USAGE)
    if named == TORCH:
        return named
    path = os.path.abspath(named)
    if not os.path.isfile(path):
        raise Exit(f"--nccl-lib names no file: {clean(path, 200)}", USAGE)
    return path


def _check_version(version: str | None) -> None:
    try:
        if version is not None:
            version_for(version)
    except UnknownVersionError as error:
        raise Exit(str(error), USAGE) from error
