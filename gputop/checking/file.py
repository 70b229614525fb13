"""The file of a check or of a pair, `-o`: one JSON document, there whole or not at all."""

from __future__ import annotations

import gzip
import os
import time
import zlib
from pathlib import Path
from typing import Any

import msgspec

from gputop.checking.origin import file_name
from gputop.exits import Exit
from gputop.terminal.clean import clean
from gputop.terminal.writing import code_of, write_whole
from gputop.topology.fleet.section import NodeOrigin
from gputop.topology.model.characters import harmless, json_text

# Two machines that take themselves for the same node: neither may overwrite the other's file.
#
# The file there is another machine's where it was written while this machine was up and tells of
# another boot (/proc/sys/kernel/random/boot_id): a machine has one boot at a time. Then this one's
# file gets a name beside it, so that `gputop fleet` sees both.
SAME_RUN_SECONDS = 1800.0
"""An older file is of an earlier run, perhaps of the machine that had the name before."""
_MOST_BYTES = 8 * 1024 * 1024
_MOST_NAMESAKES = 9


class _Section(msgspec.Struct):
    boot_id: str | None = None


class _Check(msgspec.Struct):
    fleet: _Section | None = None


def apart(path: Path, boot_id: str | None) -> Path:
    """The path, or "g7~2.json.gz" beside "g7.json.gz" where that is another machine's.

    `boot_id`: this machine's, as its own file has it; where it is unknown, nothing is proven.
    """
    if boot_id is None:
        return path
    up_since = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    stem, dot, suffixes = path.name.partition(".json")
    if not dot:
        stem, suffixes = path.stem, path.suffix
    for number in range(1, _MOST_NAMESAKES + 1):
        place = path if number == 1 else path.with_name(f"{stem}~{number}{dot}{suffixes}")
        if not _other_machine(place, boot_id, up_since):
            return place
    return path


def _other_machine(path: Path, boot_id: str, up_since: float) -> bool:
    """Whether a machine of another boot wrote this file while this machine was up."""
    try:
        status = path.lstat()
        age = time.time() - status.st_mtime
        if age > SAME_RUN_SECONDS or status.st_mtime <= up_since or status.st_size > _MOST_BYTES:
            return False
        with (gzip.open if path.name.endswith(".gz") else open)(path, "rb") as file:
            found = msgspec.json.decode(file.read(_MOST_BYTES), type=_Check).fleet
    except (OSError, EOFError, ValueError, zlib.error):
        return False
    return found is not None and found.boot_id not in (None, boot_id)


def target(pattern: str, origin: NodeOrigin, boot_id: str | None = None) -> Path:
    """The path of the file; with %n never that of another machine (`boot_id`: this one's).

    Raises Exit for a pattern that names none.
    """
    path = Path(file_name(pattern, origin))
    # Not of pathlib, which fails where this user may not look.
    if not path.name or os.path.isdir(path):
        raise Exit(f"-o {clean(pattern, 200)}: that is a folder; add %n.json.gz", 64)
    return apart(path, boot_id) if "%n" in pattern else path


def write(path: Path, document: str) -> None:
    """Write the document, packed where the name ends in .gz; raises Exit where that fails.

    The folder is made where it is missing, the folder above it never: a share that is not mounted
    would otherwise become a folder of this node.
    """
    text = harmless(document).encode()
    # Without name and time equal answers are equal files.
    data = gzip.compress(text, mtime=0) if path.name.endswith(".gz") else text
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(exist_ok=True)
        write_whole(path, data, shared=True, durable=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Exit(f"-o {clean(path, 200)}: not written: {why}", code_of(error)) from error


def packed(document: dict[str, Any] | msgspec.Struct, path: Path) -> str:
    """The document as text: on one line where it is packed, else indented for people."""
    if path.name.endswith(".gz"):
        return harmless(msgspec.json.encode(document).decode(errors="replace")) + "\n"
    return json_text(document) + "\n"
