"""JUnit files: the text that XML can hold, and the file itself."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as Xml

from gputop.exits import Exit
from gputop.terminal.clean import clean, clean_block
from gputop.terminal.writing import code_of, write_whole

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, even escaped."""


def xml_text(value: str) -> str:
    """A text for a document, without what XML cannot hold."""
    return _NOT_XML.sub("\ufffd", clean_block(value, 20_000))


def save(root: Xml.Element, path: str) -> None:
    """Write the file of --junit; raises Exit when that fails."""
    Xml.indent(root)
    data: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    try:
        write_whole(Path(path), data + b"\n", shared=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Exit(f"--junit {clean(path, 200)}: {why}", code_of(error)) from error
