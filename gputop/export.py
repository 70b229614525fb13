"""Writes what is on screen to the current folder."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gputop.topology.snapshot import NodeSnapshot


def export(
    picture: str, snapshot: NodeSnapshot | None, screen: str, folder: Path
) -> tuple[Path, ...]:
    """Write a picture (SVG) and the snapshot (JSON) side by side; existing files stay as they are.

    Raises OSError.
    """
    host = snapshot.machine.host if snapshot is not None else None
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", (host.hostname or "" if host else ""))[:40].strip("-.")
    stem = "-".join(
        part for part in ("gputop", name, screen, time.strftime("%Y%m%d-%H%M%S")) if part
    )
    written = [_write(folder / f"{stem}.svg", picture.encode("utf-8", "replace"))]
    if snapshot is not None:
        from gputop.topology.snapshot import encode

        written.append(_write(folder / f"{stem}.json", encode(snapshot)))
    return tuple(written)


def _write(path: Path, data: bytes) -> Path:
    with path.open("xb") as file:
        file.write(data)
    return path
