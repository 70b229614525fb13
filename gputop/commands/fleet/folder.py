"""`gputop fleet DIR`: many nodes' checks as one answer."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module

import click

from gputop.commands.fleet.document import document
from gputop.commands.fleet.fabric import fabric_of_option
from gputop.commands.fleet.junit import write
from gputop.commands.fleet.nodes import hosts_of
from gputop.commands.fleet.text import lines
from gputop.commands.options import completing, json_option
from gputop.exits import USAGE, Exit
from gputop.session import on_terminal
from gputop.terminal.clean import clean
from gputop.terminal.lines import print_json, warn
from gputop.terminal.size import terminal_width
from gputop.topology.fleet.fleet import Fleet
from gputop.topology.fleet.merging.growing import read_fleet
from gputop.topology.fleet.planning.fabric import SwitchFabric
from gputop.topology.fleet.since import changed


@click.command("DIR")
@click.argument("folder", metavar="", shell_complete=completing("files"))
@click.option(
    "--nodes",
    metavar="LIST",
    help="Nodes that should be there, such as g[1-16]: one that wrote nothing is missing.",
)
@json_option
@click.option(
    "--text", "as_text", is_flag=True, help="Print text on a terminal too, instead of the app."
)
@click.option(
    "--topology",
    metavar="FILE",
    shell_complete=completing("files"),
    help="Leaf switches, to judge results of pairs, as `gputop fleet plan` takes them.",
)
@click.option(
    "--junit",
    metavar="FILE",
    shell_complete=completing("files"),
    help="Also write a JUnit file, one test case per node.",
)
@click.option(
    "--since",
    metavar="DIR",
    shell_complete=completing("files"),
    help="Earlier folder: say what came and what has gone since.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show evidence, and node by node.")
@click.pass_context
def subcommand(
    context: click.Context,
    folder: str,
    nodes: str | None,
    as_json: bool,
    as_text: bool,
    topology: str | None,
    junit: str | None,
    since: str | None,
    verbose: bool,
) -> None:
    """Merge what the nodes of DIR wrote with `gputop check -o`: who is odd, broken, missing.

    Exit codes: 0 all healthy, 1 slow or odd, 2 broken or missing, 3 cannot tell.
    """
    expected = hosts_of(nodes)
    if not (as_json or as_text or verbose or junit or since) and on_terminal():
        context.exit(_open(folder, expected, fabric_of_option(topology, lambda: expected)))
    fabric = fabric_of_option(topology, lambda: expected)
    fleet = _read(folder, expected, fabric)
    change = None if since is None else changed(_read(since, expected, fabric), fleet)
    code = fleet.verdict.exit_code
    with suppress(BrokenPipeError):
        if junit is not None:
            write(fleet, junit)
        if as_json:
            print_json(document(fleet, code, change))
        else:
            for line in lines(fleet, terminal_width(), verbose=verbose, change=change):
                click.echo(clean(line, 140_000))
            if code and not verbose:
                warn("--verbose shows evidence, impact and what to do")
    context.exit(code)


def _open(folder: str, expected: tuple[str, ...], fabric: SwitchFabric) -> int:
    """Open the app."""
    try:
        with os.scandir(folder):
            pass
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Exit(f"{clean(folder, 200)}: {clean(why, 200)}", USAGE) from error
    # Text has to answer without the libraries of the app.
    code: int = import_module("gputop.fleet_session").open_fleet(folder, expected, fabric)
    return code


def _read(folder: str, expected: tuple[str, ...], fabric: SwitchFabric) -> Fleet:
    try:
        return read_fleet(folder, expected, fabric=fabric)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Exit(f"{clean(folder, 200)}: {clean(why, 200)}", USAGE) from error
