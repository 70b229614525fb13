"""`gputop mcp`: the same answers for agents."""

from __future__ import annotations

import os
import sys

import click

from gputop.agents.told import skill as text_of_skill
from gputop.commands.examples import WithExamples
from gputop.commands.options import completing
from gputop.exits import USAGE, Exit
from gputop.terminal.clean import clean

_WAITS = "gputop mcp answers an agent's client, which starts it; it reads stdin now (Ctrl+D ends)"


@click.command("mcp", cls=WithExamples)
@click.option("--redact", is_flag=True, help="Replace names of hosts, users, paths and addresses.")
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="DIR",
    shell_complete=completing("files"),
    help="Let tools open files below this folder alone. May be repeated.",
)
@click.option("--skill", is_flag=True, help="Print when to use which tool, and exit.")
def command(redact: bool, roots: tuple[str, ...], skill: bool) -> None:
    """Answer agents over stdin and stdout (Model Context Protocol); started by the agent's client.

    Tools: node, topology, explain, what_if, which, check, read_text, jobs, figures, compare and
    next_measurement. All read only; `check` measures where the agent asks for that, idle GPUs
    alone.
    """
    if skill:
        click.echo(text_of_skill(), nl=False)
        return
    for root in roots:
        if not os.path.isdir(root):
            raise Exit(f"--root {clean(root, 200)}: no such folder", USAGE)
    from gputop.agents import serving  # --skill does without

    if sys.stdin.isatty():
        click.echo(_WAITS, err=True)
    serving.run(redact=redact, roots=roots)
