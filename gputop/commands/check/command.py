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
from gputop.commands.options import completing, json_option, say_problems, source_options
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.terminal.clean import clean
from gputop.terminal.lines import print_json, say
from gputop.terminal.size import terminal_width

if TYPE_CHECKING:
    from gputop.checking.answer import Answer

_RECORDED = "nothing was measured: a recording is read, as with --quick"


@click.command("check")
@source_options
@json_option
@click.option("--list", "listing", is_flag=True, help="Say what is looked for, rule by rule.")
@click.option("--quick", is_flag=True, help="Read only: no load on any GPU, under a second.")
@click.option("--full", is_flag=True, help="Measure everything, at every size: minutes.")
@click.option(
    "--gpus",
    metavar="LIST",
    shell_complete=completing("gpus"),
    help="Indices of nvidia-smi or amd-smi, addresses or UUIDs.",
)
@click.option("--force", is_flag=True, help="Measure GPUs that are in use too.")
@click.option(
    "--python",
    "python",
    metavar="PATH",
    shell_complete=completing("files"),
    help="Measure with the torch of this Python.",
)
@click.option(
    "--expect",
    metavar="SHAPE",
    shell_complete=completing("references"),
    help="Hold the node against a reference node (dgx-h100, aws-p5.48xlarge, ...) or the snapshot "
    "of a healthy one.",
)
@click.option(
    "--since",
    metavar="FILE",
    shell_complete=completing("files"),
    help="An earlier snapshot: what its counters added since.",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="ID[=REASON]",
    shell_complete=completing("rules"),
    help="Silence a rule; it is shown as silenced. May be repeated.",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Site policy; else /etc/gputop/check.toml and check.toml of your configuration folder.",
)
@click.option(
    "--junit",
    metavar="FILE",
    shell_complete=completing("files"),
    help="Write a JUnit file too, one test case a rule.",
)
@click.option("-v", "--verbose", is_flag=True, help="With evidence, consequence and what to do.")
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
    """Say what is wrong with this node, each with its proof, and give a verdict.

    Without --quick the idle GPUs are measured for some seconds. Exit codes: 0 healthy, 1 slow,
    2 broken, 3 cannot tell.
    """
    if listing:
        from gputop.commands.check.list import print_list

        print_list(RULES, as_json=as_json)
        return
    recorded = bool(sources or demo)
    if quick and full:
        raise Exit("--quick and --full exclude each other", USAGE)
    if recorded and (full or force or python):
        raise Exit("--full, --force and --python measure; a recording cannot be measured", USAGE)
    if quick and (force or python):
        raise Exit("--force and --python are for measuring; --quick does not", USAGE)
    if expect == "":
        # An empty value is often an unset variable of a script; it must not expect nothing.
        raise Exit("--expect: no name of a node is given", USAGE)
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
    for line in lines(answer.diagnosis, terminal_width(), verbose=verbose, measured=answer.probes):
        click.echo(clean(line, 4000))
    if answer.exit_code and not verbose:
        say("--verbose says what was read, what follows, and what to do")
