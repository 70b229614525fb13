"""All that the file of one node says: findings with their proof, and the snapshot if it has one."""

from __future__ import annotations

import msgspec

from gputop.topology.fleet.reading import read_bytes
from gputop.topology.fleet.record import one_line
from gputop.topology.model.finding import Finding
from gputop.topology.model.snapshot import NodeSnapshot, SnapshotError, decode
from gputop.topology.sources.believed import believed

MOST_FINDINGS = 500


class WholeNode(msgspec.Struct, frozen=True, kw_only=True):
    """The file of a node, as far as one looks at the node alone."""

    findings: tuple[Finding, ...] = ()
    """As its own check gave them, notices too."""
    snapshot: NodeSnapshot | None = None
    """None where --snapshot was not asked for, or where it cannot be read; see `why`."""
    why: str = ""
    """Why there is no snapshot, as a clause."""


class _Fleet(msgspec.Struct):
    snapshot: msgspec.Raw = msgspec.Raw(b"null")


class _Document(msgspec.Struct):
    findings: list[msgspec.Raw] = []
    fleet: _Fleet | None = None


def read_whole(folder: str, name: str) -> WholeNode:
    """Read the file of a node, `name` below the folder.

    Raises ValueError with a clause for one that cannot be used.
    """
    data = read_bytes(folder, name)
    try:
        found = msgspec.json.decode(data, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is not a valid document: {one_line(error, 160)}") from error
    raw = bytes(found.fleet.snapshot if found.fleet is not None else b"null")
    snapshot, why = None, "its file holds no snapshot"
    if raw != b"null":
        try:
            snapshot, why = believed(decode(raw)), ""
        except SnapshotError as error:
            why = f"its snapshot cannot be read: {one_line(error, 160)}"
    return WholeNode(findings=tuple(_findings(found.findings)), snapshot=snapshot, why=why)


def _findings(rows: list[msgspec.Raw]) -> list[Finding]:
    """Those that are sound; another version of gputop may write others."""
    found = []
    for row in rows[:MOST_FINDINGS]:
        try:
            found.append(Finding.read(row))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return found
