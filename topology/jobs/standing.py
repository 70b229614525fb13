"""Records of where a running job stands: its evidence, its troubles, its ranks and the verdict."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec

from ..model.english import listing, plural
from ..model.finding import Finding, Kind, Subject
from ..model.severity import BROKEN, NOTICE, SLOW, JobVerdict, Origin, Severity, Word
from .activity import Activity
from .collectives import spoken
from .flight.comparing import RecordedGroup
from .grouping import Job
from .loads.judging import RankLoad
from .loads.watching import JobLoads
from .ras.answer import MissingRank, Process
from .ras.comparing import CommunicatorState, moving
from .traffic import CarriedTraffic, TrafficPast

MOST_NAMED = 3
"""Ranks that one sentence names."""
ASLEEP_SECONDS = 120.0
"""From here on one uninterruptible sleep is no slow file system: the kernel itself complains of it
(hung_task_timeout_secs)."""
LONG_SECONDS = 600.0
"""From here on no progress is a hang whatever the rank does that is behind: PyTorch gives up a
collective of NCCL after so long by default. An evaluation or a checkpoint of one rank takes
minutes, and looks the same."""


EQUAL_RATE = 5.0
"""Collectives of all ranks a second, from which they count as equal: stages of a pipeline meet
seldom, for a loss or a norm."""

SEVERITIES = {
    verdict: severity
    for verdict in JobVerdict
    for severity in (BROKEN, SLOW)
    if verdict.sign == severity.sign
}
"""Of a finding that says where a job stands, by the sign of its verdict, so that a job has one sign
wherever it is told of; any other one is a notice."""


class KnownBy(Word):
    """Where a fact about a job is from."""

    PROC = "/proc"
    RAS = "RAS"
    RECORDER = "flight recorder"
    INSPECTOR = "Inspector"
    DRIVER = "driver"


class TroubleKind(Word):
    """What a trouble tells.

    cause: why others wait; short: that it may be over soon; behind: only that the rank is behind;
    follows: that another one failed; left: that it gave up a communicator, as programs do when
    they need it no more, or ended without a rank: neither need hold up anybody.
    """

    CAUSE = "cause"
    SHORT = "short"
    BEHIND = "behind"
    FOLLOWS = "follows"
    LEFT = "left"

    @property
    def weak(self) -> bool:
        """Whether such a trouble names no cause."""
        return self not in (TroubleKind.CAUSE, TroubleKind.SHORT)


class RankTrouble(msgspec.Struct, frozen=True):
    """What is wrong with one rank."""

    text: str
    """ "is stopped (T)"."""
    source: KnownBy
    kind: TroubleKind = TroubleKind.CAUSE
    over: bool = False
    """Whether its process has ended."""
    step: str = ""
    """The command that tells more or helps, with {:pid}; "" for a look at its stack."""


class LastCollective(msgspec.Struct, frozen=True):
    """The collective that a rank launched last."""

    name: str
    """ "all-reduce 1042"."""
    source: KnownBy


class RankState(msgspec.Struct, frozen=True, kw_only=True):
    """One rank."""

    rank: int | None
    pid: int | None
    """On this machine."""
    elsewhere: Process | None = None
    """Its process as RAS names it, where that is none of this machine that is known."""
    apart: str = ""
    """What tells its process from others of its PID, where it is none of this machine."""
    gpus: tuple[str, ...] = ()
    """PCI addresses."""
    label: str = ""
    """ "rank 2 (pid 4711, GPU2)"."""
    trouble: RankTrouble | None = None
    last: LastCollective | None = None
    activity: Activity | None = None
    busy_percent: float | None = None
    """Utilisation of its GPU as the driver says; the mean over several."""
    load: RankLoad | None = None
    """What its GPU did over some seconds; None where the driver gives no such shares."""
    waiting: float | None = None
    """Share of the time that it waits for the rank that is late; None where none is known to be."""
    place: str | None = None
    """The function of the kernel in which its process was seen to sleep often."""
    busiest_percent: float | None = None
    """The same of the busiest of them; None unless it is known of all."""

    @property
    def process_key(self) -> Process | None:
        """Its process, apart from all others."""
        return self.elsewhere if self.pid is None else (self.apart or None, self.pid)

    @property
    def kind(self) -> TroubleKind | None:
        """The kind of its trouble; None without one."""
        return None if self.trouble is None else self.trouble.kind

    @property
    def weak(self) -> bool:
        """Whether its trouble names no cause: it is behind, left, or tells of another rank."""
        return self.trouble is not None and self.trouble.kind.weak


class JobEvidence(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything that was asked about one job."""

    activities: Mapping[int, Activity]
    ended: Mapping[int, RankTrouble] = {}
    """PIDs whose processes were here and have ended, and how that shows."""
    ras: tuple[CommunicatorState, ...] = ()
    """Its communicators, the largest first."""
    silent: tuple[MissingRank, ...] = ()
    """Processes of the job that do not answer RAS, without their ranks, as a text names them."""
    world: int | None = None
    """Ranks of the job on all nodes."""
    saved: bool = False
    """Whether the answers are saved ones, of machines that are not known."""
    assumed: str | None = None
    """What is taken for granted about the answer of RAS."""
    groups: tuple[RecordedGroup, ...] = ()
    """Its process groups in dumps."""
    twice: bool = False
    """Whether /proc was read twice."""
    traffic: CarriedTraffic | None = None
    """What NVLink carried meanwhile."""
    past: TrafficPast | None = None
    """What links and PCIe carried lately; None where nobody has looked."""
    loads: JobLoads = JobLoads()
    """What its GPUs and processes did meanwhile."""
    shared: tuple[str, ...] = ()
    """Its GPUs that other jobs use too, whose traffic may be theirs."""

    @property
    def moves(self) -> bool:
        """Whether a collective was launched between two answers of RAS."""
        return any(state.still is False for state in self.ras)

    def together(self, pids: frozenset[int]) -> bool:
        """Whether collectives of all these processes went on as often as those of equal ranks."""
        seconds = next((activity.seconds for activity in self.activities.values()), 0.0)
        return any(
            state.still is False
            and (state.grown or 0) >= max(EQUAL_RATE * seconds, 1)
            and pids <= state.pids
            for state in self.ras
        )

    @cached_property
    def moving(self) -> frozenset[Process]:
        """The processes of communicators in which one was."""
        return moving(self.ras)


