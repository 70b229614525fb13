"""The files in which nodes meet, beside the one that the user names."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from gputop.exits import USAGE, Exit
from gputop.terminal.clean import clean


def checked(named: str) -> Path:
    """The whole path of --meet; raises Exit where nothing can be put beside it."""
    path = Path(os.path.abspath(named))
    if not named or named.endswith("/") or os.path.isdir(path):
        raise Exit("--meet names a file; the nodes meet in files beside it", USAGE)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise Exit(f"--meet: nothing can be written in {clean(path.parent, 200)}", USAGE)
    return path


def clear(path: Path, node: int) -> None:
    """Take away what this node left there; what is no file stays."""
    mine = f"{path.name}.{node}"
    with contextlib.suppress(OSError):
        for name in os.listdir(path.parent):
            if name == mine or name.startswith(f"{mine}-"):
                with contextlib.suppress(OSError):
                    found = path.parent / name
                    if stat.S_ISREG(found.lstat().st_mode):
                        found.unlink()
