"""Reads the node that the user names (files, a demo or this machine) once, as a snapshot."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gputop import __version__
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.terminal.clean import clean
from gputop.topology.model.gathered import gathered
from gputop.topology.model.snapshot import NodeSnapshot

if TYPE_CHECKING:
    from gputop.topology.jobs.asking import JobsReport
    from gputop.topology.model.part import PartialNode
    from gputop.topology.recorded.load import LoadedSnapshot
    from gputop.topology.sources.live import LiveFeed

SETTLE_SECONDS = 10.0
"""How long a plain command waits for sources that do not answer. Far past their deadlines: a
driver without persistence mode takes seconds to wake eight GPUs."""
_TICK_SECONDS = 0.003
TURN_SECONDS = 0.0001
LIST_DEMOS = "?"
_LISTING = "gputop --demo"
NAMED_FOLDERS, MOST_FOLDERS = 4, 16
"""Folders in a folder that are named where it holds nothing itself, and that are looked into."""
NAMED = 20
"""How many skipped files are named for one reason; a folder may hold thousands."""


def check_sources(sources: tuple[str, ...], demo: str | None) -> None:
    """Refuse --from with --demo, and a demo that there is not."""
    if sources and demo:
        raise Exit("use --from or --demo, not both", USAGE)
    if demo is None:
        return
    from gputop.topology.recorded.demos import demo as demos

    if demo == LIST_DEMOS:
        raise Exit(f"--demo needs a name here; `{_LISTING}` lists them", USAGE)
    if demo not in demos.names():
        from gputop.terminal.nearest import instead

        known = demos.names()
        raise Exit(f"no demo {clean(demo, 60)!r}{instead(demo, known, _LISTING)}", USAGE)


def list_demos() -> None:
    """Print the demos, with what each is and what of it no source confirms."""
    import click

    from gputop.topology.recorded.demos import demo as demos

    for name in demos.names():
        click.echo(f"{name:<16} {demos.title(name)}")
        doubt = demos.unconfirmed(name)
        if doubt:
            click.echo(f"{'':<16} {doubt}")


def read_snapshot(
    sources: tuple[str, ...],
    demo: str | None,
    *,
    with_args: bool = False,
    seconds: float = SETTLE_SECONDS,
    wiring: bool = False,
) -> NodeSnapshot:
    """The snapshot that the options name: files, a demo, or this machine.

    `seconds`: how long the sources of this machine are waited for. `wiring`: of this machine only
    how devices are connected, which the driver tells three times as fast.
    """
    check_sources(sources, demo)
    if sources:
        return load_snapshot(sources)
    if demo:
        from gputop.topology.recorded import feeds

        return _doubted(feeds.DemoFeed(demo, version=__version__).at(0), demo)
    from gputop.topology.sources import WIRING, load
    from gputop.topology.sources import live as watch

    asked = map(load, WIRING) if wiring else None
    with short_turns():
        feed = watch.LiveFeed(
            asked, version=__version__, with_args=with_args, thorough=True, wiring=wiring
        )
        return settle(feed, seconds)


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads take short turns meanwhile.

    One that asks a driver gives its turn away at each of some 200 calls, and gets it back when
    another one, which imports or computes, has had its own: of 5 ms by default.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, TURN_SECONDS))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _doubted(snapshot: NodeSnapshot, demo: str) -> NodeSnapshot:
    """A demo's snapshot that says what no source confirms about its kind of node."""
    from gputop.topology.recorded.demos.demo import unconfirmed

    doubt = unconfirmed(demo)
    if not doubt:
        return snapshot
    return msgspec.structs.replace(
        snapshot, assumptions=(*snapshot.assumptions, f"{demo}: {doubt}")
    )


def settle(feed: LiveFeed, seconds: float = SETTLE_SECONDS) -> NodeSnapshot:
    """Wait until all sources answered, so many seconds at most, and close the feed."""
    try:
        deadline = time.monotonic() + seconds
        # What arrives meanwhile is merged once, at the end.
        while not feed.settled() and time.monotonic() < deadline:
            time.sleep(_TICK_SECONDS)
        return feed.snapshot()
    finally:
        feed.close()


def _read_log(data: bytes, name: str, alone: bool) -> PartialNode | None:
    from gputop.topology.diagnosis.symptoms.part import part_of_log

    return part_of_log(data, name, alone)


class Recording(msgspec.Struct, frozen=True):
    """What files say of a node, and of the jobs on it."""

    snapshot: NodeSnapshot
    skipped: tuple[tuple[str, str], ...] = ()
    """Files that were passed over, and why."""
    remarks: tuple[tuple[str, str], ...] = ()
    """Files of which a part was, and why."""
    jobs: JobsReport | None = None
    """Where jobs stand, by what was kept of them beside; None where nothing was. The snapshot has
    the same as findings."""