class Sentence(NamedTuple):
    """What is said of a job behind its name and the number of its ranks."""

    text: str
    verdict: JobVerdict
    brief: str = ""
    """The same with rank and price first, for a line that has no room for it; "" for the text."""

    def behind(self, program: str) -> str:
        """The brief text behind the name of the job; "" without one."""
        return f"{program}: {self.brief}" if self.brief else ""


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """One job: a sentence, and what proves it."""

    name: str
    """As the list of jobs has it: "torchrun run-7"."""
    program: str
    """ "train.py", else the name of its processes."""
    sentence: str
    verdict: JobVerdict
    brief: str = ""
    """The sentence with rank and price first, where it is long; "" where it is short."""
    ranks: tuple[RankState, ...] = ()
    findings: tuple[Finding, ...] = ()
    """What is known of it: a notice, unless it explains a hang or costs much by itself."""
    steps: tuple[str, ...] = ()
    """Commands that would tell more; gputop never starts them."""
    variables: tuple[tuple[str, str], ...] = ()
    """Those that the sentence blames, with their values."""
    unknown: tuple[str, ...] = ()
    """What is not known, and what would tell."""
    job: Job | None = None
    """None for a job that RAS alone knows."""
    seconds: float | None = None
    """Between the two readings."""
    simulated: bool = False
    """Whether it is the job of a demo, which is said wherever its sentence is."""
    quiet_seconds: float | None = None
    """For how long RAS saw nothing launched in any of its communicators; None where not known."""

    @property
    def told_by_itself(self) -> bool:
        """Whether more is known of it than what the node says: by RAS, dumps or records."""
        more = {KnownBy.RAS, KnownBy.RECORDER, KnownBy.INSPECTOR}
        return self.job is None or any(more & {*one.sources} for one in self.findings)

    @property
    def accused(self) -> tuple[RankState, ...]:
        """The ranks that something is wrong with; else those for which the others wait."""
        troubled = tuple(r for r in self.ranks if r.kind not in (None, TroubleKind.LEFT))
        harmful = (finding for finding in self.findings if finding.severity.counts)
        named = {name for finding in harmful for name in finding.names(Kind.RANK)}
        return troubled or tuple(rank for rank in self.ranks if str(rank.rank) in named)


def job_finding(
    id: str,  # noqa: A002 - as Finding calls it
    text: str,
    source: KnownBy,
    severity: Severity = NOTICE,
    *,
    ranks: Iterable[int | None] = (),
    brief: str = "",
) -> Finding:
    """Make a finding about some ranks of a job; `brief`: the same for the job's sentence."""
    return Finding.of(
        id,
        severity,
        text,
        origin=Origin.JOB,
        about=tuple(Subject(Kind.RANK, str(rank)) for rank in ranks if rank is not None),
        sources=(source,),
        brief=brief,
    )


def lag_in_words(state: CommunicatorState) -> str:
    """How far apart ranks are: "rank 7 launched all-reduce 60, 7 others 64"."""
    function = state.function or ""
    what = spoken(function)
    unnamed = [(number, at) for name, number, at in state.communicator.agreed if name == function]
    behind = [(f"rank {rank.rank}", dict(rank.counts)[function]) for rank in state.behind]
    if len(behind) > MOST_NAMED:
        least = min(at for _, at in behind)
        behind = [(plural(len(behind), "rank"), least)]
    behind += [(plural(n, "rank"), at) for n, at in unnamed if at < (state.blocked or 0)]
    slow = listing([f"{who} launched {what} {at}" for who, at in behind[:MOST_NAMED]])
    others = "other" if state.ahead_count == 1 else "others"
    return f"{slow}, {state.ahead_count:,} {others} {state.reach}"
