"""`gputop fleet plan`: which pairs of nodes to measure next, and whom the results accuse."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from gputop import __version__
from gputop.answers.fabric_option import fabric_of_option
from gputop.answers.fleet import hosts_of
from gputop.commands.examples import WithExamples
from gputop.commands.options import completing, json_option
from gputop.exits import USAGE, Exit
from gputop.terminal.clean import clean
from gputop.terminal.lines import print_json, warn
from gputop.terminal.output import print_document
from gputop.terminal.writing import STDOUT, code_of, write_whole
from gputop.topology.fleet.hosts import fold, in_order
from gputop.topology.fleet.planning.document import plan_fields
from gputop.topology.fleet.planning.fabric import SwitchFabric
from gputop.topology.fleet.planning.folder import PLAN, FolderRead, read_folder
from gputop.topology.fleet.planning.pairing import LEAF, STRATEGIES
from gputop.topology.fleet.planning.plan import (
    CLEAR,
    FOUND,
    LOOK_SECONDS,
    MORE,
    ROUNDS,
    FleetPlan,
    PlanRequest,
    plan,
)
from gputop.topology.fleet.planning.scripts import hostfiles, sbatch
from gputop.topology.fleet.planning.sequential import SICK_RATE, missed
from gputop.topology.model.characters import json_text
from gputop.topology.model.english import plural

MANY = 7
"""Looks that find most links that are bad now and then."""
FORMATS = ("text", "sbatch", "hostfile", "json")
_NAMED = 20

_SHOWN = 20
_HEADS = {
    FOUND: "Culprits are named, and nothing is open.",
    CLEAR: "Nothing is wrong that these rounds can show.",
}


@click.command(
    "plan", cls=WithExamples, short_help="Say which pairs to measure next, and what is at fault."
)
@click.argument("folder", metavar="DIR", shell_complete=completing("files"))
@click.option(
    "--topology",
    metavar="FILE",
    shell_complete=completing("files"),
    help="Slurm's topology.conf or topology.yaml, or lines `leaf: hosts`. `names` guesses leaves "
    "from the names of the nodes, `names/32` takes runs of 32.",
)
@click.option(
    "--pairs",
    "strategy",
    type=click.Choice(STRATEGIES),
    default=LEAF,
    show_default=True,
    help="Partners below different leaf switches, any, or below one leaf switch.",
)
@click.option(
    "--nodes", metavar="LIST", help="The nodes: g[1-16]. Default: those in DIR, else in FILE."
)
@click.option(
    "--rounds",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=ROUNDS,
    show_default=True,
    help="Rounds that measure every node.",
)
@click.option(
    "--looks",
    metavar="N",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="How often to measure each pair in a round; 7 find links that fail now and then.",
)
@click.option("--scale", is_flag=True, help="Sets of nodes, for what only larger jobs show.")
@click.option(
    "--healthy", type=click.FloatRange(0.001), metavar="GBS", help="GB/s of one healthy rail."
)
@click.option(
    "--seconds",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 86400),
    default=LOOK_SECONDS,
    show_default=True,
    help="How long measuring a pair takes, to estimate the cost.",
)
@click.option("--format", "shape", type=click.Choice(FORMATS), default=None, help="What to print.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=completing("files"),
    help="Write there instead of stdout; for hostfile a folder, with one file for each pair.",
)
@json_option
@click.pass_context
def subcommand(
    context: click.Context,
    folder: str,
    topology: str | None,
    strategy: str,
    nodes: str | None,
    rounds: int,
    looks: int,
    scale: bool,
    healthy: float | None,
    seconds: float,
    shape: str | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Plan the next round of pairs, and name the culprits that the results in DIR prove.

    Exit codes: 0 nothing is wrong that these rounds can show, 1 a round is to be run, 2 culprits
    are named and nothing is open, 3 cannot tell.
    """
    if as_json and shape not in (None, "json"):
        raise Exit("use --json or --format, not both", USAGE)
    if not all(map(math.isfinite, (seconds, healthy or 1.0))):
        raise Exit("--seconds and --healthy are numbers", USAGE)
    shape = "json" if as_json else shape or "text"
    read = _folder(folder)
    fabric = fabric_of_option(topology, lambda: hosts_of(nodes) or read.hosts)
    hosts = _hosts(nodes, read, fabric)
    wish = PlanRequest(
        hosts=hosts,
        fabric=fabric,
        strategy=strategy,
        rounds=rounds,
        looks=looks,
        scale=scale,
        healthy_gbs=healthy,
        look_seconds=seconds,
        kinds=read.kinds,
    )
    planned = plan(wish, read.looks, read.last_round)
    _say_passed(read)
    _print(planned, read, shape, None if output == STDOUT else output, folder)
    context.exit(planned.verdict.exit_code)


