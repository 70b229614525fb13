"""Reads what a check examines: the node, an earlier reading of it, and the expectation."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.measuring.selection import SelectionError, select
from gputop.reading import SETTLE_SECONDS, load_snapshot, read_snapshot
from gputop.terminal.clean import clean
from gputop.terminal.nearest import instead
from gputop.topology.expectation.reference import (
    Reference,
    UnknownReferenceError,
    every_name,
    named,
    of_snapshot,
)
from gputop.topology.model.snapshot import NodeSnapshot


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """The readings that a check examines."""

    node: NodeSnapshot
    earlier: NodeSnapshot | None = None
    gpus: tuple[str, ...] = ()
    """PCI addresses of --gpus; () without it."""
    reference: Reference | None = None
    """What the node is held against."""
    notes: tuple[str, ...] = ()
    """What was left out, with the reason."""


def examined(
    sources: tuple[str, ...],
    demo: str | None,
    since: str | None,
    until: float | None = None,
    *,
    given: NodeSnapshot | None = None,
    gpus: str | None = None,
    expect: str = "",
    jobs: bool = False,
) -> Examined:
    """Read what the options name; `until`: when measuring is to be over, by the monotonic clock.

    `given`: the node, where it is read already. `jobs`: also ask where the jobs on it stand.

    When several --from files are snapshots of one node, the last one is the node and the first one
    the earlier reading. Raises Exit for files that cannot be used.
    """
    held_against = reference(expect) if expect else None
    earlier = None
    if given is not None:
        node = given
    elif since is None and (moments := _moments(sources)) is not None:
        earlier, node = moments
    else:
        node = read_snapshot(sources, demo, seconds=_patience(until))
    if since is not None:
        earlier = load_snapshot((since,))
        _check_since(since, earlier, node)
    notes: list[str] = []
    if earlier is not None and _booted_between(earlier, node):
        notes.append(
            "the earlier reading is from before a reboot, which set counters back: not compared"
        )
        earlier = None
    if jobs:
        from gputop.checking.jobs import with_jobs  # a check alone does without

        node = with_jobs(node, demo)
    return Examined(
        node=node,
        earlier=earlier,
        gpus=_selected(gpus, node),
        reference=held_against,
        notes=tuple(notes),
    )


def _patience(until: float | None) -> float:
    """How long the sources are waited for: at most half of what is left until measuring ends."""
    if until is None:
        return SETTLE_SECONDS
    return min(SETTLE_SECONDS, max(0.2, (until - time.monotonic()) / 2))


def _of_recording(source: str) -> tuple[NodeSnapshot, NodeSnapshot] | None:
    """How a recording begins, and the node at its end or where --at says; None for other files."""
    from gputop.topology.recorded.sessions.frames import RecordingError
    from gputop.topology.recorded.sessions.session_file import recorded_node

    try:
        then, now = (recorded_node(Path(source), first=first) for first in (True, False))
    except (OSError, ValueError, RecordingError):
        return None  # reported when it is read as a node
    return None if then is None or now is None or then is now else (then, now)


def _moments(sources: tuple[str, ...]) -> tuple[NodeSnapshot, NodeSnapshot] | None:
    """The first and the last snapshot, if all are of one node, or a recording's."""
    if len(sources) == 1:
        return _of_recording(sources[0])
    if len(sources) < 2 or not all(map(_is_file, sources)):
        return None
    from gputop.topology.recorded.load import LoadError, load

    try:
        found = [load([source]).snapshot for source in sources]
    except LoadError:
        return None  # reported when all files are read together
    # A GPU may be lost in between; the UUIDs of the others still identify the node.
    same = set.intersection(*({gpu for gpu in _identity(snapshot) if gpu[1]} for snapshot in found))
    if not same:
        return None
    if len({snapshot.taken_at for snapshot in found}) != len(found):
        return None
    found.sort(key=lambda snapshot: snapshot.taken_at)
    return found[0], found[-1]


def _identity(snapshot: NodeSnapshot) -> tuple[tuple[str, str | None], ...]:
    return tuple((gpu.address, gpu.uuid) for gpu in snapshot.machine.gpus)


def _check_since(name: str, earlier: NodeSnapshot, node: NodeSnapshot) -> None:
    shown = clean(name, 200)
    if earlier.taken_at >= node.taken_at:
        raise Exit(f"--since {shown}: it is not earlier than what is examined", USAGE)
    if node.machine.gpus and not set(_identity(earlier)) & set(_identity(node)):
        raise Exit(f"--since {shown}: a reading of other GPUs than these", CANNOT_TELL)


def _booted_between(earlier: NodeSnapshot, node: NodeSnapshot) -> bool:
    boots = [
        None if snapshot.machine.host is None else snapshot.machine.host.boot_id
        for snapshot in (earlier, node)
    ]
    return None not in boots and boots[0] != boots[1]


def reference(expect: str) -> Reference:
    """The expectation: a reference node, or the snapshot in a file. Raises Exit.

    The name of a reference node comes before a file of the same name.
    """
    if "/" not in expect:
        try:
            return named(expect)
        except UnknownReferenceError as error:
            if not _is_file(expect):
                hint = instead(expect, every_name(), cutoff=0.5)
                raise Exit(f"--expect: {clean(error, 300)}{hint}", USAGE) from error
    snapshot = load_snapshot((expect,))
    if not snapshot.machine.gpus:
        raise Exit(f"{clean(expect, 200)}: a node without a GPU, to expect", CANNOT_TELL)
    return of_snapshot(snapshot, clean(Path(expect).name, 80))


def _selected(gpus: str | None, node: NodeSnapshot) -> tuple[str, ...]:
    """PCI addresses of --gpus, () without it. Raises Exit."""
    if gpus is None:
        return ()
    try:
        return select(gpus, node.machine)
    except SelectionError as error:
        raise Exit(str(error), USAGE if node.machine.gpus else CANNOT_TELL) from error


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:
        return False  # longer than any file name
