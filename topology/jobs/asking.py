"""Asks about the jobs of this machine what is read-only and local, and says where each stands."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from ..hardware.vendors import NVIDIA
from ..model.english import plural
from ..model.gathered import gathered_by
from ..model.severity import JobVerdict
from ..model.snapshot import NodeSnapshot
from ..sources.files.tree import Tree, live_tree
from ..sources.linux.process_files import namespaces
from .activity import Activity, Glance, activity_delta, glance, variables
from .conclude import Inquiry, conclude, of_ras
from .flight.files import FoundDumps, expected, listed, read
from .grouping import GpuUser, Job, jobs
from .inspector.records import NEWS_BYTES, InspectorRecords
from .inspector.records import read as read_records
from .loads.watching import JobLoads, LoadWatch, Watch, watch
from .ras.answer import AnswerForm, RasAnswer
from .ras.client import SECONDS, RasReply, ask
from .ras.comparing import CommunicatorState, communicator_states
from .ras.homes import Local, locals_of, settled
from .ras.memory import Memory, quiet, remember
from .ras.places import RasPlace, places
from .standing import JobEvidence, JobState
from .traffic import CarriedTraffic, TrafficLook, TrafficPast, look, traffic_delta
from .troubles import ended, has_ended

INSPECTOR_ON, INSPECTOR_FOLDER = "NCCL_INSPECTOR_ENABLE", "NCCL_INSPECTOR_DUMP_DIR"
PAUSE_SECONDS = 2.0
"""From one reading of /proc, and one answer of RAS, to the next; the GPUs are watched meanwhile."""


# Which answer of RAS is about which job here.
#
# JSON names the processes of all ranks. A text names only those that stand out: of a healthy job
# none. What both know then: the process that answered, else how many processes and GPUs the job
# has.
class Matched(msgspec.Struct, frozen=True):
    """What RAS says of the jobs here."""

    jobs: tuple[tuple[CommunicatorState, ...], ...]
    """Of each job its communicators, the largest first."""
    answers: tuple[tuple[RasAnswer, ...], ...]
    """Of each job the answers that these are from; also one without communicators."""
    assumed: tuple[str | None, ...]
    """Of each job what is taken for granted about its answer; None where it is proven."""
    rest: tuple[CommunicatorState, ...]
    """Communicators of none of these jobs."""


def match(
    jobs: Sequence[Job],
    ras: Sequence[CommunicatorState],
    answers: Sequence[RasAnswer] = (),
    alive: Sequence[bool] = (),
) -> Matched:
    """Give each job its answers; an answer that several jobs may have written goes to none.

    `answers`: all of them, those without communicators too; `alive`: whether each job still has
    processes, without which nothing is taken for its answer.
    """
    told = _given(ras, answers)
    owners = _named_owners(jobs, told)
    gone = {at for at, lives in enumerate(alive) if not lives}
    assumed = _assume(jobs, ras, told, owners, gone)
    parts: list[list[CommunicatorState]] = [[] for _ in jobs]
    rest: list[CommunicatorState] = []
    for state in ras:
        owner = _by_pids(jobs, state) if state.answer is None else owners.get(id(state.answer))
        (rest if owner is None else parts[owner]).append(state)
    return Matched(
        jobs=tuple(_once(part) for part in parts),
        answers=tuple(
            tuple(answer for answer in told if owners.get(id(answer)) == number)
            for number in range(len(jobs))
        ),
        assumed=tuple(assumed.get(number) for number in range(len(jobs))),
        rest=tuple(rest),
    )


def _given(ras: Sequence[CommunicatorState], answers: Sequence[RasAnswer]) -> list[RasAnswer]:
    """Every answer once: those that communicators are from, then those without any."""
    told = list(
        {id(state.answer): state.answer for state in ras if state.answer is not None}.values()
    )
    return told + [answer for answer in answers if not any(answer is other for other in told)]


def _assume(
    jobs: Sequence[Job],
    ras: Sequence[CommunicatorState],
    told: Sequence[RasAnswer],
    owners: dict[int, int],
    gone: Collection[int],
) -> dict[int, str]:
    """Give answers that name no process to the only job they fit; what each job so takes as given.

    `owners` has the job of each answer by its id, and gets those that are found here.
    """
    assumed: dict[int, str] = {}
    for answer in told:
        if id(answer) in owners or answer.job is None or answer.pids:
            continue
        free = [at for at in range(len(jobs)) if at not in (*owners.values(), *gone)]
        found = [at for at in free if _fits(jobs[at], answer, ras)]
        if len(found) == 1:
            owners[id(answer)] = found[0]
            assumed[found[0]] = (
                "whether the answer of RAS is about this job: it names no process, and is taken "
                f"for its, as no other job here has {plural(answer.job.processes, 'rank')} and "
                "listens there"
            )
    return assumed


def _named_owners(jobs: Sequence[Job], answers: Sequence[RasAnswer]) -> dict[int, int]:
    """The job of each answer that names one of its processes, or that one of them gave."""
    owners: dict[int, int] = {}
    for answer in answers:
        known = answer.pids if answer.speaker is None else answer.pids | {answer.speaker}
        for number, job in enumerate(jobs):
            if known & _pids(job):
                owners.setdefault(id(answer), number)
    return owners


def _pids(job: Job) -> frozenset[int]:
    return frozenset(user.pid for user in job.processes)


def _by_pids(jobs: Sequence[Job], state: CommunicatorState) -> int | None:
    return next((at for at, job in enumerate(jobs) if state.pids & _pids(job)), None)


def _fits(job: Job, answer: RasAnswer, ras: Sequence[CommunicatorState]) -> bool:
    """Whether a job may have given an answer that names no process."""
    place = next((state.place for state in ras if state.answer is answer), None)
    if answer.job is None or (place is not None and place.pids and not place.pids & _pids(job)):
        return False
    here, all_of = len(job.processes), answer.job.processes
    if job.world_size is not None:
        return job.world_size == all_of
    return here == (answer.job.processes_per_node or all_of) and here <= all_of


def _once(states: Sequence[CommunicatorState]) -> tuple[CommunicatorState, ...]:
    """Without what a second process of the job said again: texts of two may be of one moment.

    The answer that names something is kept, else the first.
    """
    texts = {
        id(state.answer): state.answer
        for state in states
        if state.answer and not _named(states, state)
    }
    if len(texts) < 2 and len(texts) == len({id(state.answer) for state in states}):
        return tuple(states)
    named = [state for state in states if id(state.answer) not in texts]
    kept = next(iter(texts), None) if not named else None
    return tuple(
        state for state in states if id(state.answer) not in texts or id(state.answer) == kept
    )


def _named(states: Sequence[CommunicatorState], state: CommunicatorState) -> bool:
    return any(
        other.communicator.name is not None for other in states if other.answer is state.answer
    )


class JobsReport(msgspec.Struct, frozen=True, kw_only=True):
    """All jobs, and what was asked for it."""

    jobs: tuple[JobState, ...]
    ras: tuple[RasReply, ...] = ()
    """The last replies, one a place; () where RAS was not asked."""
    ras_asked: bool = False
    dumps: FoundDumps = FoundDumps()
    traffic: CarriedTraffic | None = None
    """What NVLink carried between two looks; None where nobody could say."""
    seconds: float | None = None
    """Between the two readings of /proc; None where it was not read twice."""
    memory: Memory = {}
    """Since when each communicator stands still, for the next time that is asked."""


class Asker:
    """What is asked of the machine; tests put others in its place."""

    def __init__(
        self,
        tree: Tree | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        ras: Callable[[RasPlace, float], RasReply] = ask,
        traffic: Callable[[Sequence[str]], TrafficLook | None] = look,
        now: Callable[[], float] = time.time,
        loads: Watch = watch,
    ) -> None:
        self.tree = live_tree() if tree is None else tree
        self.sleep = sleep
        self.clock = clock
        self.ras = ras
        self.traffic = traffic
        self.now = now
        self.loads = loads


def ask_live(
    snapshot: NodeSnapshot,
    *,
    ras: bool = False,
    wait: float = SECONDS,
    pause: float = PAUSE_SECONDS,
    memory: Memory | None = None,
    past: TrafficPast | None = None,
    asker: Asker | None = None,
    inspector: str = "",
    watched: bool = True,
) -> JobsReport:
    """Read /proc twice, look for dumps, and with `ras` ask NCCL's service twice.

    `inspector`: a folder of the Inspector's records; "" for those that the ranks' variables name.

    `wait`: seconds for each place of RAS and each time; `pause`: from the first look to the
    second; `memory`: of the answer before, so that standing still since then is known;
    `past`: what the GPUs carried lately; `watched`: whether the GPUs are watched meanwhile.
    """
    by = asker or Asker()
    these = _Asked(snapshot, by, wait, ras=ras)
    first, began = these.glance(), by.clock()
    before = these.traffic()
    watching = these.watch(pause) if watched else None
    earlier = these.replies()
    seen = remember(memory or {}, _told(earlier), by.clock())
    by.sleep(max(pause - (by.clock() - began), 0.0))
    second = these.glance(first)
    loads = JobLoads() if watching is None else watching.end()
    after = None if before is None else these.traffic()
    replies = these.replies(earlier)
    seen = remember(seen, _told(replies), by.clock())
    activities = activity_delta(by.tree, first, second)
    return answer(
        snapshot,
        activities,
        these.states(replies, earlier, seen),
        dumps=_dumps(these.jobs, activities),
        records=_records(these.jobs, activities, inspector),
        replies=replies,
        asked=ras,
        tree=by.tree,
        traffic=traffic_delta(before, after),
        past=past,
        now=by.now(),
        seconds=by.clock() - began if second else None,
        memory=seen,
        loads=loads,
    )


class _Asked:
    """The jobs of one snapshot, and what is asked about them twice."""

    def __init__(self, snapshot: NodeSnapshot, by: Asker, wait: float, *, ras: bool) -> None:
        self._by, self._wait = by, wait
        self.jobs = jobs(snapshot)
        users = [user for job in self.jobs for user in job.processes]
        self._pids = [user.pid for user in users]
        self._limited = {user.pid for user in users if user.reading.cpu_quota is not None}
        self._linked = _linked(snapshot, self.jobs)
        self._places: Sequence[RasPlace] = ()
        self._here: tuple[Local, ...] = ()
        if ras:
            told = [(pid, dict(variables(by.tree, pid) or ())) for pid in self._pids]
            self._places = places(told)
            self._here = locals_of(by.tree, [user.reading for user in users])

    def glance(self, before: Mapping[int, Glance] | None = None) -> dict[int, Glance]:
        """Read the processes once."""
        return glance(self._by.tree, self._pids, self._by.clock, self._limited, before)

    def traffic(self) -> TrafficLook | None:
        """What NVLink has carried so far, where a job may use it."""
        return self._by.traffic(self._linked) if self._linked else None

    def watch(self, seconds: float) -> LoadWatch | None:
        """Begin to watch the GPUs of jobs that have several."""
        if not self._linked:
            return None
        return self._by.loads(self._linked, self._pids, self._by.tree, seconds)

    def replies(self, earlier: Sequence[RasReply] | None = None) -> tuple[RasReply, ...]:
        """Ask RAS; of places that were asked earlier those that answered in time."""
        if earlier is None:
            return tuple(self._reply(place) for place in self._places)
        return tuple(self._reply(one.place) if one.answers else one for one in earlier)

    def _reply(self, place: RasPlace) -> RasReply:
        return _settled(self._by.ras(place, self._wait), self._here)

    def states(
        self, replies: Sequence[RasReply], earlier: Sequence[RasReply], seen: Memory
    ) -> tuple[CommunicatorState, ...]:
        """The communicators by both answers, and since when each stands still."""
        now, gone = self._by.clock(), ended(self.jobs, (), (), self._by.tree)
        if any(has_ended(job, gone) for job in self.jobs):
            # The second answer may be another job's: texts do not tell which one speaks.
            earlier = tuple(_json_of(reply) for reply in earlier)
        return tuple(
            msgspec.structs.replace(state, quiet_seconds=quiet(seen, state.communicator.name, now))
            for state in communicator_states(replies, earlier)
        )


def _settled(reply: RasReply, here: Sequence[Local]) -> RasReply:
    """The same reply with our PIDs."""
    answers = tuple(settled(given, here) for given in reply.answers)
    return msgspec.structs.replace(reply, answers=answers)


def _json_of(reply: RasReply) -> RasReply:
    """The same reply without its texts."""
    answers = tuple(given for given in reply.answers if given.form is AnswerForm.JSON)
    return msgspec.structs.replace(reply, answers=answers)


def _told(replies: Sequence[RasReply]) -> tuple[RasAnswer, ...]:
    return tuple(given for reply in replies for given in reply.answers)


def _shared(job: Job, all_jobs: Sequence[Job]) -> tuple[str, ...]:
    """The GPUs of a job that another job uses too."""
    taken = {gpu for other in all_jobs if other is not job for gpu in other.gpus}
    return tuple(gpu for gpu in job.gpus if gpu in taken)


def answer(
    snapshot: NodeSnapshot,
    activities: dict[int, Activity],
    ras: Sequence[CommunicatorState],
    *,
    dumps: FoundDumps | None = None,
    replies: tuple[RasReply, ...] = (),
    asked: bool = False,
    tree: Tree | None = None,
    traffic: CarriedTraffic | None = None,
    past: TrafficPast | None = None,
    seconds: float | None = None,
    memory: Memory | None = None,
    recorded: bool = False,
    now: float | None = None,
    records: InspectorRecords | None = None,
    loads: JobLoads | None = None,
) -> JobsReport:
    """Say where every job stands, by what was read; `tree` tells which processes have ended.

    `now`: seconds since the epoch, which dumps are measured by.
    """
    found = jobs(snapshot)
    kept = dumps or FoundDumps()
    given = _told(replies)
    gone = {} if tree is None else ended(found, ras, given, tree)
    alive = [not has_ended(job, gone) for job in found]
    matched = match(found, ras, given, alive)
    inquiry = Inquiry(
        snapshot=snapshot,
        dumps=kept,
        records=records or InspectorRecords(),
        replies=replies,
        asked=asked,
        recorded=recorded,
        now=now,
    )
    told: list[JobState] = []
    for number, job in enumerate(found):
        evidence = JobEvidence(
            activities=activities,
            ended=gone,
            ras=matched.jobs[number],
            silent=tuple(lost for reply in matched.answers[number] for lost in reply.silent),
            world=job.world_size,
            assumed=matched.assumed[number],
            twice=bool(activities),
            traffic=traffic,
            past=past,
            loads=loads or JobLoads(),
            shared=_shared(job, found),
        )
        told.append(conclude(job, evidence, inquiry))
    told += [
        of_ras(snapshot.machine, JobEvidence(activities=activities, ended=gone, ras=part))
        for part in _by_answer(matched.rest)
    ]
    return JobsReport(
        # Those that something is wrong with come first, the worst of them on top.
        jobs=tuple(sorted(told, key=lambda job: min(job.verdict.order, JobVerdict.UNKNOWN.order))),
        ras=replies,
        ras_asked=asked,
        dumps=kept,
        traffic=traffic,
        seconds=seconds,
        memory=memory or {},
    )


def _by_answer(ras: Sequence[CommunicatorState]) -> list[tuple[CommunicatorState, ...]]:
    """The communicators of each answer: jobs that nobody names have one each."""
    parts = gathered_by(ras, lambda state: id(state.answer))
    return [tuple(part) for part in parts.values()]


def _linked(snapshot: NodeSnapshot, found: Sequence[Job]) -> tuple[str, ...]:
    """The NVIDIA GPUs of jobs that have several, where NVLink may be asked about."""
    wanted = {address for job in found if len(job.gpus) > 1 for address in job.gpus}
    gpus = (snapshot.machine.gpu(address) for address in wanted)
    return tuple(sorted(gpu.address for gpu in gpus if gpu and gpu.vendor == NVIDIA.id))


def _written(writers: Mapping[str, Sequence[int]]) -> tuple[list[str], list[tuple[str, str]]]:
    """The files of processes in the folders that they write into, and what is refused there."""
    paths: list[str] = []
    refused: list[tuple[str, str]] = []
    for folder, pids in writers.items():
        try:
            names, cut = listed(folder)
        except OSError as error:
            names, cut = [], [(folder, error.strerror or type(error).__name__)]
        refused += cut
        signs = tuple(f"-pid{pid}." for pid in pids)
        paths += [path for path in names if any(sign in path for sign in signs)]
    return paths, refused


def _records(
    found: Sequence[Job], activities: dict[int, Activity], chosen: str
) -> InspectorRecords:
    """The Inspector's records of the ranks here: in a chosen folder, else where they write them."""
    ours = namespaces("self").get("mnt")
    writers: dict[str, list[int]] = {}
    starts: list[float] = []
    for user in (user for job in found for user in job.processes):
        folder = chosen or _inspected_at(user, activities.get(user.pid), ours)
        if folder and user.reading.started_at is not None:
            writers.setdefault(folder, []).append(user.pid)
            starts.append(user.reading.started_at)
    paths, refused = _written(writers)
    told = read_records(paths, min(starts, default=0.0), follow=bool(chosen), most=NEWS_BYTES)
    return msgspec.structs.replace(told, refused=(*refused, *told.refused))


