"""Gathers what lines contain: processes, communicators, variables, notes, counts."""

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from ...model.versions import LibraryName, Product
from ...recorded.said_versions import LIBRARIES, MOST_SAID, SaidVersion, versions_in
from ..report.communicator import STARTED
from ..report.own_diagnostics import OwnDiagnosticsLines
from ..report.report import OTHER, LoggedVersions, LogNote, NoteLevel, Variable
from ..report.text import plain, shape
from .building import MAX_COMMUNICATORS, CommBuilder, Process
from .milestones import Milestones
from .prefix import Speaker
from .torch_progress import TorchProgress

MAX_NOTES = 500
MAX_PROCESSES = 20_000
MAX_VARIABLES = 2000
MAX_UNKNOWN = 60
MAX_UNREAD = 40
MAX_HOSTS_NAMED = 8
MAX_RANKS_NAMED = 64
MAX_LEFT_OUT = 50_000
"""Most things of a kind that are told apart, of those that are left out."""

NoteKey = tuple[str, bytes]
Key = TypeVar("Key")

MAX_SPEAKERS = 100_000
"""Most pairs of a variable's value and a process; beyond them no rank is called silent."""
SPEAKERS_MAX_RANKS_NAMED = 64

READ_FOR_PLAN = {
    "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_CUMEM_ENABLE", "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_CROSS_NIC",
}  # fmt: skip
"""Variables that every rank has read when it prints its trees (graph/paths.cc, graph/search.cc)."""
READ_AT_START = {
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_NTHREADS", "NCCL_BUFFSIZE", "NCCL_LL_BUFFSIZE",
    "NCCL_LL128_BUFFSIZE",
}  # fmt: skip
"""Variables that every rank has read when it is ready (graph/tuning.cc, init.cc)."""

ProcessKey = tuple[str, int]
"""Host and process id."""


class Speakers:
    """Gathers who said what; asked once the log is read."""

    def __init__(self) -> None:
        self._by_value: dict[tuple[str, str], set[ProcessKey]] = {}
        self._from_start: set[ProcessKey] = set()
        """Processes of which the log has the first lines."""
        self._planned: set[ProcessKey] = set()
        """Processes that printed their trees."""
        self._count = 0

    def began(self, process: Process) -> None:
        """Note that the log has the beginning of what this process prints."""
        if len(self._from_start) < MAX_SPEAKERS:
            self._from_start.add((process.host, process.pid))

    def planned(self, process: Process) -> None:
        """Note that a process has decided on its channels."""
        if len(self._planned) < MAX_SPEAKERS:
            self._planned.add((process.host, process.pid))

    def said(self, key: tuple[str, str], process: Process) -> None:
        """Note that a process says that it read a variable; `key` is its name and value."""
        self.began(process)
        if self._count < MAX_SPEAKERS:
            known = self._by_value.setdefault(key, set())
            self._count += (process.host, process.pid) not in known
            known.add((process.host, process.pid))

    def ranks(self, key: tuple[str, str], comm: CommBuilder | None) -> tuple[int, ...]:
        """The ranks that read this value, at most MAX_RANKS_NAMED."""
        said = self._by_value.get(key, set())
        return tuple(sorted(_ranks(comm, said))[:SPEAKERS_MAX_RANKS_NAMED])

    def silent(self, name: str, comm: CommBuilder | None) -> tuple[int, ...]:
        """The ranks that never read `name`, came far enough for it, and whose lines are there."""
        if comm is None or self._count >= MAX_SPEAKERS:
            return ()
        if name in READ_FOR_PLAN:
            far = self._planned
        elif name in READ_AT_START:
            far = {
                (rank.host, rank.pid)
                for rank in comm.ranks.values()
                if rank.state is not STARTED and rank.host is not None and rank.pid is not None
            }
        else:
            return ()
        said = {who for (seen, _), by in self._by_value.items() if seen == name for who in by}
        quiet = (far & self._from_start) - said
        return tuple(sorted(_ranks(comm, quiet))[:SPEAKERS_MAX_RANKS_NAMED]) if far & said else ()


def _ranks(comm: CommBuilder | None, processes: Iterable[ProcessKey]) -> list[int]:
    known = set(processes)
    ranks = comm.ranks.values() if comm is not None else ()
    return [rank.rank for rank in ranks if (rank.host, rank.pid) in known]


class _Seen:
    """How often something was said, by whom, and on which line first."""

    __slots__ = ("count", "hosts", "line", "ranks", "text", "where")

    def __init__(self, text: bytes, line: int, where: str | None) -> None:
        self.text, self.line, self.where = text, line, where
        self.count = 0
        self.hosts: dict[str, None] = {}
        self.ranks: set[int] = set()

    def by(self, process: Process | None) -> None:
        self.count += 1
        if process is None:
            return
        if process.host and len(self.hosts) < MAX_HOSTS_NAMED:
            self.hosts[process.host] = None
        if process.rank >= 0 and len(self.ranks) < MAX_RANKS_NAMED:
            self.ranks.add(process.rank)

    def note(self, level: str) -> LogNote:
        return LogNote(
            level=NoteLevel(level),
            text=plain(self.text.strip()),
            where=self.where,
            line=self.line,
            count=self.count,
            hosts=tuple(self.hosts),
            ranks=tuple(sorted(self.ranks)),
        )


