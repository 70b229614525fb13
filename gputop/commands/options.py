"""Options that several commands share, and the problems of a node that was read."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from gputop.answers.question import problem_lines
from gputop.exits import USAGE, Exit
from gputop.reading import LIST_DEMOS
from gputop.terminal.lines import warn
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.sessions import AT

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]


def completing(what: str) -> Completer:
    """What a shell offers for a value: a function of `completing.py`, imported when one asks."""

    def complete(
        context: click.Context, _: click.Parameter, typed: str
    ) -> list[CompletionItem[str]]:
        found = getattr(import_module("gputop.commands.completing"), what)(context, typed)
        return list(found)

    return complete


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --from, --at and --demo; the time stands behind the name of each source then."""
    command = at_option(_with_times(command))
    command = click.option(
        "--from",
        "sources",
        multiple=True,
        metavar="SOURCE",
        shell_complete=completing("files"),
        help="Read this instead of this machine: a snapshot, what nvidia-smi and the like print, a "
        "topology XML, a folder of these, or - for stdin. May be repeated.",
    )(command)
    return demo_option(command)


def at_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --at."""
    return click.option(
        "--at",
        metavar="TIME",
        help="A recording at that time: 21:14:03, 2026-11-28T21:14:03, +90s from its start, -5m "
        "from its end. Otherwise its end.",
    )(command)


def _with_times(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def timed(*args: Any, at: str | None = None, **given: Any) -> Any:
        if at is not None:
            sources = given["sources"]
            if not at or not sources or "-" in sources:
                raise Exit("--at TIME needs --from FILE: a recording in a file", USAGE)
            given["sources"] = tuple(f"{source}{AT}{at}" for source in sources)
        return command(*args, **given)

    return timed


def demo_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --demo."""
    return click.option(
        "--demo",
        is_flag=False,
        flag_value=LIST_DEMOS,
        default=None,
        metavar="[SHAPE]",
        shell_complete=completing("demos"),
        help="Use a built-in demo node; without a name, list them.",
    )(command)


def gpus_option(what: str) -> Callable[..., Any]:
    """Add --gpus; `what` is done to these GPUs only, as a verb."""
    return click.option(
        "--gpus",
        metavar="LIST",
        shell_complete=completing("gpus"),
        help=f"{what} these GPUs only: driver indices (0,2 or 0-3), PCI addresses or UUIDs.",
    )


def measuring_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --force and --python, for what may put load on GPUs."""
    command = click.option(
        "--python",
        "python",
        metavar="PATH",
        shell_complete=completing("files"),
        help="Python interpreter whose torch does the measuring.",
    )(command)
    return click.option("--force", is_flag=True, help="Measure busy GPUs too.")(command)


def set_option(name: str, text: str) -> Callable[..., Any]:
    """Add --set as the parameter `name`; `text` is its help, without the full stop."""
    return click.option(
        "--set",
        name,
        multiple=True,
        metavar="NAME=VALUE",
        shell_complete=completing("settings"),
        help=f"{text}. May be repeated.",
    )


def library_option(probes: str = "") -> Callable[..., Any]:
    """Add --nccl-lib; `probes`: those that it is for, where a command has others."""
    what = f"{probes}: the" if probes else "The"
    return click.option(
        "--nccl-lib",
        "nccl_lib",
        metavar="FILE",
        shell_complete=completing("files"),
        help=f"{what} libnccl to load; torch for the one of --python's torch, by torch.",
    )


def deadline_option(least: float, text: str, usual: float | None = None) -> Callable[..., Any]:
    """Add --deadline: from `least` seconds to a day, `usual` where it is not given."""
    return click.option(
        "--deadline",
        type=Seconds(least, 86400),
        default=usual,
        show_default=usual is not None,
        metavar="SECONDS",
        help=text,
    )


class Seconds(click.FloatRange):
    """A number of seconds in a range; no nan."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Refuse what compares with nothing."""
        found: float = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail("is no number of seconds", param, ctx)
        return found


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document on stdout."
    )(command)


def say_problems(snapshot: NodeSnapshot) -> None:
    """Print on stderr what could not be read; a reason of several sources appears once."""
    for line in problem_lines(snapshot):
        warn(line)
