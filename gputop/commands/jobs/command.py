"""`gputop jobs`: what runs on the GPUs, how far each rank is, and who waits for whom."""

from __future__ import annotations

import click

from gputop.answers.jobs import document, text
from gputop.commands.options import json_option, say_problems, source_options
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.reading import check_sources, read_snapshot
from gputop.simulating.jobs import simulated
from gputop.terminal.lines import print_json, warn
from gputop.terminal.size import text_width
from gputop.topology.jobs.asking import PAUSE_SECONDS, JobsAnswer, ask_live, of_files
from gputop.topology.jobs.flight.files import FoundDumps, named, read
from gputop.topology.jobs.ras.client import SECONDS
from gputop.topology.jobs.saved import named as saved_in
from gputop.topology.jobs.saved import states_from_saved
from gputop.topology.model.snapshot import NodeSnapshot

LONGEST_WAIT, LONGEST_WATCH = 60.0, 3600.0


@click.command("jobs")
@source_options
@click.option(
    "--ras",
    is_flag=True,
    help="Ask NCCL's RAS service of the jobs here, on this machine only.",
)
@click.option(
    "--ras-wait",
    "wait",
    type=click.FloatRange(0.05, LONGEST_WAIT),
    metavar="SECONDS",
    default=SECONDS,
    show_default=True,
    help="How long one answer of RAS is waited for; a job with a silent rank may take 10.",
)
@click.option(
    "--over",
    type=click.FloatRange(0.05, LONGEST_WATCH),
    metavar="SECONDS",
    default=PAUSE_SECONDS,
    show_default=True,
    help="From the first look at the jobs to the second; over a longer time a slow rank goes on.",
)
@json_option
def command(
    sources: tuple[str, ...], demo: str | None, ras: bool, wait: float, over: float, as_json: bool
) -> None:
    """Say what runs on the GPUs, how far each rank is, and who waits for whom.

    Reads /proc twice, 0.4 s apart (--over), and dumps of PyTorch's flight recorder where the ranks
    write them; --from takes such dumps, and what `ncclras` printed, too. Nothing is started,
    stopped or written.
    """
    check_sources(sources, demo)
    if sources and ras:
        raise Exit("--ras asks the jobs of this machine: leave out --from", USAGE)
    snapshot, answer = _answer(sources, demo, ras, wait, over)
    if as_json:
        print_json(document(snapshot, answer, simulated=demo is not None))
        return
    click.echo(text(snapshot, answer, text_width(), simulated=demo is not None))


def _answer(
    sources: tuple[str, ...], demo: str | None, ras: bool, wait: float, over: float
) -> tuple[NodeSnapshot | None, JobsAnswer]:
    if sources:
        return _recorded(sources)
    here = read_snapshot((), demo)
    say_problems(here)
    if demo:
        return here, simulated(here, demo)
    return here, ask_live(here, ras=ras, wait=wait, pause=over)


def _recorded(sources: tuple[str, ...]) -> tuple[NodeSnapshot | None, JobsAnswer]:
    """What files say: dumps, saved answers of RAS, and a node."""
    dumps, others = named(sources)
    found = read(dumps, follow=True) if dumps else FoundDumps()
    saved, others = saved_in(others)
    refused = (*found.refused, *saved.refused)
    nothing = not others and not found.dumps and not saved.answers
    if nothing and len(refused) == 1:
        raise Exit(": ".join(refused[0]), CANNOT_TELL)
    for path, why in refused:
        warn(f"{path}: {why}")
    if nothing:
        # A dump that is cut off is a file that cannot be used, not a wrong path.
        code = CANNOT_TELL if refused else USAGE
        raise Exit(f"no dump of a flight recorder in {', '.join(sources)}", code)
    try:
        snapshot = read_snapshot(others, None) if others else None
    except Exit as error:
        if not (saved.answers or found.dumps):
            raise
        snapshot = None
        warn(str(error))
    return snapshot, of_files(snapshot, found, states_from_saved(saved))
