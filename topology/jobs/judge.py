"""One sentence about a job, and its verdict: the first case that applies says it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import msgspec

from ..model.english import listing
from ..model.severity import JobVerdict
from ..model.units import seconds
from .collectives import last_of, spoken
from .evidence import TOLD_SECONDS
from .flight.comparing import RecordedGroup
from .inspector.comparing import Inspected
from .inspector.telling import sentence as sentence_of_records
from .ras.answer import ABORT, FINALIZE, INIT, AnswerForm
from .ras.comparing import CommunicatorState
from .standing import (
    LONG_SECONDS,
    MOST_NAMED,
    KnownBy,
    RankState,
    Sentence,
    TroubleKind,
    lag_in_words,
)
from .waiting import Waiting, need_not_wait, quiet_seconds, waiting_by_dumps, waiting_by_ras

# What a rank that is behind is seen to do alone, as one that evaluates or writes a checkpoint.
COMPUTES = 0.2
"""Share of the time from which a GPU is said to compute."""
COPIES_GBS = 0.3
"""Kernels of NCCL that wait poll over PCIe with up to 0.15 GB/s (two H100, two H200)."""
WRITES_PER_SECOND = 10e6
"""Bytes to a disk: logs take less, a checkpoint more."""
PATIENCE_SECONDS = 60.0
"""For so long others may wait for such a rank without a sign of trouble."""


def does_alone(rank: RankState) -> str:
    """What it does beside being behind, as "its GPU computes"; "" where nothing shows."""
    load, activity = rank.load, rank.activity
    if load is not None and load.computing >= COMPUTES:
        return "its GPU computes"
    written = None if activity is None else activity.written_per_second
    if written is not None and written >= WRITES_PER_SECOND:
        return f"it writes files, {written / 1e6:.0f} MB/s"
    waits = load is None or load.in_library >= COMPUTES
    if load is not None and not waits and (load.pcie_gbs or 0.0) >= COPIES_GBS:
        return "its GPU copies to or from the host"
    return ""


def at_work(ranks: Sequence[RankState], quiet_seconds: float | None) -> bool:
    """Whether all ranks that others wait for are seen to work, and nobody has waited for long."""
    lasts = quiet_seconds is None or quiet_seconds < PATIENCE_SECONDS
    return lasts and bool(ranks) and all(rank.weak and does_alone(rank) for rank in ranks)


class JobFacts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All that the sentence about a job is made of."""

    ranks: Sequence[RankState]
    ras: Sequence[CommunicatorState] = ()
    inspected: Inspected = Inspected()
    why_late: str = ""
    """Why the rank is that the Inspector's records show to come last."""
    stands_out: Sentence | None = None
    """What its GPUs did that something is wrong with."""
    stuck: bool = False
    """Whether the GPUs of all its ranks here do nothing but wait in a kernel."""
    composition: str = ""
    """What a step of it is made of, where that is known."""
    held_back: str = ""
    """Variables of its ranks that make its collectives slow, and what that costs."""
    groups: Sequence[RecordedGroup] = ()
    silence: str = ""
    """Why RAS says nothing."""
    world: int | None = None
    """Ranks of the job on all nodes, where that is known."""
    asleep: Mapping[int, str] = {}
    """Where processes sleep, in words, as far as that is known."""
    costs: Sequence[str] = ()
    """What is wrong in what the ranks were given, in a few words each."""
    ago: str | None = None
    """When the newest dump was written, where that is too long ago to speak of this moment."""

    @cached_property
    def guilty(self) -> tuple[RankState, ...]:
        """Ranks with a trouble; one that only left, where all others tell of another's end."""
        troubled = tuple(rank for rank in self.ranks if rank.trouble is not None)
        guilty = tuple(rank for rank in troubled if rank.kind is not TroubleKind.LEFT)
        told_of_others = all(rank.kind is TroubleKind.FOLLOWS for rank in guilty)
        return troubled if guilty and told_of_others else guilty

    @cached_property
    def waiting(self) -> Waiting | None:
        """Who waits in what; None where nothing proves that anybody does."""
        return waiting_by_ras(self) or waiting_by_dumps(self.groups)

    @cached_property
    def quiet_seconds(self) -> float | None:
        """For how long nothing was launched in any communicator of it; None where not known."""
        return quiet_seconds(self.ras)

    @property
    def since(self) -> str:
        """The same as part of a sentence."""
        quiet = self.quiet_seconds
        return "" if quiet is None else f" (no progress for {seconds(quiet)})"

    @property
    def quiet_for_long(self) -> bool:
        """Whether that is so long that it is a hang whatever the rank does that is behind."""
        return self.quiet_seconds is not None and self.quiet_seconds >= LONG_SECONDS

    @property
    def no_cause(self) -> bool:
        """Whether no trouble of a rank names a cause."""
        return all(rank.weak for rank in self.guilty)

    @property
    def named(self) -> str:
        """The ranks with a trouble."""
        return _named(self.guilty)