def _inspected_at(user: GpuUser, known: Activity | None, ours: object) -> str:
    """Where a rank says that its Inspector writes; "" where it has none, or sees other files."""
    own = {} if known is None else dict(known.variables or ())
    if own.get(INSPECTOR_ON) != "1" or not _sees_our_files(user, ours):
        return ""
    return own.get(INSPECTOR_FOLDER, "")


def _sees_our_files(user: GpuUser, ours: object) -> bool:
    """Whether a process is in our mount namespace, so that its paths are ours."""
    mount = dict(user.reading.namespaces or ()).get("mnt")
    return isinstance(ours, str) and mount is not None and f"[{mount}]" in ours


def _dumps(found: Sequence[Job], activities: dict[int, Activity]) -> FoundDumps:
    """Dumps where PyTorch writes them for the ranks here, of processes that see our files."""
    ours = namespaces("self").get("mnt")
    paths: list[str] = []
    starts: list[float] = []
    for job in found:
        for user in job.processes:
            rank, known = user.reading.rank, activities.get(user.pid)
            if rank is None or known is None or known.variables is None:
                continue
            if not _sees_our_files(user, ours):
                continue
            # At the same place an earlier job left its own: they are told apart by time alone.
            if user.reading.started_at is None:
                continue
            paths += expected(rank, dict(known.variables))
            starts.append(user.reading.started_at)
    return read(paths, min(starts, default=0.0))