def load_files(
    sources: tuple[str, ...], stdin: bytes = b"", *, stdin_name: str = "stdin"
) -> Recording:
    """Read files; the answer names those that are skipped. "-" is `stdin`. Raises Exit."""
    from gputop.topology.recorded import load

    try:
        loaded = load.load(
            sources,
            version=__version__,
            stdin=stdin,
            logs=_read_log,
            stdin_name=stdin_name,
            jobs=True,
        )
        return _with_jobs(loaded) if loaded.of_jobs else Recording(loaded.snapshot, loaded.skipped)
    except load.LoadError as error:
        hint = "" if error.unreadable else below(sources)
        raise Exit(f"{error}{hint}", USAGE if error.unreadable else CANNOT_TELL) from error


def below(sources: Sequence[str]) -> str:
    """Which folders right in these can be read, each for itself; "" where none can."""
    found = _readable(sources)
    if not found:
        return ""
    named = ", ".join(clean(path, 200) for path in found[:NAMED_FOLDERS])
    more = " and more" if len(found) > NAMED_FOLDERS else ""
    return f"; one at a time can be read: {named}{more}"


def _readable(sources: Sequence[str]) -> list[str]:
    """The folders right in these that can be read; looks until it knows more than it names."""
    from gputop.topology.model.budget import Budget
    from gputop.topology.recorded import load

    found: list[str] = []
    budget = Budget("node")
    for source in sources:
        for folder in _folders(source):
            if len(found) > NAMED_FOLDERS or budget.over:
                return found
            with suppress(load.LoadError):
                load.load((folder,), jobs=True)
                found.append(folder)
    return found


def _folders(source: str) -> list[str]:
    try:
        with os.scandir(source) as entries:
            names = [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    except (OSError, ValueError):  # no folder, or no name of one
        return []
    return [os.path.join(source, name) for name in sorted(names)[:MOST_FOLDERS]]


def _with_jobs(loaded: LoadedSnapshot) -> Recording:
    """The node with a finding for each job of which something was kept beside it.

    Raises LoadError where nothing that tells of jobs can be read, and there is no node.
    """
    from gputop.topology.jobs.finding import ASK_FILES, finding_of
    from gputop.topology.jobs.from_files import material_in

    node = loaded.snapshot
    found = material_in([path for path, _ in loaded.of_jobs])
    refused = tuple((Path(path).name, why) for path, why in found.refused)
    if not found.told:
        path, error = loaded.of_jobs[0]
        if not node.taken_at:
            raise type(error)(": ".join(found.refused[0])) if found.refused else error
        unread = () if refused else ((Path(path).name, str(error).removeprefix(f"{path}: ")),)
        return Recording(node, (*loaded.skipped, *refused, *unread))
    here = node if node.taken_at else None
    report = found.report(here)
    told = tuple(finding_of(job, ASK_FILES) for job in report.jobs if job.told_by_itself)
    titles = {finding.title for finding in told}
    kept = (one for one in node.symptoms if one.title not in titles)
    node = msgspec.structs.replace(node, symptoms=(*kept, *told))
    return Recording(node, loaded.skipped, refused, report)


def load_snapshot(sources: tuple[str, ...]) -> NodeSnapshot:
    """Read files; those that are skipped are named on stderr."""
    return recording(sources).snapshot


def recording(sources: tuple[str, ...]) -> Recording:
    """The same with what the files say of jobs."""
    from gputop.topology.recorded import load

    if "" in sources:
        # An unset variable of a script would otherwise mean the current folder.
        raise Exit("--from needs a file or folder", USAGE)
    if sources.count(load.STDIN) > 1:
        raise Exit("--from: stdin can be read once only", USAGE)
    text = sys.stdin.buffer.read(load.MOST_BYTES + 1) if load.STDIN in sources else b""
    loaded = load_files(sources, text)
    _say_skipped(loaded)
    return loaded


def _say_skipped(loaded: Recording) -> None:
    """Name the files that were passed over, and what of others was, on stderr."""
    if not (loaded.skipped or loaded.remarks):
        return
    from gputop.terminal.lines import warn

    for name, why in loaded.remarks[:NAMED]:
        warn(f"{clean(name, 80)}: {clean(why, 300)}")
    by_reason = gathered((why, clean(name, 80)) for name, why in loaded.skipped)
    for why, names in by_reason.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        warn(f"passed over, {clean(why, 300)}: {', '.join(names[:NAMED])}{more}", 4000)
