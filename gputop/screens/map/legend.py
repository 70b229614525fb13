"""The last line under the map: what the words and figures on its lines mean."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gputop.screens.map.facts import DOT
from gputop.widgets.spans import Line

if TYPE_CHECKING:
    from gputop.topology.sketch.drawing import Drawing

HINT: Line = (
    DOT,
    ("Space", "key bold @screen.mark"),
    (" marks a device, select another to see the way", "muted"),
)
_BUNDLE = re.compile(r"\b(NV|xGMI )(\d+)\b")
_LINKS = {"NV": "NVLink", "xGMI ": "link"}


def legend(drawing: Drawing) -> Line:
    """What the words and figures on the lines mean, each by an example that is drawn here."""
    labels = [label.text for line in drawing.lines for label in line.labels]
    most: dict[str, int] = {}
    for found in filter(None, map(_BUNDLE.search, labels)):
        most[found[1]] = max(most.get(found[1], 0), int(found[2]))
    words = ["  lines: GB/s payload, one way"]
    words += [
        f"{kind}{count} = {count} {_LINKS[kind]}{'s' * (count != 1)}"
        for kind, count in sorted(most.items(), reverse=True)
    ]
    spans: list[tuple[str, str]] = []
    for word in (*words, "! = fewer than possible"):
        spans += [DOT] if spans else []
        spans.append((word, "muted"))
    return tuple(spans)
