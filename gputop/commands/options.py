"""Options that every command shares, and what they lead to: a snapshot."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from gputop import __version__
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.terminal.clean import clean
from gputop.topology.model.snapshot import NodeSnapshot

if TYPE_CHECKING:
    from gputop.topology.sources.live import LiveFeed

SETTLE_SECONDS = 10.0
"""How long a plain command waits for sources that do not answer. Far past their deadlines: a
driver without persistence mode takes seconds to wake eight GPUs."""

LIST_DEMOS = "?"
NAMED = 20
"""So many files that were passed over are named for one reason; a folder may hold thousands."""


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --from and --demo."""
    command = click.option(
        "--from",
        "sources",
        multiple=True,
        metavar="SOURCE",
        help="Read a snapshot, nvml.json, `nvidia-smi -q -x`, `nvidia-smi topo -m`, a topology XML "
        "of NCCL or RCCL, a sysfs tree or tar, or a folder of these, instead of this machine. May "
        "be repeated.",
    )(command)
    return click.option(
        "--demo",
        is_flag=False,
        flag_value=LIST_DEMOS,
        default=None,
        metavar="[SHAPE]",
        help="Use an embedded reference node; alone, list them.",
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document on stdout."
    )(command)


def say(text: str) -> None:
    """One line for people, on stderr, without control characters."""
    click.echo(clean(text, 600), err=True)


def check_sources(sources: tuple[str, ...], demo: str | None) -> None:
    """Refuse --from with --demo; list the demos and leave when --demo stands alone."""
    if sources and demo:
        raise Exit("--from and --demo exclude each other", USAGE)
    if demo is None:
        return
    from gputop.topology.recorded.demos import demo as demos

    if demo == LIST_DEMOS:
        for name in demos.names():
            click.echo(f"{name:<16} {demos.title(name)}")
        raise click.exceptions.Exit(0)
    if demo not in demos.names():
        raise Exit(f"no demo {demo!r}; there are: {', '.join(demos.names())}", USAGE)


def read_snapshot(
    sources: tuple[str, ...], demo: str | None, *, with_args: bool = False
) -> NodeSnapshot:
    """The snapshot that the options name: files, a demo, or this machine."""
    check_sources(sources, demo)
    if sources:
        return load_snapshot(sources)
    from gputop.topology.recorded import feeds
    from gputop.topology.sources import live as watch

    if demo:
        return feeds.DemoFeed(demo, version=__version__).at(0)
    return settle(watch.LiveFeed(version=__version__, with_args=with_args, thorough=True))


def settle(feed: LiveFeed) -> NodeSnapshot:
    """Wait until all sources answered, at most SETTLE_SECONDS, and close the feed."""
    try:
        deadline = time.monotonic() + SETTLE_SECONDS
        while not feed.settled() and time.monotonic() < deadline:
            feed.wait(0.05)
            feed.snapshot()
        return feed.snapshot()
    finally:
        feed.close()


def load_snapshot(sources: tuple[str, ...]) -> NodeSnapshot:
    """Read files; what was passed over is named on stderr."""
    from gputop.topology.recorded import load

    if "" in sources:
        # A script's variable that nobody set would otherwise mean the current folder.
        raise Exit("--from: no file or folder is named", USAGE)
    try:
        loaded = load.load(sources, version=__version__)
    except load.LoadError as error:
        raise Exit(str(error), USAGE if error.unreadable else CANNOT_TELL) from error
    by_reason: dict[str, list[str]] = {}
    for name, why in loaded.skipped:
        by_reason.setdefault(why, []).append(clean(name, 80))
    for why, names in by_reason.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        click.echo(f"passed over, {clean(why, 300)}: {', '.join(names[:NAMED])}{more}", err=True)
    return loaded.snapshot


def print_json(document: object) -> None:
    """One document on stdout, indented."""
    data = document if isinstance(document, bytes) else msgspec.json.encode(document)
    click.echo(msgspec.json.format(data, indent=2).decode())


def tell_problems(snapshot: NodeSnapshot) -> None:
    """What could not be read, on stderr; a reason that several sources give is said once."""
    by_text: dict[str, list[str]] = {}
    for problem in snapshot.problems:
        by_text.setdefault(problem.text, []).append(problem.source)
    for text, names in by_text.items():
        say(f"{', '.join(names)}: {text}")


def text_width(widest: int | None = None) -> int:
    """Columns for text on stdout: the terminal's, at most `widest`; 80 where it is none."""
    columns = terminal_width()
    if columns is None:
        return 80
    return columns if widest is None else min(columns, widest)


def terminal_width() -> int | None:
    """Columns of the terminal on stdout; None where it is none."""
    # stdout is None when the caller closed it.
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size((80, 24)).columns
