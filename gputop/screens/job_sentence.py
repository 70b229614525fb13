"""The sentence about the job that is worst off, on one line: of Node, and of Jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.live.worst_jobs import told, wrong
from gputop.terminal.clean import clean
from gputop.topology.model.page import SIMULATED
from gputop.widgets.spans import Line, width_of, words_of

if TYPE_CHECKING:
    from gputop.topology.jobs.asking import JobsReport


def headline(answer: JobsReport | None, *, every: bool = False, width: int = 0) -> Line | None:
    """Sentence, how many more are wrong, and its source; None where nothing is wrong with any.

    `every`: of a job that runs, or of which nothing is known, too; `width`: of the place that holds
    it alone, in which a longer one is said with rank and price first, and cut at a word.
    """
    found = wrong(answer) or (told(answer)[:1] if every else [])
    if not found:
        return None
    worst = found[0]
    sign, ink, _ = worst.verdict.shown
    more = f" · {len(found) - 1} more" if len(found) > 1 else ""
    mark = f" · {SIMULATED}" if worst.simulated else ""
    text = f"{sign} {clean(worst.sentence, 1000)}"
    if width and width_of(((text + more + mark, ""),)) > width:
        room = width - width_of(((more + mark, ""),))
        text = words_of(f"{sign} {clean(worst.brief or worst.sentence, 1000)}", room)
    return ((text, f"{ink} bold"), (more, "muted"), (mark, "muted"))
