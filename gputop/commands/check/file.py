"""The file of a check or of a pair, `-o`: one JSON document, there whole or not at all."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import msgspec

from gputop.checking.origin import file_name
from gputop.commands.check.namesake import apart
from gputop.exits import Exit
from gputop.terminal.clean import clean
from gputop.terminal.writing import code_of, write_whole
from gputop.topology.fleet.section import NodeOrigin
from gputop.topology.model.characters import harmless, json_text


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
