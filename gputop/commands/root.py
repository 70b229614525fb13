"""The command `gputop`: opens the app or runs a subcommand."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click

from gputop import __version__
from gputop.answers import QUESTIONS
from gputop.commands import MODULES, NAMES, SUMMARIES
from gputop.commands.examples import WithExamples
from gputop.commands.options import say_problems, source_options
from gputop.exits import USAGE, Exit
from gputop.reading import LIST_DEMOS, check_sources, list_demos, read_snapshot, recording
from gputop.terminal.clean import clean
from gputop.terminal.lines import warn
from gputop.terminal.nearest import instead
from gputop.terminal.output import print_lines
from gputop.terminal.size import terminal_width
from gputop.topology.plugins import PLUGINS

if TYPE_CHECKING:
    from gputop.answers.question import AnyQuestion

COMMANDS = (*QUESTIONS, *NAMES)
"""The words of each on the command line."""


class LazyGroup(WithExamples, click.Group):
    """Imports the module of a subcommand only to run it or to show its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the registry; those of plugins come last."""
        return [*COMMANDS, *(question.name for question in _plugged())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; None when there is none."""
        if cmd_name in QUESTIONS:
            from gputop.commands.asking import load  # other commands print without the renderer

            return load(cmd_name)
        module = dict(zip(NAMES, MODULES, strict=True)).get(cmd_name)
        if module is None:
            return next((_command_of(one) for one in _plugged() if one.name == cmd_name), None)
        found = import_module(f"gputop.commands.{module}").command
        return found if isinstance(found, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, of one word or two; an unknown one ends in what is like it."""
        name = args[0]
        if " ".join(args[:2]) in COMMANDS and len(args) > 1:
            name = " ".join(args[:2])
            return name, self.get_command(ctx, name), args[2:]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            raise Exit(f"no command {clean(name, 60)!r}{instead(name, COMMANDS)}", USAGE)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with the summaries from the registry."""
        with formatter.section("Commands"):
            summaries = (*QUESTIONS.values(), *SUMMARIES.values())
            rows = list(zip(COMMANDS, summaries, strict=True))
            formatter.write_dl([*rows, *_summaries()])


def _plugged() -> tuple[AnyQuestion, ...]:
    from gputop.answers.plugged import plugged  # a known command asks no plugin

    PLUGINS.hear(warn)
    return plugged()


def _summaries() -> list[tuple[str, str]]:
    from gputop.answers.plugged import summary_of

    return [(question.name, summary_of(question)) for question in _plugged()]


def _command_of(question: AnyQuestion) -> click.Command:
    from gputop.commands.asking import command_of

    return command_of(question)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@source_options
@click.option(
    "--interval",
    type=click.FloatRange(0.2, 3600),
    default=None,
    metavar="SECONDS",
    help="Seconds between two readings: 1, or 2 on a node of very many GPUs, if not given.",
)
@click.option("-1", "--once", is_flag=True, help="Print the first lines of Node once, and end.")
@click.version_option(
    __version__, "-V", "--version", prog_name="gputop", message="%(prog)s %(version)s"
)
@click.pass_context
def root(
    context: click.Context,
    sources: tuple[str, ...],
    demo: str | None,
    interval: float | None,
    once: bool,
) -> int:
    """Show what a GPU node has, how its parts are connected and how fast they are.

    Without a command, the app opens. Commands that read a node take --json.
    """
    PLUGINS.hear(warn)
    if context.invoked_subcommand is not None:
        _hand_on(context, context.invoked_subcommand)
        return 0
    if demo == LIST_DEMOS and not sources:
        list_demos()
        return 0
    check_sources(sources, demo)
    if once:
        _print_once(sources, demo)
        return 0
    from gputop.session import open_app, take_terminal  # no other command needs it

    told = recording(sources) if sources else None
    if "-" in sources:
        take_terminal()
    return open_app(told, demo, interval)


def _print_once(sources: tuple[str, ...], demo: str | None) -> None:
    from gputop.once import WIDTH, first_lines  # the app has it drawn by its screens

    told = recording(sources) if sources else None
    snapshot = read_snapshot((), demo) if told is None else told.snapshot
    say_problems(snapshot)
    jobs = None if told is None else told.jobs
    print_lines(first_lines(snapshot, terminal_width() or WIDTH, jobs))


def _hand_on(context: click.Context, name: str) -> None:
    """Let the command have what stands in front of it, as if it stood behind. Raises Exit."""
    command = root.get_command(context, name)
    takes = {parameter.name for parameter in command.params} if command is not None else set()
    given = {key: value for key, value in context.params.items() if value}
    for key in given:
        if key not in takes:
            option = next(each.opts[-1] for each in root.params if each.name == key)
            raise Exit(f"{name} takes no {option}", USAGE)
    context.default_map = {name: given}
