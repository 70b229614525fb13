"""The first picture: the GPUs as Node shows them, drawn before Textual is imported.

To import Textual and to lay out its first screen takes a quarter of a second. Its own first picture
then takes the place of this one, cell for cell the same where this one has something.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from gputop.live.recent import Recent
from gputop.screens import NAMES
from gputop.screens.node.gpu_lines import caption, rows_of, table
from gputop.screens.node.head import loads_of, undecided_line, use_line, use_of, verdict_line
from gputop.screens.node.identity import identity_lines
from gputop.terminal.inks import EarlyInks
from gputop.terminal.size import HIGHEST, TINY_BELOW, WIDEST
from gputop.widgets.spans import Line, cut, text_of, width_of
from gputop.widgets.status import source_line, tabs

if TYPE_CHECKING:
    from gputop.terminal.early_screen import EarlyScreen
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.sources.feed import OpeningFeed

WAIT_SECONDS = 0.25
"""For a driver that takes longer there is no early picture: Textual is imported meanwhile."""
TABLE_SHARE = 0.6
"""The most of the body that the table takes, as themes/gputop.tcss says."""
BARS = 2
"""Lines above and below the body."""


class PictureLine(NamedTuple):
    """A line of the picture."""

    line: Line
    ground: str = "background"


def show(feed: OpeningFeed, screen: EarlyScreen, theme: str = "") -> None:
    """Draw as soon as the feed knows all GPUs and their figures, if that is soon.

    `theme`: the one that the app will wear; nothing is drawn where its colours are not at hand.
    """
    inks = EarlyInks.of_terminal(theme)
    if inks is None:
        return
    end = time.monotonic() + WAIT_SECONDS
    while True:
        snapshot = feed.snapshot()
        if _complete(snapshot):
            columns, lines = shutil.get_terminal_size()
            drawn = picture(snapshot, columns, lines, inks)
            if drawn:
                screen.draw(drawn)
            return
        left = end - time.monotonic()
        if left <= 0 or feed.opened():
            return
        feed.wait(left)


def _complete(snapshot: NodeSnapshot) -> bool:
    """Whether every GPU has figures."""
    read = {reading.address for reading in snapshot.readings.gpus}
    return bool(read) and read == {gpu.address for gpu in snapshot.machine.gpus}


def rows(snapshot: NodeSnapshot, columns: int, lines: int) -> tuple[PictureLine, ...]:
    """Everything above the links: the tabs, the machine, the GPUs with the first one selected."""
    names = tabs(NAMES, NAMES[0], columns)
    told = source_line(snapshot, columns - width_of(names))
    blank = columns - width_of(names) - width_of(told)
    recent = Recent()
    recent.add(snapshot)
    gpus = rows_of(snapshot, recent=recent)
    title = text_of(cut(((caption(gpus), ""),), columns - 2))
    use = use_of(snapshot, loads_of(snapshot))
    verdict, _ = verdict_line(None, snapshot.machine, columns)
    gpus = (replace(gpus[0], selected=True), *gpus[1:])
    room = int((lines - BARS) * TABLE_SHARE) - 1
    # The scroll bar takes a column.
    width = columns - (1 + len(gpus) > room)
    head, first, *others = table(gpus, width, slice(room))[:room]
    rest = width - width_of(first)
    return (
        PictureLine((*names, (" " * blank, ""), *told) if blank >= 0 else names, "surface"),
        PictureLine(verdict),
        PictureLine(use_line(use, snapshot, columns)),
        PictureLine(undecided_line(snapshot.machine)),
        *(PictureLine(line) for line in identity_lines(snapshot, columns, 1)),
        PictureLine((("─", "rule"), (title, "muted"), ("─" * (columns - 1 - len(title)), "rule"))),
        PictureLine(head),
        PictureLine((*first, (" " * rest, "")), "cursor"),
        *(PictureLine(line) for line in others),
    )


def picture(snapshot: NodeSnapshot, columns: int, lines: int, inks: EarlyInks) -> str:
    """What draws these rows on an empty screen; "" where there is no room for any."""
    if not (TINY_BELOW[0] <= columns <= WIDEST and TINY_BELOW[1] <= lines <= HIGHEST):
        return ""
    return "".join(_drawn(rows(snapshot, columns, lines)[: lines - 1], lines, inks))


def _drawn(found: tuple[PictureLine, ...], lines: int, inks: EarlyInks) -> Iterator[str]:
    rows = (*found, *[PictureLine(())] * (lines - len(found) - 1), PictureLine((), "surface"))
    for place, row in enumerate(rows, start=1):
        # Erasing fills the row with the colour of its ground.
        ground = "background" if row.ground == "cursor" else row.ground
        yield f"\x1b[{place}H{inks.erased(ground, 'K')}"
        for text, ink in row.line:
            yield inks.text(text, ink, row.ground)