def sentence(program: str, count: str, job: JobFacts) -> Sentence:
    """The sentence about a job and its verdict; `count`: "4 ranks"."""
    said = _first(STANDING_OUT, job)
    said = said or _with_costs(_first(QUIET, job) or _silent(job), job.costs)
    return Sentence(f"{program}: {count}, {said.text}", said.verdict, said.behind(program))


Case = Callable[[JobFacts], "Sentence | None"]


def _first(cases: Iterable[Case], job: JobFacts) -> Sentence | None:
    return next((said for case in cases if (said := case(job)) is not None), None)


def _with_costs(said: Sentence, costs: Sequence[str]) -> Sentence:
    """The same sentence with what is wrong in what the ranks were given."""
    if not costs:
        return said
    if said.verdict in (JobVerdict.RUNS, JobVerdict.SLOW):
        return Sentence(f"{said.text}; but {costs[0]}", said.verdict, said.brief)
    return Sentence(f"{costs[0]}; {said.text}", JobVerdict.FAULTY)


def _waited_before(job: JobFacts) -> Sentence | None:
    """Ranks waited by a dump that is too old to speak of this moment."""
    waiting = job.waiting
    if waiting is None or waiting.source is not KnownBy.RECORDER or job.ago is None:
        return None
    who = f"{job.named}; " if job.guilty else ""
    still = "it still does" if waiting.number == 1 else "they still do"
    return Sentence(
        f"{waiting.number:,} waited in {waiting.what} when a dump was written, {job.ago} ago, "
        f"{who}whether {still} is not known",
        JobVerdict.FAULTY,
    )


def _crossed(job: JobFacts) -> Sentence | None:
    """Ranks launched different collectives, and none launches any more: neither can end."""
    crossed = next((state.crossed for state in job.ras if state.crossed), ())
    if not crossed or not job.no_cause:
        return None
    calls = [f"{spoken(name)} {count} by rank {rank}" for rank, name, count in crossed]
    text = (
        "ranks launched collectives in another order, and each waits for one that the other did not"
    )
    named = listing(calls, MOST_NAMED)
    return Sentence(
        f"{text}: {named}", JobVerdict.HANGS, f"{named} wait for each other, in another order"
    )


def _guilty_and_waiting(job: JobFacts) -> Sentence | None:
    """Ranks wait for others that are known."""
    if not job.guilty or job.waiting is None:
        return None
    verdict, since = _hangs(job, job.guilty, job.waiting.source)
    waiting = f"{job.waiting.text}{since}"
    does = does_alone(job.guilty[0]) if job.no_cause else ""
    if does and verdict is JobVerdict.WAITS and at_work(job.guilty, job.quiet_seconds):
        named = listing([rank.label for rank in job.guilty], MOST_NAMED)
        works = "works" if len(job.guilty) == 1 else "work"
        return Sentence(f"runs: {named} {works} alone, {does}; {waiting}", JobVerdict.RUNS)
    asleep = job.asleep.get(job.guilty[0].pid or 0, "") if verdict is JobVerdict.WAITS else ""
    doing = f"; {does} meanwhile" if does else f"; {asleep}" * bool(asleep)
    brief = _held(job, job.waiting, since) + doing
    return Sentence(f"{waiting}, {job.named}{doing}", verdict, brief)


def _held(job: JobFacts, waiting: Waiting, since: str) -> str:
    """The same with the rank and its price first."""
    if len(job.guilty) > 1:
        return f"{job.named}; {waiting.text}{since}"
    rank, quiet = job.guilty[0], job.quiet_seconds
    long = f" for {seconds(quiet)}" if since and quiet is not None and quiet >= TOLD_SECONDS else ""
    said = f"{rank.label} keeps {waiting.number:,} waiting{long} in {waiting.what}"
    return said if rank.trouble is None else f"{said}: {rank.trouble.text}"


def _differing(job: JobFacts) -> Sentence | None:
    """Dumps show what does not fit between ranks."""
    if not job.no_cause:
        return None
    differences = ((group, text) for group in job.groups for text in group.differences)
    for group, text in differences:
        verdict = JobVerdict.HANGS if group.waiting else JobVerdict.FAULTY
        return Sentence(f"{text} ({group.name})", verdict)
    return None


def _guilty_alone(job: JobFacts) -> Sentence | None:
    """Something is wrong with ranks, and whether others wait is not known."""
    if not job.guilty:
        return None
    alone = all(rank.trouble is not None for rank in job.ranks)
    unknown = f"what the others are in is not known: {job.silence}"
    rest = "" if job.ras or alone else unknown
    free = (need_not_wait(state, job.ranks) for state in job.ras if state.still)
    rest = next(filter(None, free), rest)
    return Sentence(f"{job.named}{f'; {rest}' if rest else ''}", JobVerdict.FAULTY)


