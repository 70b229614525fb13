"""`gputop replay`: the app on a recording, what is in it, and its exports."""

from __future__ import annotations

import click

from gputop.answers.replay import export, opened, page, told
from gputop.commands.examples import WithExamples
from gputop.commands.options import completing, json_option
from gputop.exits import ANSWERED, USAGE, Exit
from gputop.printing.render import printed
from gputop.session import on_terminal, open_app
from gputop.terminal.lines import print_json, warn
from gputop.terminal.output import print_lines
from gputop.terminal.size import terminal_width
from gputop.topology.recorded.sessions.feed import ReplayFeed


@click.command("replay", cls=WithExamples)
@click.argument("file", shell_complete=completing("files"))
@click.option("--at", metavar="TIME", help="Begin there, and stand still.")
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 1000),
    default=1.0,
    show_default=True,
    metavar="FACTOR",
    help="Play so many times as fast.",
)
@click.option("--list", "listed", is_flag=True, help="Print what happened, as in a pipe.")
@click.option(
    "--export",
    "exported",
    metavar="FILE",
    help="Write FILE.csv, a line for each GPU and reading, or FILE.json for Perfetto.",
)
@json_option
def command(
    file: str,
    at: str | None,
    speed: float,
    listed: bool,
    exported: str | None,
    as_json: bool,
) -> int:
    """Play a recording back in the app, with a time bar; in a pipe, print what happened.

    FILE is what `gputop record -o FILE` wrote. Other commands read it by --from FILE --at TIME.
    """
    if exported and as_json:
        raise Exit("use --export or --json, not both", USAGE)
    with opened(file) as session:
        if exported:
            export(session, exported)
            warn(f"wrote {exported}")
            return ANSWERED
        if as_json or listed or not on_terminal():
            found = told(session)
            if as_json:
                print_json(found.document())
            else:
                print_lines(printed(page(found).blocks, terminal_width()))
            return ANSWERED
        for sentence in session.remarks():
            warn(sentence)
        start = None if at is None else session.when(at)
        return open_app(feed=ReplayFeed(session, at=start, speed=speed))
