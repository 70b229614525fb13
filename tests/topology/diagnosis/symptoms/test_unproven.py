"""What a text does not prove is not claimed: what somebody tells of, and what cut lines may say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pytest
from _pytest.mark import ParameterSet

from gputop.topology.diagnosis.symptoms.explain import _look, table
from gputop.topology.diagnosis.symptoms.log import ReadLog
from gputop.topology.diagnosis.symptoms.unproven import FROM_START, TOLD
from gputop.topology.model.severity import BROKEN, NOTICE, SLOW, Sureness
from tests.grid import share
from tests.support.places import RECORDINGS
from tests.topology.diagnosis.symptoms.test_unmarked_text import read

HEADS = ("NCCL WARN", "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus")
LINES = sorted(
    {
        *HEADS,
        *chain.from_iterable(row.shown for row in table() if row.any and row.severity == BROKEN),
        "CUDA error: out of memory",
        "Watchdog caught collective operation timeout",
    }
)
"""What programs print where something broke, as the tables quote it."""
SENTENCES = (
    "Last week we saw `{}` on two of our nodes.",
    "We used to get {} until we reseated the card.",
    "the fix for `{}` was a newer firmware",
    "Once I had a host that said {}; it went away.",
    "- Fix {} where a rank starts late",
    "* [net] Handle `{}` and try again",
    "- **{}**: another process uses the GPU, end it",
    "If you see `{}`, make the batch smaller.",
    "## {}",
    "| `{}` | ask the owner of the node |",
)
SOURCE = (
    'raise RuntimeError("{}")',
    '>       raise RuntimeError("{}")',
    '  812      raise torch.OutOfMemoryError("{}")',
    '+    raise RuntimeError("{}")',
    '-    print("{}")',
    '    logger.error("{}")',
    '    assert ready, "{}"',
    '    "{}",',
    '        fprintf(stderr, "{}");',
    '  1013            WARN("{}");',
    'if dmesg | grep -q "{}"; then',
    '  echo "{}"',
    '  *"{}"*) exit 1 ;;',
    'if "{}" in str(error):',
    "// {}",
    '#define TEXT "{}"',
)


def plain(line: str) -> str:
    """The line with signs that end a string or a span taken out."""
    return line.replace('"', "").replace("`", "").replace("*", "")


def _framed(frames: Sequence[str]) -> list[ParameterSet]:
    """Every run puts each line into one frame; the marker `grid` takes every pair."""
    parts = [(frame, LINES[place :: len(frames)]) for place, frame in enumerate(frames)]
    named = [pytest.param(*part, id=part[0]) for part in parts]
    whole = [pytest.param(one, LINES, id=f"{one} all", marks=pytest.mark.grid) for one in frames]
    return named + whole


@pytest.mark.parametrize(("frame", "lines"), _framed(SENTENCES))
def test_a_sentence_that_names_failures_accuses_nothing(frame: str, lines: list[str]) -> None:
    answer = read("\n".join(frame.format(plain(line)) for line in lines))
    assert [one for one in answer.findings if one.severity in (BROKEN, SLOW)] == []
    assert any(TOLD in one.title for one in answer.findings)


@pytest.mark.parametrize("frame", SOURCE)
def test_source_that_holds_failures_is_no_output(frame: str) -> None:
    answer = read("\n".join(frame.format(plain(line)) for line in LINES))
    assert [one.title for one in answer.findings] == []
    assert answer.unexplained == ()


@pytest.mark.parametrize("head", ["", "> ", "    ", "[rank3]: ", "2026-01-02 03:04:05 ERROR "])
def test_the_line_itself_is_explained(head: str) -> None:
    answer = read(f"{head}RuntimeError: CUDA error: out of memory")
    assert [one.severity for one in answer.findings] == [BROKEN]


LOGS = {
    path.name: path.read_text().splitlines()
    for folder in ("nccl-logs", "real-faults", "rccl-logs")
    for path in sorted((RECORDINGS / folder).glob("*.*"))
    if path.suffix in (".txt", ".log") and path.name != "README.md"
}
PLACES = 20
SHARE = 18
"""The gate takes every 18th log; the marker `grid` takes all."""


def stated(answer: ReadLog) -> set[str]:
    """What an answer claims to be a fault."""
    return {
        one.id
        for one in answer.findings
        if one.severity in (BROKEN, SLOW) and one.sureness != Sureness.POSSIBLE
    }


@pytest.mark.parametrize("name", share(LOGS, SHARE))
def test_a_log_that_is_cut_is_accused_of_nothing_more(name: str) -> None:
    """What lines prove stays proven; no more follows from lines that are not there.

    Rows whose cause is cut away may show, for their own lines are in the whole log too.
    """
    lines = LOGS[name]
    whole = read("\n".join(lines))
    may = stated(whole) | {row.id for row in table() if _look(row, whole.log)}
    for place in range(1, PLACES + 1):
        at = place * len(lines) // (PLACES + 1)
        for part in (lines[at:], lines[:at]):
            assert stated(read("\n".join(part))) <= may, at


def test_a_cut_head_takes_the_reason_away_and_leaves_what_was_seen() -> None:
    seen = next(row for row in table() if row.id == "net-inside-host").shown
    (whole,) = read("\n".join(seen)).findings
    (cut,) = read("\n".join(seen[1:])).findings
    assert (whole.severity, cut.severity) == (SLOW, NOTICE)
    assert cut.title == whole.title
    assert FROM_START in cut.fix[0].text


POST = """\
> [12345.678] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.
> node1:11:11 [0] NCCL WARN Cuda failure 2 'out of memory'
> RuntimeError: CUDA error: out of memory
"""


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("On Mon, 2 Nov 2026, somebody wrote:\n", "\nUpdate the firmware.\n"),
        ("", "\nI had this too; mine was the riser.\n"),
        ("@someone\n", "\nDid you look at dmesg?\n"),
        ("", "\nSame here. We fixed it with another cable.\n"),
    ],
)
def test_a_quotation_of_another_s_post_accuses_nothing(before: str, behind: str) -> None:
    answer = read(f"{before}{POST}{behind}")
    assert [one.id for one in answer.findings if one.severity in (BROKEN, SLOW)] == []


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("", ""),
        ("This is what I get:\n", "\nAny idea? I tried a reboot already.\n"),
        ("", "\nWhat is wrong here?\n"),
    ],
)
def test_a_quoted_output_of_one_s_own_counts(before: str, behind: str) -> None:
    answer = read(f"{before}{POST}{behind}")
    assert {one.id for one in answer.findings if one.severity is BROKEN} >= {"xid-bus"}
