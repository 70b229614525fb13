"""`gputop fleet DIR`: many nodes' checks as one answer, or as the app on a terminal."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from gputop.answers.fleet import FLEET, FleetRequest, no_folder
from gputop.commands.asking import command_of
from gputop.exits import USAGE, Exit
from gputop.session import on_terminal
from gputop.terminal.lines import warn

NO_FOLDER = (
    "fleet needs DIR, where each node wrote `gputop check -o`; `gputop fleet --demo` shows a "
    "made-up cluster"
)


def _carry_out_demo(asked: FleetRequest) -> int:
    made_up = import_module("gputop.commands.fleet.made_up")
    with TemporaryDirectory(prefix="gputop-") as place:
        folder = Path(place, "demo")
        leaves, nodes = str(made_up.make_fleet(folder)), made_up.ASKED
        return carry_out(
            replace(asked, demo=False, folder=str(folder), nodes=nodes, topology=leaves)
        )


def carry_out(asked: FleetRequest) -> int:
    """Open the app where nothing else is asked for; else print the answer. Raises Exit."""
    if asked.demo:
        return _carry_out_demo(asked)
    if not asked.folder:
        raise Exit(NO_FOLDER, USAGE)
    plain = asked.as_json or asked.as_text or asked.verbose or asked.junit or asked.since
    if not plain and on_terminal():
        return _open(asked)
    code = FLEET.ask(asked)
    if code and not (asked.verbose or asked.as_json):
        warn("--verbose shows evidence, impact and what to do")
    return code


def _open(asked: FleetRequest) -> int:
    expected, fabric = asked.expected(), asked.fabric()
    try:
        with os.scandir(asked.folder):
            pass
    except (OSError, ValueError) as error:
        raise no_folder(asked.folder, error) from error
    # Text has to answer without the libraries of the app.
    code: int = import_module("gputop.fleet_session").open_fleet(asked.folder, expected, fabric)
    return code


subcommand = command_of(replace(FLEET, carry_out=carry_out))
for parameter in subcommand.params:
    if parameter.name == "folder":
        parameter.metavar = ""  # the group has written DIR
