"""`gputop probe`: measure, in another process."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputop import __version__
from gputop.commands.options import json_option, print_json, say, settle
from gputop.exits import CANNOT_TELL, INTERRUPTED, USAGE, Exit
from gputop.predicting import changes_of
from gputop.topology.machine import Machine
from gputop.topology.snapshot import NodeSnapshot

if TYPE_CHECKING:
    from gputop.measuring import Told, Wish
    from gputop.nccl_check import NcclCheck
    from gputop.probes.spec import ProbeSpec

SETTLE_SECONDS = 1.5
"""Between two probes: the driver's utilisation still shows the one before as somebody's work."""


@click.command("probe")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@json_option
@click.option("--list", "listing", is_flag=True, help="Say what can be measured and what it costs.")
@click.option("--gpus", metavar="LIST", help="Indices as nvidia-smi counts, addresses or UUIDs.")
@click.option("--python", "python", metavar="PATH", help="Measure with the torch of this Python.")
@click.option("--force", is_flag=True, help="Measure although a GPU is in use.")
@click.option("--selftest", is_flag=True, help="Try the machinery on the CPU; measures no GPU.")
@click.option("--trace", is_flag=True, help="Name the kernels that ran (profiles one pair).")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="nccl: set a variable for the run. May be repeated.",
)
@click.option("--loopback", is_flag=True, help="nccl: meet on lo instead of the job's interface.")
@click.option("--nccl", "version", metavar="VERSION", help="nccl: predict by these rules.")
@click.option(
    "--logs",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="nccl: keep each rank's debug log here.",
)
@click.option(
    "--deadline", type=click.FloatRange(1, 86400), metavar="SECONDS", help="Give up after this."
)
@click.pass_context
def command(
    context: click.Context,
    names: tuple[str, ...],
    as_json: bool,
    listing: bool,
    gpus: str | None,
    python: str | None,
    force: bool,
    selftest: bool,
    trace: bool,
    assignments: tuple[str, ...],
    loopback: bool,
    version: str | None,
    logs: Path | None,
    deadline: float | None,
) -> None:
    """Measure the wires between GPUs. Without a name, everything that can be measured here."""
    from gputop.measuring import wish_for
    from gputop.probe_document import document, exit_code, several
    from gputop.probe_run import measure_attended
    from gputop.probes import catalog

    if listing:
        _list(as_json)
        return
    unknown = [name for name in names if name not in catalog.NAMES]
    if unknown:
        raise Exit(f"no probe {unknown[0]!r}; there are: {', '.join(catalog.NAMES)}", USAGE)
    names = names or catalog.NAMES
    changes = _changes(assignments, loopback=loopback)
    _check_version(version)
    if (changes or version or logs) and "nccl" not in names:
        raise Exit("--set, --loopback, --nccl and --logs are for the probe nccl", USAGE)
    snapshot = None if selftest else _snapshot(whole="nccl" in names)
    machine = Machine() if snapshot is None else snapshot.machine
    addresses = _addresses(gpus, machine, selftest=selftest)
    params: dict[str, dict[str, Any]] = {
        "p2p": {"trace": True} if trace else {},
        "nccl": {"set": changes, "loopback": loopback},
    }
    codes, documents = [], []
    for number, name in enumerate(names):
        if number and not selftest:
            time.sleep(SETTLE_SECONDS)
        wish = wish_for(
            name,
            machine,
            addresses,
            force=force,
            selftest=selftest,
            python=python,
            deadline_seconds=deadline,
            params=tuple(params.get(name, {}).items()),
        )
        told = measure_attended(wish)
        if told is None:
            codes.append(INTERRUPTED)
            break
        check = None
        if told.outcome.logs:
            from gputop.nccl_check import check_run

            check = check_run(snapshot, told, changes, library=version)
        if told.outcome.logs and logs is not None:
            _keep(told, logs)
        if as_json:
            documents.append(document(wish, told, check))
        else:
            _print(wish, told, check)
        _tell(wish, told)
        codes.append(exit_code(told))
        if told.outcome.status == "cancelled":
            break
    if documents:
        print_json(several(documents))
    context.exit(max(codes))


def _changes(assignments: tuple[str, ...], *, loopback: bool) -> dict[str, str]:
    """What the ranks get besides their environment."""
    changes = {name: value or "" for name, value in changes_of(assignments).items()}
    if loopback:
        if "NCCL_SOCKET_IFNAME" in changes:
            raise Exit("--loopback sets NCCL_SOCKET_IFNAME itself", USAGE)
        changes["NCCL_SOCKET_IFNAME"] = "lo"
    return changes


def _check_version(version: str | None) -> None:
    from gputop.topology.nccl.rules import UnknownVersionError, rules_for

    try:
        if version is not None:
            rules_for(version)
    except UnknownVersionError as error:
        raise Exit(str(error), USAGE) from error


def _keep(told: Told, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for rank in told.outcome.ranks_logged():
            path = folder / f"rank{rank}.log"
            path.write_text(told.outcome.log_of(rank), encoding="utf-8", errors="replace")
    except OSError as error:
        raise Exit(f"cannot write the logs: {error.strerror}: {folder}", USAGE) from error


def _list(as_json: bool) -> None:
    from gputop.probes import catalog

    specs: list[ProbeSpec] = [catalog.load(name).SPEC for name in catalog.NAMES]
    if as_json:
        print_json(
            {
                "schema": "gputop.probes/1",
                "gputop": __version__,
                "source": [],
                "assumptions": [],
                "probes": specs,
            }
        )
        return
    for spec in specs:
        click.echo(f"{spec.name:<8} {spec.title}")
        click.echo(f"{'':<8} {spec.measures}")
        gib = spec.memory_bytes_per_gpu / (1 << 30)
        costs = ", ".join(
            f"{spec.estimate_seconds(gpus):.0f} s on {gpus} GPUs" for gpus in (2, 4, 8)
        )
        click.echo(
            f"{'':<8} needs {spec.minimum_gpus} GPUs and {gib:.1f} GiB on each; about {costs}"
        )


def _snapshot(*, whole: bool) -> NodeSnapshot:
    """The GPUs as the drivers name them, with the links that say which pairs are alike.

    `whole`: with all that a prediction needs.
    """
    from gputop.topology.watch import LiveFeed, load_sources

    if whole:
        snapshot = settle(LiveFeed(version=__version__, thorough=True))
    else:
        snapshot = settle(LiveFeed(load_sources(("nvml", "pci")), thorough=True))
    if not snapshot.machine.gpus:
        reasons = "; ".join(dict.fromkeys(problem.text for problem in snapshot.problems))
        raise Exit(f"no GPU to measure{': ' + reasons if reasons else ''}", CANNOT_TELL)
    return snapshot


def _addresses(gpus: str | None, machine: Machine, *, selftest: bool) -> tuple[str, ...]:
    from gputop.selection import SelectionError, select

    if selftest:
        return ()
    try:
        return select(gpus, machine)
    except SelectionError as error:
        raise Exit(str(error), USAGE) from error


def _print(wish: Wish, told: Told, check: NcclCheck | None) -> None:
    """Figures and the check, on stdout."""
    from gputop.figures import tables

    names = dict(wish.names)
    blocks = [tables(told.measurements, names)] if told.measurements else []
    if check is not None:
        from gputop.nccl_text import text

        blocks.append(text(check, names))
    if any(blocks):
        click.echo("\n\n".join(block for block in blocks if block))


def _tell(wish: Wish, told: Told) -> None:
    """What people should know besides, on stderr."""
    for text in told.blind:
        say(f"note: {text}")
    for note in told.outcome.notes:
        for line in note.text.splitlines():
            say(f"note: {line}")
    say(f"{wish.probe}: {told.outcome.message}")