class GatheredLog:
    """Filled by the readers of single lines; `read.py` makes a report of it."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.versions = LoggedVersions()
        self.bootstrap: dict[str, None] = {}
        self.more: Counter[str] = Counter()
        self.cut = 0
        self.where: str | None = None
        """The source file that the line being read names."""
        self.level = "INFO"
        self._processes: dict[tuple[str, int, int | None], Process] = {}
        self._comms: dict[str, CommBuilder] = {}
        self._pointers: dict[tuple[str, int, bytes], tuple[CommBuilder, int]] = {}
        self._notes: dict[NoteKey, _Seen] = {}
        self._unread: dict[bytes, _Seen] = {}
        self._unknown: dict[bytes, _Seen] = {}
        self._variables: dict[tuple[str, str], _Seen] = {}
        self._remarks: dict[tuple[str, str], str] = {}
        self._pasted: set[tuple[str, str]] = set()
        """Variables that stand in the text and that no line of the library confirms."""
        self.openings: list[tuple[int, bytes]] = []
        """The first lines that speak of nothing known, with their numbers."""
        self.context: list[tuple[int, bytes]] = []
        """The first lines without the library's head, with their numbers."""
        self.suspects: list[tuple[int, bytes]] = []
        """The first lines that speak of a failure in words that no pattern knows."""
        self.busy: tuple[LogNote, ...] | None = None
        """What went on before the first timeout of a collective; None before one is seen."""
        self.speakers = Speakers()
        self.progress = TorchProgress()
        self.milestones = Milestones()
        self.diagnostics = OwnDiagnosticsLines()
        self.nobody = Process(host="", pid=0, cuda_dev=None)
        """Lines without a readable head."""
        self.transports = 0
        self._left_out: dict[str, set[int]] = {}
        self._said: dict[tuple[Product, str], SaidVersion] = {}

    def is_rccl(self) -> None:
        """Note that a line comes from RCCL alone; a line with the version has precedence."""
        if self.versions.library is None:
            self.versions = msgspec.structs.replace(self.versions, library=LibraryName.RCCL)

    def framework_version(self, version: str, line: int) -> None:
        """Keep the version that PyTorch names; the library stays open: it calls RCCL NCCL too."""
        self.versions = msgspec.structs.replace(self.versions, version=version, line=line)

    def say(self, text: str, line: int) -> None:
        """Keep the versions that a line names, each once."""
        for one in versions_in(text, line):
            if len(self._said) < MOST_SAID:
                self._said.setdefault((one.product, one.version), one)

    def all_versions(self) -> LoggedVersions:
        """The library that wrote the log, and all that lines say of any product; at the end."""
        for seen in self._notes.values():
            self.say(plain(seen.text, 400), seen.line)
        said = sorted(self._said.values(), key=lambda one: one.line)
        beside = tuple(one for one in said if one.product not in LIBRARIES.values())
        found = msgspec.structs.replace(self.versions, beside=beside or None)
        named = [
            (library, one)
            for library, product in LIBRARIES.items()
            for one in said
            if one.product is product and found.library in (None, library)
        ]
        if found.version is not None or len({one.version for _, one in named}) != 1:
            return found
        library, one = named[0]
        return msgspec.structs.replace(found, library=library, version=one.version, line=one.line)

    def process(self, speaker: Speaker | None) -> Process:
        """Return the process that speaks; a new one is made."""
        if speaker is None:
            return self.nobody
        key = (speaker.host, speaker.pid, speaker.cuda_dev)
        found = self._processes.get(key)
        if found is None:
            if len(self._processes) >= MAX_PROCESSES:
                self._leave_out("processes", key)
                return self.nobody
            found = self._processes[key] = Process(*key)
        return found

    def processes(self) -> list[Process]:
        """All processes, with the one for lines without a head."""
        return [*self._processes.values(), self.nobody]

    def communicator(self, ident: str, nranks: int, line: int) -> CommBuilder | None:
        """Return the communicator with that name, made if new; None when there are too many."""
        found = self._comms.get(ident)
        if found is None:
            if len(self._comms) >= MAX_COMMUNICATORS:
                self._leave_out("communicators", ident)
                return None
            found = self._comms[ident] = CommBuilder(ident, line, nranks)
        return found

    def _leave_out(self, what: str, key: object) -> None:
        """Count one of the things that are left out, of which several lines speak."""
        seen, one = self._left_out.setdefault(what, set()), hash(key)
        if len(seen) < MAX_LEFT_OUT:
            seen.add(one)
            self.more[what] = len(seen)
        elif one not in seen:
            self.more[f"{what} or more"] = self.more.pop(what, MAX_LEFT_OUT)

    def rename(self, comm: CommBuilder, ident: str) -> None:
        """Give a communicator the name that came late, unless another one has that name."""
        if ident not in self._comms:
            named = {ident if known is comm else key: known for key, known in self._comms.items()}
            comm.ident, self._comms = ident, named

    def count_left_out(self) -> None:
        """Count what the communicators and reports left out; once, at the end."""
        for comm in self._comms.values():
            self.more.update(comm.left_out)
            self.more["System blocks"] += comm.systems.left_out
            self.more["graphs"] += comm.graphs.left_out
        self.more["lines of NCCL's diagnostics"] += self.diagnostics.left_out
        self.more["lines of PyTorch's watchdog"] += self.progress.left_out

    def communicators(self) -> list[CommBuilder]:
        """All communicators in order of appearance."""
        return list(self._comms.values())

    def point(self, process: Process, pointer: bytes, comm: CommBuilder, rank: int) -> None:
        """Remember the address by which a process names a communicator."""
        if len(self._pointers) < 4 * MAX_PROCESSES:
            self._pointers[process.host, process.pid, pointer] = (comm, rank)

    def pointed(self, process: Process, pointer: bytes) -> tuple[CommBuilder, int] | None:
        """The communicator behind an address, and the rank of the process in it."""
        return self._pointers.get((process.host, process.pid, pointer))

    def note(self, level: str, process: Process | None, text: bytes, line: int) -> None:
        """Keep a warning, an error or a remark; equal ones are counted."""
        key = level, shape(text)
        seen = self._notes.get(key)
        if seen is not None:
            seen.by(process)
        else:
            _see(self._notes, key, text, line, process, self, MAX_NOTES, "lines of further notes")

    def unread(self, process: Process | None, text: bytes, line: int) -> None:
        """Count a line whose form is unknown although it carries a decision."""
        key = shape(text)[:80]
        _see(self._unread, key, text, line, process, self, MAX_UNREAD, "unread lines")

    def unknown(self, process: Process | None, text: bytes, line: int) -> None:
        """Count a line of unknown form."""
        key = shape(text)[:40]
        _see(self._unknown, key, text, line, process, self, MAX_UNKNOWN, "unknown lines")

    def variable(
        self, process: Process, name: bytes, value: bytes, line: int, remark: str | None = None
    ) -> None:
        """Keep a variable that the library says it read."""
        key = (plain(name, 80), plain(value, 200))
        limit = MAX_VARIABLES
        _see(self._variables, key, value, line, process, self, limit, "lines of further variables")
        self._pasted.discard(key)
        self.speakers.said(key, process)
        if remark is not None and key in self._variables:
            self._remarks[key] = remark

    def pasted(self, name: bytes, value: bytes, line: int) -> None:
        """Keep a variable that the text sets, in a script or in the output of `env`."""
        key = (plain(name, 80), plain(value, 200))
        limit, new = MAX_VARIABLES, key not in self._variables
        _see(self._variables, key, value, line, None, self, limit, "lines of further variables")
        if new and key in self._variables:
            self._pasted.add(key)

    def notes(self) -> tuple[LogNote, ...]:
        """Warnings and remarks, in order of appearance."""
        found = [seen.note(level) for (level, _), seen in self._notes.items()]
        return tuple(sorted(found, key=lambda note: note.line))

    def unread_notes(self) -> tuple[LogNote, ...]:
        """Examples of what should have been read and was not."""
        return tuple(seen.note("INFO") for seen in self._unread.values())

    def unknown_notes(self) -> tuple[LogNote, ...]:
        """Examples of lines of unknown form."""
        return tuple(seen.note("INFO") for seen in self._unknown.values())

    def variables(self) -> tuple[Variable, ...]:
        """Variables by name; a variable appears once for each value that ranks read."""
        largest = max(self._comms.values(), key=lambda comm: comm.nranks, default=None)
        found = [
            Variable(
                name=name,
                value=value,
                line=seen.line,
                count=seen.count,
                hosts=tuple(seen.hosts),
                remark=self._remarks.get((name, value)),
                pasted=(name, value) in self._pasted,
                ranks=self.speakers.ranks((name, value), largest),
                unread_by=self.speakers.silent(name, largest),
            )
            for (name, value), seen in self._variables.items()
        ]
        return tuple(sorted(found, key=lambda variable: (variable.name, variable.line)))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host that speaks, in order of appearance."""
        return tuple(dict.fromkeys(process.host for process in self._processes.values()))


def numbered(lines: list[tuple[int, bytes]]) -> tuple[LogNote, ...]:
    """Lines with their numbers as notes."""
    return tuple(
        LogNote(level=OTHER, text=plain(text.strip()), line=number) for number, text in lines
    )


def _see(
    where: dict[Key, _Seen],
    key: Key,
    text: bytes,
    line: int,
    process: Process | None,
    log: GatheredLog,
    limit: int,
    what: str,
) -> None:
    seen = where.get(key)
    if seen is None:
        if len(where) >= limit:
            log.more[what] += 1
            return
        seen = where[key] = _Seen(text[:1600], line, log.where)
    seen.by(process)