def _unnamed_behind(job: JobFacts) -> Sentence | None:
    """Ranks wait for others that a text counts without naming them."""
    if job.waiting is None or job.waiting.source is not KnownBy.RAS:
        return None
    unnamed = _unnamed(job.ras)
    if not unnamed:
        return None
    verdict, since = _hangs(job, (), KnownBy.RAS)
    return Sentence(f"{job.waiting.text}{since}, {unnamed}", verdict)


def _waited_at_dump(job: JobFacts) -> Sentence | None:
    """Ranks waited when their dumps were written, and nobody is known to be behind."""
    if job.waiting is None or job.waiting.source is not KnownBy.RECORDER:
        return None
    number, what, _ = job.waiting
    return Sentence(f"{number:,} waited in {what} when the dump was written", JobVerdict.HANGS)


def _left(job: JobFacts) -> Sentence | None:
    """Ranks gave up a communicator which others still have.

    Programs give one up when they need it no more, each rank by itself: that accuses nobody before
    nothing was launched for LONG_SECONDS.
    """
    left = [rank for rank in job.ranks if rank.kind is TroubleKind.LEFT]
    who = {rank.process_key for rank in left}
    parted = [state for state in job.ras if state.left]
    own = next((state for state in parted if who & state.left), parted[0] if parted else None)
    if not left or own is None or all(r.process_key in who for r in own.communicator.ranks):
        return None
    last = f", where {last_of(own.launched)} was launched last" if own.launched else ""
    said = f"{_named(left)}{last}{job.since}"
    if free := need_not_wait(own, job.ranks):
        return Sentence(f"{said}; {free}", JobVerdict.UNKNOWN)
    verdict = JobVerdict.FAULTY if job.quiet_for_long else JobVerdict.UNKNOWN
    return Sentence(f"{said}; whether the others wait is not known", verdict)


def _runs(job: JobFacts) -> Sentence | None:
    """Collectives were launched between two answers."""
    grows = next((state for state in job.ras if state.still is False), None)
    if grows is None:
        return None
    grown = ""
    if grows.function is not None and grows.before not in (None, grows.top):
        grown = f": {spoken(grows.function)} {grows.before} to {grows.top}"
    made_of = f"; {job.composition}" if job.composition else ""
    return Sentence(f"runs: collectives are launched{grown}{made_of}", JobVerdict.RUNS)


def _unusable(job: JobFacts) -> Sentence | None:
    """The largest communicator is aborted, or not made yet, or no more."""
    state = job.ras[0].communicator.state if job.ras else None
    if state == ABORT:
        return Sentence("their communicator is aborted", JobVerdict.FAULTY)
    if state in (INIT, FINALIZE):
        doing = "still being initialised" if state == INIT else "being taken down"
        return Sentence(f"their communicator is {doing}", JobVerdict.UNKNOWN)
    return None


def _slow(job: JobFacts) -> Sentence | None:
    """The Inspector's records show one rank for which the others wait."""
    said = sentence_of_records(job.inspected, why=job.why_late)
    return said if said.verdict is JobVerdict.SLOW else None


def _seen_slow(job: JobFacts) -> Sentence | None:
    """The GPUs show one rank for which the others wait, or what else takes long, and why."""
    said = job.stands_out
    return said if said is not None and said.verdict is JobVerdict.SLOW else None


def _watched(job: JobFacts) -> Sentence | None:
    """The GPUs show that ranks do different work."""
    return job.stands_out


def _held_back(job: JobFacts) -> Sentence | None:
    """Collectives are slow by what the ranks were given."""
    return Sentence(job.held_back, JobVerdict.SLOW) if job.held_back else None


def _uncounted(job: JobFacts) -> Sentence | None:
    """RAS says that ranks stand equal, and not how far they are."""
    if not job.ras or job.ras[0].counts:
        return None
    return Sentence(
        f"{_equal_text(job.ras[0])}; whether they compute or wait is not known",
        JobVerdict.UNKNOWN,
    )


def _one_answer(job: JobFacts) -> Sentence | None:
    """RAS counted once, which shows no progress."""
    if not job.ras or job.ras[0].still is not None:
        return None
    state = job.ras[0]
    equal = f"{state.who_counts} have launched as many collectives ({last_of(state.launched)}); "
    less = f"{lag_in_words(state)}; " if state.behind_count else equal * bool(state.launched)
    said = "only one answer of RAS has their counts, so whether they wait is not known"
    return Sentence(f"{less}{said}", JobVerdict.UNKNOWN)