def _folder(folder: str) -> FolderRead:
    try:
        return read_folder(Path(folder))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Exit(f"{clean(folder, 200)}: {why}", USAGE) from error


def _hosts(nodes: str | None, read: FolderRead, fabric: SwitchFabric) -> tuple[str, ...]:
    """The nodes that are planned for, at least two."""
    hosts = hosts_of(nodes) or tuple(in_order(read.hosts or fabric.leaf_of))
    if len(hosts) < 2:
        raise Exit("fewer than two nodes are known: name them with --nodes g[1-16]", USAGE)
    return hosts


def _say_passed(read: FolderRead) -> None:
    for why, names in read.passed.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        warn(f"passed over, {clean(why, 300)}: {clean(', '.join(names[:_NAMED]), 400)}{more}")


def _sbatch(planned: FleetPlan, folder: str) -> str:
    """The script for Slurm. Raises Exit where nothing is left to run."""
    if planned.pairs or planned.sets:
        return sbatch(planned, os.path.abspath(folder), __version__)
    why = _HEADS.get(planned.verdict, "Cannot tell.")
    said = f"{why[:1].lower()}{why[1:].rstrip('.')}"
    raise Exit(f"no round is left to run: {said}", planned.verdict.exit_code)


def _print(
    planned: FleetPlan, read: FolderRead, shape: str, output: str | None, folder: str
) -> None:
    document = {
        "schema": PLAN,
        "gputop": __version__,
        "source": [folder],
        "assumptions": assumptions(planned),
        **plan_fields(planned),
        "passed_over": {why: len(names) for why, names in read.passed.items()},
        "unanswered": read.unanswered,
    }
    if shape == "json" and output is None:
        print_json(document)
        return
    if shape == "hostfile" and output is not None:
        _write_hostfiles(planned, Path(output))
        return
    if shape == "json":
        text = json_text(document) + "\n"
    elif shape == "sbatch":
        text = _sbatch(planned, folder)
    elif shape == "hostfile":
        text = "".join(f"{','.join(one.split())}\n" for one in hostfiles(planned).values())
    else:
        text = "\n".join(lines(planned, assumptions(planned), read.unanswered)) + "\n"
    if output is None:
        print_document(text) if shape != "text" else click.echo(text, nl=False)
        return
    _write(Path(output), text)


def assumptions(planned: FleetPlan) -> list[str]:
    """What the plan takes for granted."""
    wish = planned.wish
    found = [f"a look takes {wish.look_seconds:g} s (--seconds)"]
    if wish.fabric.assumption:
        found.append(wish.fabric.assumption)
    if not wish.fabric.leaf_of:
        found.append("no topology: leaves are unknown, and a sick switch shows as many sick nodes")
    unknown = [host for host in wish.hosts if wish.fabric.leaf(host) is None]
    if wish.fabric.leaf_of and unknown:
        found.append(f"the leaf of {len(unknown)} nodes is unknown, {unknown[0]} among them")
    if not all(wish.kinds.get(host) for host in wish.hosts):
        found.append("nodes without a check have the same hardware as one another")
    return found


