"""What saved answers of RAS say of a job: nothing about this machine, and nothing of this moment.

Answers of one job in one text are compared with each other, in their order.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from ..model.budget import Budget
from ..model.copied import at_another
from ..model.english import plural
from ..model.machine import Machine
from ..model.severity import JobVerdict
from ..recorded.check_file import CheckFileError, unpacked
from ..recorded.formats.ncclras import TOOL
from ..recorded.kept import FAR, KEPT_BYTES, KeptText
from ..recorded.pasted import PastedSection, read_pasted, text_formats
from ..recorded.plain_file import as_utf8, read_plain
from .conclude import of_ras
from .flight.files import beside, listed
from .ras import answer, text
from .ras.answer import MissingRank, RasAnswer, RasError, RasRank
from .ras.client import RasReply
from .ras.comparing import CommunicatorState, communicator_states
from .ras.homes import told_apart
from .ras.memory import quiet, remember
from .ras.places import RasPlace
from .standing import JobEvidence, JobState

SAVED = "RAS as saved"
ITS_NODE = "on its node"
ONE_LOOK = (
    "whether the job went on: only a second answer would show it, a later one by its time or counts"
)
MOST_BYTES = 16 * 2**20
MOST_ANSWERS = 256
"""Of one text."""
MOST_SAVED = 4096
"""Of all: from here on no further text is read."""
MOST_COMMUNICATORS = 65_536
"""Of all answers of a text, and of all texts: a line may stand for thousands of them."""

LARGE = f"an answer of RAS in more than {MOST_BYTES >> 20} MiB of JSON, which is not read"
CUT = f"{FAR}, and {MOST_BYTES >> 20} MiB of JSON by `gputop jobs --from FILE`"
"""Why JSON in a long text ends too early, and what reads more of it."""
MORE = f"more than {MOST_ANSWERS} answers of RAS, which is gputop's limit"
MANY = f"more than {MOST_COMMUNICATORS:,} communicators of RAS, which is gputop's limit"

_JSON = re.compile(rb'\s{0,64}\{\s{0,64}"nccl_version"')
_VERSION = re.compile(r"(?:NCCL|RCCL) version \S+ compiled with ")
_PARTS = (_VERSION, re.compile(r"Communicators\.\.\. \("), re.compile(r"Group +Comms +Nodes"))
"""Lines that one answer has once."""


class SavedAnswer(msgspec.Struct, frozen=True):
    """One answer and where it stands."""

    answer: RasAnswer
    where: str
    """ "ras.txt, lines 3-40"."""
    first: int
    """Number of its first line in the text."""
    lines: tuple[str, ...]


class SavedRas(msgspec.Struct, frozen=True):
    """All answers of some texts."""

    answers: tuple[SavedAnswer, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    """Where one begins that cannot be read, and why."""


def in_sections(name: str, sections: Iterable[PastedSection]) -> SavedRas:
    """The answers among the outputs of tools in a text."""
    found: list[SavedAnswer] = []
    refused: list[tuple[str, str]] = []
    left = MOST_COMMUNICATORS
    for section in sections:
        if section.tool != TOOL:
            continue
        for first, lines in _split(section):
            where = f"{name}, {PastedSection(TOOL, first, lines).where}"
            for told in _read("\n".join(lines)):
                if isinstance(told, RasError):
                    why = f"no answer of RAS that can be read: {told}"
                    size = sum(map(len, lines)) + len(lines)
                    refused.append((where, f"{why}; {CUT}" if size > KEPT_BYTES // 2 else why))
                    continue
                left -= len(told.communicators)
                if len(found) == MOST_ANSWERS or left < 0:
                    why = MANY if left < 0 else MORE
                    refused.append((f"{name}, from line {first} on", why))
                    return SavedRas(tuple(found), tuple(refused))
                found.append(SavedAnswer(told_apart(told, saved=True), where, first, lines))
    return SavedRas(tuple(found), tuple(refused))


def _split(section: PastedSection) -> Iterator[tuple[int, tuple[str, ...]]]:
    """One answer after the other, where parts of several follow each other."""
    begins, seen = 0, set[re.Pattern[str]]()
    for at, line in enumerate(section.lines):
        part = next((part for part in _PARTS if part.match(line.strip())), None)
        if part in seen:
            yield section.first + begins, section.lines[begins:at]
            begins, seen = at, set()
        if part is not None:
            seen.add(part)
    yield section.first + begins, section.lines[begins:]


def _read(words: str) -> Iterator[RasAnswer | RasError]:
    """The answers of one piece: a text, or one JSON document after the other; or why it is none."""
    whole = words.lstrip().startswith("{")
    parts = re.split(r'(?m)^(?=[ \t]*\{\s{0,64}"nccl_version")', words) if whole else [words]
    for part in filter(str.strip, parts):
        octets = part.encode("utf-8", "replace")
        try:
            yield answer.parse(octets) if whole else text.parse(octets, whole=False)
        except RasError as error:
            yield error


def named(sources: Sequence[str]) -> tuple[SavedRas, tuple[str, ...]]:
    """The answers in files, and those of the sources that hold other things too, or only those.

    Of a folder the files right in it are read; of one with answers each is a source then.
    """
    answers: list[SavedAnswer] = []
    refused: list[tuple[str, str]] = []
    others: list[str] = []
    budget = Budget("jobs")
    read = communicators = 0
    for source in sources:
        inside = [source]
        if source and os.path.isdir(source):
            inside, cut = listed(source)
            refused += cut
        known: list[tuple[SavedRas, bool]] = []
        for path in inside:
            if budget.over:
                refused.append((Path(path).name, budget.why))
                break
            if read >= MOST_SAVED:
                refused.append((Path(path).name, f"not read: {read} answers of RAS came before"))
                break
            if communicators >= MOST_COMMUNICATORS:
                refused.append((Path(path).name, f"not read: {MANY}"))
                break
            known.append(_file(path))
            read += len(known[-1][0].answers)
            communicators += sum(len(one.answer.communicators) for one in known[-1][0].answers)
        for found, _ in known:
            answers += found.answers
            refused += found.refused
        if any(found.answers for found, _ in known):
            alone = [p for p, (_, more) in zip(inside, known, strict=False) if not more]
            others += beside(inside, alone)
        elif not known or any(more for _, more in known):
            others.append(source)
    return SavedRas(tuple(answers), tuple(refused)), tuple(others)


def _file(path: str) -> tuple[SavedRas, bool]:
    """The answers in one file, and whether there is anything else in it."""
    try:
        data = as_utf8(unpacked(read_plain(Path(path), MOST_BYTES), MOST_BYTES)) if path else b""
    except (OSError, ValueError, CheckFileError):
        return SavedRas(), True
    name = Path(path).name
    if len(data) > KEPT_BYTES and _JSON.match(data):
        return _document(name, data), False
    forms = text_formats()
    kept = KeptText(forms)
    kept.offer_all(data)
    pasted = read_pasted(kept.data, name, kept.number) if data.strip() else None
    if pasted is None:
        return SavedRas(), True
    found = in_sections(name, pasted.sections)
    alone = all(section.tool == TOOL for section in pasted.sections)
    return found, not (found.answers or found.refused) or not alone


def _document(name: str, data: bytes) -> SavedRas:
    """The answers in a file of JSON alone that is longer than what is looked through of a text."""
    if len(data) > MOST_BYTES:
        return SavedRas(refused=((name, LARGE),))
    lines = tuple(data.decode("utf-8", "replace").split("\n"))
    return in_sections(name, (PastedSection(TOOL, 1, lines),))


def states_with_answers(saved: SavedRas) -> Iterator[tuple[JobState, SavedAnswer]]:
    """Where each job stood when its last answer was kept, with that answer."""
    for group in by_job(saved):
        yield _job(group), group[-1]


def by_job(saved: SavedRas) -> list[list[SavedAnswer]]:
    """The answers of each job, in their order."""
    groups: list[tuple[_Named, list[SavedAnswer]]] = []
    for entry in saved.answers:
        named_here = _Named(entry.answer)
        at = next((at for at, (last, _) in enumerate(groups) if last.same(named_here)), None)
        if at is None:
            groups.append((named_here, [entry]))
        else:
            groups[at][1].append(entry)
            groups[at] = named_here, groups[at][1]
    return [_in_order(group) for _, group in groups]


def _in_order(group: list[SavedAnswer]) -> list[SavedAnswer]:
    """The looks at a job: by their clock where each answer has a time, else in their order.

    An answer that was kept twice is one look. So are two of which one has no time, where the second
    one counts nothing more: it may be a copy, or the same answer in another format.
    """
    dated = all(entry.answer.timestamp is not None for entry in group)
    if dated:
        group = sorted(group, key=lambda entry: entry.answer.timestamp or 0.0)
    looks: list[SavedAnswer] = []
    for entry in group:
        last = looks[-1].answer if looks else None
        if last is not None and not _is_later(entry.answer, last, dated=dated):
            if not dated and _is_later(last, entry.answer, dated=False):
                continue
            looks.pop()
        looks.append(entry)
    return looks


def _is_later(now: RasAnswer, before: RasAnswer, *, dated: bool) -> bool:
    """Whether an answer is a second look, and no copy of the one before it."""
    if dated:
        return now != before
    states = communicator_states([_of(now)], [_of(before)])
    return any(state.still is False for state in states)


def communicators_of(group: Sequence[SavedAnswer]) -> tuple[CommunicatorState, ...]:
    """The communicators of a job by its last two answers, and since when each stands still."""
    replies = [_of(entry.answer) for entry in group[-2:]]
    times = [entry.answer.timestamp for entry in group]
    memory = remember({}, (), 0.0)
    for entry in group:
        memory = remember(memory, (entry.answer,), entry.answer.timestamp or 0.0)
    dated = None not in times and times[-1] is not None
    return tuple(
        msgspec.structs.replace(
            state,
            quiet_seconds=quiet(memory, state.communicator.name, times[-1] or 0.0)
            if dated
            else None,
        )
        for state in communicator_states(replies[-1:], replies[:-1])
    )


class _Named:
    """What an answer names, by which two of one job are found: looked up once for each."""

    def __init__(self, told: RasAnswer) -> None:
        self._names = {comm.name for comm in told.communicators if comm.name}
        # With the host: equal containers on several machines have equal PIDs.
        self._processes = {(rank.host, rank.pid) for rank in told.named if rank.pid is not None}
        self._job = told.job

    def same(self, other: _Named) -> bool:
        """Whether two answers are about one job: a communicator or a process is in both.

        Where neither names any, as healthy texts do not: as many nodes, processes and GPUs.
        """
        if not self._names.isdisjoint(other._names):
            return True
        if not self._processes.isdisjoint(other._processes):
            return True
        bare = not (self._names and other._names)
        return bare and self._job is not None and self._job == other._job


def _job(group: Sequence[SavedAnswer]) -> JobState:
    last, ras = group[-1], communicators_of(group)
    job = last.answer.job
    world = None if job is None else job.gpus
    evidence = JobEvidence(
        activities={}, ras=ras, silent=last.answer.silent, saved=True, world=world
    )
    size = max((comm.size for comm in last.answer.communicators), default=0)
    count = plural(size, "rank") if size else "a job"
    if job is not None and job.processes != size:
        count = plural(job.processes, "process", "processes")
    nodes = "" if job is None or job.nodes < 2 else f" on {job.nodes} nodes"
    two = f" and {len(group) - 1} before" if len(group) > 1 else ""
    name = f"{SAVED} ({last.where}{two})"
    state = of_ras(Machine(), evidence, name, f"{count}{nodes}")
    return _with_doubts(state, evidence, several=len(group) > 1)


def _with_doubts(state: JobState, evidence: JobEvidence, *, several: bool) -> JobState:
    """The same job with what a saved answer leaves open; `several`: there are two at least."""
    nothing = f"{state.name}: no communicator was there, or none yet"
    empty = not evidence.ras and not state.ranks
    hosts = dict.fromkeys(lost.host for lost in _named(evidence) if lost.host is not None)
    host = next(iter(hosts)) if len(hosts) == 1 else None
    pids = Counter(rank.pid for rank in state.ranks)
    shared = any(pids[rank.pid] > 1 for rank in state.ranks if rank.trouble is not None)
    more = "; others have this PID too, in containers of their own" if shared else ""
    return msgspec.structs.replace(
        state,
        sentence=nothing if empty else state.sentence,
        verdict=JobVerdict.UNKNOWN if empty else state.verdict,
        steps=tuple(at_another(step, host, ITS_NODE) + more for step in state.steps),
        unknown=(
            *(() if several else (ONE_LOOK,)),
            "what the processes did: a saved answer shows neither /proc nor the GPUs",
        ),
    )


def _named(evidence: JobEvidence) -> Iterator[MissingRank | RasRank]:
    """The ranks and processes that stand out."""
    yield from evidence.silent
    for state in evidence.ras:
        yield from state.communicator.missing
        yield from state.behind


def _of(told: RasAnswer) -> RasReply:
    return RasReply(place=RasPlace(address="saved"), answers=(told,))
