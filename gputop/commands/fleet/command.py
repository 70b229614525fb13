"""`gputop fleet`: a folder of many nodes' results, or one of the subcommands."""

from __future__ import annotations

from importlib import import_module

import click

from gputop.commands.examples import WithExamples
from gputop.exits import USAGE, Exit
from gputop.terminal.clean import clean

SUBCOMMANDS = ("plan",)
"""Modules of this folder with a `subcommand`. A folder of such a name is written ./plan."""
FOLDER: str | None = "folder"
"""The module here whose `subcommand` takes a folder: `gputop fleet DIR`; None for none."""
_ANY = "DIR"


class FleetGroup(WithExamples, click.Group):
    """Subcommands by name; whatever else comes first belongs to the command for a folder."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the folder's command in front of what is no subcommand."""
        names = (*SUBCOMMANDS, *ctx.help_option_names)
        if FOLDER is not None and (not args or args[0] not in names):
            args = [_ANY, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The subcommands."""
        return list(SUBCOMMANDS)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options of the command for a folder, too."""
        if (command := self.get_command(ctx, _ANY)) is not None:
            command.format_options(click.Context(command, parent=ctx), formatter)
        self.format_commands(ctx, formatter)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; None when there is none."""
        module = FOLDER if cmd_name == _ANY else cmd_name
        if module is None or module not in (FOLDER, *SUBCOMMANDS):
            return None
        found = import_module(f"gputop.commands.fleet.{module}").subcommand
        return found if isinstance(found, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one ends in one line."""
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            there = ", ".join(SUBCOMMANDS)
            raise Exit(f"no command {clean(args[0], 60)!r}; there are: {there}", USAGE)
        return super().resolve_command(ctx, args)


@click.group("fleet", cls=FleetGroup)
def command() -> None:
    """Judge many nodes: `gputop fleet DIR`, or plan which pairs of them to measure next.

    DIR holds what the nodes wrote with `gputop check -o DIR/%n.json.gz`.
    """
