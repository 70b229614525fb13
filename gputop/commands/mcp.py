"""`gputop mcp`: the same answers for agents."""

from __future__ import annotations

from importlib.util import find_spec

import click

from gputop import DISTRIBUTION
from gputop.agents.told import skill as text_of_skill
from gputop.commands.examples import WithExamples
from gputop.exits import CANNOT_TELL, Exit

_PACKAGE = "mcp"


@click.command("mcp", cls=WithExamples)
@click.option("--redact", is_flag=True, help="Replace names of hosts, users, paths and addresses.")
@click.option("--skill", is_flag=True, help="Print when to use which tool, and exit.")
def command(redact: bool, skill: bool) -> None:
    """Answer agents over stdin and stdout (Model Context Protocol); started by the agent's client.

    Tools: node, topology, explain, what_if, check, read_text, jobs, figures, compare and
    next_measurement. All read only; `check` measures where the agent asks for that, idle GPUs
    alone. Needs the package mcp: pip install "gputopo[mcp]".
    """
    if skill:
        click.echo(text_of_skill(), nl=False)
        return
    if find_spec(_PACKAGE) is None:
        needed = f'pip install "{DISTRIBUTION}[{_PACKAGE}]"'
        raise Exit(f"the package {_PACKAGE} is not installed: {needed}", CANNOT_TELL)
    from gputop.agents import serving  # there is nothing of it without the package

    serving.run(redact=redact)