def _write_hostfiles(planned: FleetPlan, folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise Exit(f"{folder}: {error.strerror}", USAGE) from error
    files = hostfiles(planned)
    for name, text in files.items():
        _write(folder / name, text, quiet=True)
    warn(f"wrote {len(files)} files to {folder}")


def _write(path: Path, text: str, *, quiet: bool = False) -> None:
    try:
        write_whole(path, text)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Exit(f"{path}: not written: {why}", code_of(error)) from error
    if not quiet:
        warn(f"wrote {path}")


# A plan as lines for people.
def _suspected(plan: FleetPlan) -> Iterator[str]:
    suspects = plan.found.suspects
    if suspects or plan.found.switches or plan.candidates:
        yield "Suspected, not proven:"
    for suspicion in plan.found.switches:
        yield f"  ▲ switch {' or '.join(suspicion.switches)}, or its uplinks"
    if suspects:
        yield f"  ▲ {fold(one.host for one in suspects)}"
    if plan.candidates:
        yield f"  ▲ one of {fold(plan.candidates)}, in larger jobs only"


def lines(
    plan: FleetPlan, assumptions: Sequence[str], unanswered: Mapping[int, int]
) -> Iterator[str]:
    """The verdict, what is accused and open, the next round, and what is taken for granted."""
    yield _round(plan) if plan.verdict == MORE else _HEADS.get(plan.verdict, "Cannot tell.")
    if plan.verdict == MORE:
        yield from _costs(plan)
    else:
        yield f"  {plan.measured} looks at {len(plan.wish.hosts)} nodes"
    if plan.culprits:
        yield "Accused:"
        for culprit in plan.culprits[:_SHOWN]:
            yield f"  ✗ {culprit.said}"
            yield f"      {culprit.because}"
        yield from _more(len(plan.culprits))
    yield from _suspected(plan)
    notes = [
        *(
            f"round {number}: {count} pair{'s' * (count != 1)} gave no file; if it still runs,"
            " wait for it"
            for number, count in sorted(unanswered.items())
        ),
        *plan.doubts,
    ]
    if notes:
        yield "Not known:"
        for note in notes:
            yield f"  ? {note}"
    yield "Assumed:"
    for text in assumptions:
        yield f"  {text}"
    if plan.verdict == MORE:
        yield "Run it: --format sbatch (or hostfile, json), then plan again with the same folder."


def _round(plan: FleetPlan) -> str:
    if plan.sets:
        sizes = f"{len(plan.sets)} set{'s' * (len(plan.sets) > 1)} of {len(plan.sets[0])} nodes"
        return f"Round {plan.number}: {sizes}."
    busy = len(plan.wish.hosts) - len(plan.idle)
    count = len(plan.pairs)
    head = f"Round {plan.number}: {count} pair{'s' * (count != 1)} of {busy} nodes, each node once"
    # One of an odd number has no partner; many are left alone where they were measured enough.
    return f"{head}; {plan.idle[0]} waits." if len(plan.idle) == 1 else f"{head}."


def _costs(plan: FleetPlan) -> Iterator[str]:
    rounds, node_seconds = plan.expected
    yield (
        f"  this round: {plan.seconds:,.0f} s with all at the same time,"
        f" {plan.node_seconds:,.0f} node-seconds"
    )
    if plan.sets:
        yield "  how many rounds of sets follow depends on the size from which the fault shows"
        return
    yield (
        f"  in all: {rounds} round{'s' * (rounds > 1)} and {node_seconds:,.0f} node-seconds while"
        " nothing is suspected;"
    )
    yield f"  every pair once would take {len(plan.wish.hosts) - 1:,} rounds"
    looks = plan.wish.rounds * plan.wish.looks
    yield (
        f"  a link that is always bad shows in one look; one that is bad in {SICK_RATE:.0%} of"
        f" looks escapes {plural(looks, 'look')} {missed(looks):.0%} of the time"
    )
    if looks < MANY:
        yield f"  (--looks {MANY} makes that {missed(MANY):.0%})"


def _more(count: int) -> Iterator[str]:
    if count > _SHOWN:
        yield f"  and {count - _SHOWN} more; --json has all"
