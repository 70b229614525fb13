"""The lines of docs/fleet.md that start gputop on every node, as they stand there."""

from __future__ import annotations

import re

from tests.support.places import ROOT

DOCUMENT = ROOT / "docs" / "fleet.md"
_LINE = re.compile(r"^<!-- launcher: ([\w -]+) -->\n```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def launchers(text: str) -> dict[str, str]:
    """The commands of a document by the launcher that is named above them."""
    return dict(_LINE.findall(text))


def documented() -> dict[str, str]:
    """Those of the manual."""
    return launchers(DOCUMENT.read_text(encoding="utf-8"))
