"""Writes what is on screen to the current folder."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gputop.terminal.writing import write_whole

if TYPE_CHECKING:
    from gputop.topology.model.snapshot import NodeSnapshot


def export(
    picture: str, snapshot: NodeSnapshot | None, screen: str, folder: Path
) -> tuple[Path, ...]:
    """Write a picture (SVG) and the snapshot (JSON) side by side; existing files stay as they are.

    Raises OSError, and ValueError for a snapshot that JSON cannot hold.
    """
    host = snapshot.machine.host if snapshot is not None else None
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", (host.hostname or "" if host else ""))[:40].strip("-.")
    stem = "-".join(
        part for part in ("gputop", name, screen, time.strftime("%Y%m%d-%H%M%S")) if part
    )
    contents = {".svg": picture.encode("utf-8", "replace")}
    if snapshot is not None:
        from gputop.topology.model.snapshot import encode

        contents[".json"] = encode(snapshot)
    written: list[Path] = []
    try:
        for suffix, data in contents.items():
            path = folder / f"{stem}{suffix}"
            write_whole(path, data, fresh=True)
            written.append(path)
    except (OSError, ValueError):
        # A picture without its snapshot is half an export.
        for path in written:
            path.unlink(missing_ok=True)
        raise
    return tuple(written)
