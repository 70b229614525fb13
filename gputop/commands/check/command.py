"""`gputop check`: diagnoses the node and sets an exit code."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gputop.checking.check import Wanted, check
from gputop.checking.policy import site
from gputop.checking.rules import RULES
from gputop.commands.check.text import lines
from gputop.commands.options import (
    completing,
    gpus_option,
    json_option,
    measuring_options,
    say_problems,
    source_options,
)
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.terminal.clean import clean
from gputop.terminal.lines import print_json, say
from gputop.terminal.size import terminal_width

if TYPE_CHECKING:
    from gputop.checking.answer import Answer

_RECORDED = "nothing measured: a recording is only read"


@click.command("check")
@source_options
@json_option
@click.option("--list", "listing", is_flag=True, help="List the checks and exit.")
@click.option("--quick", is_flag=True, help="Read only: no load on the GPUs, takes under a second.")
@click.option("--full", is_flag=True, help="Measure everything at every size; takes minutes.")
@gpus_option("Check")
@measuring_options
@click.option(
    "--expect",
    metavar="SHAPE",
    shell_complete=completing("references"),
    help="Compare with a reference node (dgx-h100, aws-p5.48xlarge, ...) or with the snapshot "
    "of a healthy node.",
)
@click.option(
    "--since",
    metavar="FILE",
    shell_complete=completing("files"),
    help="Earlier snapshot: report how much error counters have grown since then.",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="ID[=REASON]",
    shell_complete=completing("rules"),
    help="Silence a check; it stays listed, as silenced. May be repeated.",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Policy file; by default /etc/gputop/check.toml and check.toml in your configuration "
    "folder.",
)
@click.option(
    "--junit",
    metavar="FILE",
    shell_complete=completing("files"),
    help="Also write a JUnit file, one test case per check.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show evidence, impact and what to do.")
@click.pass_context
def command(
    context: click.Context,
    sources: tuple[str, ...],
    demo: str | None,
    as_json: bool,
    listing: bool,
    quick: bool,
    full: bool,
    gpus: str | None,
    force: bool,
    python: str | None,
    expect: str | None,
    since: str | None,
    ignored: tuple[str, ...],
    config: Path | None,
    junit: str | None,
    verbose: bool,
) -> None:
    """Check the node: what is wrong, the proof, and one verdict.

    Idle GPUs are measured for some seconds, unless --quick. Exit codes: 0 healthy, 1 slow,
    2 broken, 3 cannot tell.
    """
    if listing:
        from gputop.commands.check.list import print_list

        print_list(RULES, as_json=as_json)
        return
    recorded = bool(sources or demo)
    if quick and full:
        raise Exit("use --quick or --full, not both", USAGE)
    if recorded and (full or force or python):
        raise Exit("a recording cannot be measured: leave out --full, --force and --python", USAGE)
    if quick and (force or python):
        raise Exit("--quick does not measure: leave out --force and --python", USAGE)
    if expect == "":
        # An empty value is often an unset variable of a script; it must not expect nothing.
        raise Exit("--expect needs a name", USAGE)
    started = time.monotonic()
    decided = site(config, ignored, RULES)
    wanted = Wanted(
        sources=sources,
        demo=demo,
        since=since,
        # A demo is not a node of the site.
        expect=expect or ("" if demo else decided.expect),
        gpus=gpus,
        mode="quick" if quick or recorded else "full" if full else "default",
        force=force,
        python=python,
        policy=decided.policy,
        files=decided.files,
        notes=(
            *decided.notes,
            *((_RECORDED,) if recorded and not quick else ()),
        ),
    )
    code = CANNOT_TELL
    # The reader of our text may go (`| head -1`); the exit code still counts.
    with suppress(BrokenPipeError):
        answer = check(wanted, started)
        code = answer.exit_code
        if junit is not None:
            from gputop.commands.check.junit import write

            write(answer, RULES, junit)
        _print(answer, as_json=as_json, verbose=verbose)
    context.exit(code)


def _print(answer: Answer, *, as_json: bool, verbose: bool) -> None:
    """Print the verdict on stdout and further notes on stderr."""
    say_problems(answer.node)
    for note in answer.assumptions:
        say(f"note: {note}")
    if as_json:
        from gputop.commands.check.document import document

        print_json(document(answer))
        return
    for line in lines(
        answer.diagnosis,
        terminal_width(),
        verbose=verbose,
        measured=answer.probes,
        simulated=answer.node.simulated,
    ):
        click.echo(clean(line, 4000))
    if answer.exit_code and not verbose:
        say("--verbose shows evidence, impact and what to do")
