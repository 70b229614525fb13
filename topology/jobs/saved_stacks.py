"""Stacks that somebody kept: what `py-spy dump --pid PID` printed of processes, in files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..model.english import plural
from ..model.severity import JobVerdict
from ..recorded.check_file import CheckFileError, unpacked
from ..recorded.plain_file import as_utf8
from .flight.files import beside, listed, octets
from .stacks import MOST_RANKS, ODD, TOOL, RankStack, StackGroup, frames_of, grouped, in_words
from .standing import JobState

MOST_BYTES = 1 << 20
"""Of one file: a dump of one process takes some KiB."""
_PROCESS = re.compile(r"^Process (\d{1,10}): ", re.MULTILINE)
_BEGIN = re.compile(rb"\s{0,64}Process \d{1,10}: .{0,65536}\n(?:Python v\d|\s{0,8}Thread )")
ONE_MOMENT = (
    "whether anybody waits: a stack is of one moment; a second dump shows who stays where it was"
)


def named(sources: Iterable[str]) -> tuple[tuple[RankStack, ...], tuple[str, ...]]:
    """The stacks in files and folders of such dumps, and all other sources.

    Of a folder with dumps the other files right in it are others, each for itself. Of a process
    that was dumped twice the last one counts.
    """
    stacks: dict[int, RankStack] = {}
    others: list[str] = []
    for source in sources:
        inside = [source]
        if source and Path(source).is_dir():
            inside = listed(source)[0]
        found = {path: told for path in inside if (told := _of_file(path))}
        for told in found.values():
            stacks.update((one.pid, one) for one in told)
        others += beside(inside, [*found]) if found else [source]
    return tuple(stacks.values())[:MOST_RANKS], tuple(others)


def _of_file(path: str) -> list[RankStack]:
    """The stacks in a file that begins as such a dump does; [] for any other."""
    try:
        data = octets(path, MOST_BYTES, follow=True)[0] if path else b""
        text = as_utf8(unpacked(data, MOST_BYTES))
    except (OSError, ValueError, CheckFileError):
        return []
    return list(stacks_in(text.decode("utf-8", "replace"))) if _BEGIN.match(text) else []


def stacks_in(text: str) -> Iterator[RankStack]:
    """Of each process its main thread; the rank of a process stands in no dump."""
    for part in re.split(r"(?m)^(?=Process \d{1,10}: )", text):
        match = _PROCESS.match(part)
        if match is not None:
            pid = int(match[1])
            frames = frames_of(part, pid)
            yield RankStack(rank=None, pid=pid, frames=frames, trouble=None if frames else ODD)


def by_job(
    stacks: Sequence[RankStack], jobs: Sequence[JobState]
) -> tuple[list[tuple[StackGroup, ...]], tuple[RankStack, ...]]:
    """Of each job the stacks of its processes, grouped, and those of no job."""
    groups: list[tuple[StackGroup, ...]] = []
    left = {one.pid: one for one in stacks}
    for job in jobs:
        own: list[RankStack] = []
        for rank in job.ranks:
            pid = rank.pid if rank.elsewhere is None else rank.elsewhere[1]
            if pid is not None and (one := left.pop(pid, None)) is not None:
                own.append(
                    RankStack(rank=rank.rank, pid=pid, frames=one.frames, trouble=one.trouble)
                )
        groups.append(grouped(own))
    return groups, tuple(left.values())


def state_of(stacks: Sequence[RankStack]) -> JobState:
    """Where processes are of which nothing else is known; their ranks stand in no dump."""
    groups = grouped(stacks)
    count = plural(len(stacks), "process", "processes")
    where = "" if len(groups) == 1 else f" in {len(groups)} places"
    said = f"{count}{where}; {in_words(groups[0])}"
    return JobState(
        name=TOOL,
        program=TOOL,
        sentence=f"{TOOL}: {said}",
        verdict=JobVerdict.UNKNOWN,
        ranks=(),
        unknown=(ONE_MOMENT,),
    )