def _stuck_apart(job: JobFacts) -> Sentence | None:
    """A rank is behind, and its GPU waits in a kernel as those of the others do."""
    if not job.stuck or len(job.ras) != 1 or not job.no_cause or job.waiting is None:
        return None
    said = _end_nowhere(job, f"{job.waiting.text}, {job.named}, and the GPUs of all")
    return Sentence(said.text, said.verdict, f"{job.waiting.text}, and all GPUs wait in a kernel")


def _stuck(job: JobFacts) -> Sentence | None:
    """All ranks launched equally many collectives, nothing moves, and all GPUs wait in a kernel."""
    if not job.stuck or not job.ras or not job.ras[0].still:
        return None
    what = f" ({last_of(job.ras[0].launched)})" if job.ras[0].launched else ""
    who = job.ras[0].who_counts
    return _end_nowhere(job, f"{who} have launched as many collectives{what}, and their GPUs")


def _end_nowhere(job: JobFacts, whose: str) -> Sentence:
    """The end of a sentence about GPUs that all wait, and the verdict."""
    said = f"{whose} compute and move nothing in a kernel that does not end{job.since}"
    if job.world is None or len({rank.rank for rank in job.ranks}) < job.world:
        return Sentence(f"{said}: they may wait for ranks elsewhere", JobVerdict.WAITS)
    why = "launched in another order or with other sizes, or cut off on the way"
    return Sentence(f"{said}: {why}", JobVerdict.HANGS)


def _still(job: JobFacts) -> Sentence | None:
    """RAS counted twice, and all ranks stand equal."""
    if not job.ras:
        return None
    what = f" ({last_of(job.ras[0].launched)})" if job.ras[0].launched else ""
    return Sentence(
        f"{job.ras[0].who_counts} have launched as many collectives{what}; none was launched "
        "between two "
        "answers of RAS, so whether they compute or wait is not known",
        JobVerdict.UNKNOWN,
    )


def _silent(job: JobFacts) -> Sentence:
    """No rank stands out, and RAS says nothing."""
    text = f"none is known to be stopped; whether they wait is not known: {job.silence}"
    return Sentence(text, JobVerdict.UNKNOWN)


STANDING_OUT: tuple[Case, ...] = (
    _waited_before,
    _crossed,
    _stuck_apart,
    _guilty_and_waiting,
    _differing,
    _guilty_alone,
    _unnamed_behind,
    _waited_at_dump,
)
"""Cases in which something is wrong with ranks."""
QUIET: tuple[Case, ...] = (
    _left,
    _seen_slow,
    _slow,
    _watched,
    _held_back,
    _runs,
    _unusable,
    _uncounted,
    _one_answer,
    _stuck,
    _still,
)
"""Cases in which no rank stands out: what RAS says of progress, else that it is not known."""


def _hangs(job: JobFacts, guilty: Sequence[RankState], source: KnownBy) -> tuple[JobVerdict, str]:
    """The verdict on ranks that wait, and since when as part of the sentence.

    A hang is proven by a rank that is stopped, ended or cut off, by one that sleeps
    uninterruptibly for ASLEEP_SECONDS, by any for LONG_SECONDS, and by a dump, which names no rank
    before WAITS_SECONDS.
    """
    proven = any(not rank.weak and rank.kind is not TroubleKind.SHORT for rank in guilty)
    if proven or source is not KnownBy.RAS:
        return JobVerdict.HANGS, ""
    return JobVerdict.HANGS if job.quiet_for_long else JobVerdict.WAITS, job.since


def _unnamed(ras: Sequence[CommunicatorState]) -> str:
    """Ranks that are behind and that a text counts without naming them; "" where there are none.

    Nor where another communicator moves on, of which they may be ranks.
    """
    if any(state.still is False or state.behind for state in ras):
        return ""
    number = next((n for state in ras if state.still and (n := state.behind_count)), 0)
    have = "has" if number == 1 else "have"
    return f"{number:,} {have} not launched it; which, RAS does not name" if number else ""


def _equal_text(state: CommunicatorState) -> str:
    """What a text says of ranks that stand equal: that they do, and not how far they are."""
    answer = state.answer
    if answer is None or answer.form is AnswerForm.JSON:
        return "RAS answers, without counts of collectives"
    who = "all that answer RAS" if state.communicator.missing else "all answer RAS and"
    version = answer.version
    teller = "its text" if version is None else f"the text of {answer.library} {version}"
    return f"{who} have launched equally many collectives, how many {teller} does not say"


def _named(guilty: Sequence[RankState]) -> str:
    """The ranks with a trouble; those that only are behind where there are no others."""
    troubled = [(rank, rank.trouble) for rank in guilty if rank.trouble is not None]
    ordered = sorted(troubled, key=lambda item: (item[0].weak, item[1].source is not KnownBy.PROC))
    strong = [item for item in ordered if not item[0].weak] or ordered
    return listing([f"{rank.label} {trouble.text}" for rank, trouble in strong], MOST_NAMED)
