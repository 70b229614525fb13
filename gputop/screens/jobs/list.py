"""The list of jobs with their processes, and the two lines above it: who runs, what is wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from gputop.screens.charts import links_past
from gputop.screens.jobs.standing import SaidOfRank, short
from gputop.terminal.clean import clean
from gputop.topology.jobs.binding import FAR, NEAR, ONE_NODE, PARTLY, binding, crowded, together
from gputop.topology.jobs.grouping import GpuUser, Job
from gputop.topology.model.cpulist import written
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.units import UNKNOWN, percent, seconds, size, whole
from gputop.topology.wiring.gpu_names import gpu_names
from gputop.topology.wiring.graph import gpu_numa
from gputop.widgets.named_list import NamedList, with_order
from gputop.widgets.spans import Line, Span, cut, left, right, text_of, width_of, wrapped

if TYPE_CHECKING:
    from gputop.live.recent import Recent
    from gputop.topology.model.finding import Finding
    from gputop.topology.model.machine import Gpu
    from gputop.topology.model.readings import ProcessReading

COLUMNS = (
    ("rank", 4),
    ("pid", 7),
    ("GPU", 6),
    ("last collective", 15),
    ("behind", 6),
    ("waits", 6),
    ("core", 6),
    ("GPU mem", 8),
    ("host", 8),
    ("link 60 s", 11),
    ("NUMA", 9),
    ("state", 10),
    ("util", 5),
    ("program", 11),
    ("user", 8),
    ("age", 7),
    ("CPUs", 14),
)
"""Head and width; what does not fit is left out from the right."""
SORTS = ("GPU mem", "core", "host", "user", "program")
"""By what a key sorts, one after the other."""
NUMBERS = ("behind", "waits", "core", "GPU mem", "host", "util", "age")
SPARK = 11
INDENT = 3
UUID = re.compile(r"\b([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
"""torchrun generates an id for a run without a name; its beginning is enough in a list."""
BOUND = {
    NEAR: ("near", "good"),
    PARTLY: ("partly", ""),
    FAR: ("✗ far", "bad"),
    ONE_NODE: ("one node", "muted"),
    None: (UNKNOWN, "muted"),
}
"""How CPUs are bound against the GPU's NUMA node: word and ink."""
CROWDED = ("✗ shared", "bad")
"""Where several ranks are bound to fewer CPUs than they are, which is worse than far."""
STATES = {"zombie": "bad", "stopped": "warn", "traced": "warn", "disk sleep": "warn"}
"""States that are worth showing."""


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line: a job, or one of its processes."""

    name: str
    job: Job
    user: GpuUser | None = None
    """None in the line of the job itself."""
    sign: tuple[str, str] = ("", "")
    """What is wrong with it, or with its GPUs: a sign and its ink."""
    cells: tuple[tuple[str, str], ...]
    """Text and ink: one for a job, one a column for a process."""


def rows_of(
    jobs: Sequence[Job],
    snapshot: NodeSnapshot,
    signs: Mapping[int, tuple[str, str]] | None = None,
    said: Mapping[int, SaidOfRank] | None = None,
    recent: Recent | None = None,
) -> tuple[JobRow, ...]:
    """A line for each job, and one below it for each of its processes.

    `signs`: process id -> the sign of what is wrong there, and its ink; `said`: what its job says
    of it; `recent`: what the GPUs carried lately.
    """
    shared = crowded(user.reading for job in jobs for user in job.processes)
    rows: list[JobRow] = []
    for job in jobs:
        rows.append(
            JobRow(name=f"job:{job.key}", job=job, cells=((_summary(job, snapshot), "strong"),))
        )
        for user in job.processes:
            told = (said or {}).get(user.pid)
            cells = _cells(user, snapshot, told, recent, crowded=user.pid in shared)
            sign = (signs or {}).get(user.pid, ("", ""))
            rows.append(JobRow(name=f"pid:{user.pid}", job=job, user=user, sign=sign, cells=cells))
    return tuple(rows)


def age(started_at: float | None, snapshot: NodeSnapshot) -> str:
    """How long it had been running when the snapshot was made."""
    if started_at is None or started_at > snapshot.taken_at:
        return UNKNOWN
    return seconds(snapshot.taken_at - started_at)


def ranks_here(job: Job) -> str:
    """How many ranks or processes: "6 of 16 ranks", "1 process"."""
    count = len(job.processes)
    ranks = [user for user in job.processes if user.reading.rank is not None]
    if job.world_size is not None and len(ranks) == count:
        return f"{count} of {job.world_size} ranks" if job.world_size != count else f"{count} ranks"
    return f"{count} process{'es' * (count > 1)}"


def _summary(job: Job, snapshot: NodeSnapshot) -> str:
    parts = (
        UUID.sub(r"\1…", job.name),
        ", ".join(job.users),
        ranks_here(job),
        gpu_names(job.gpus, snapshot.machine),
        "" if job.memory_bytes is None else size(job.memory_bytes),
        "" if job.started_at is None else age(job.started_at, snapshot),
    )
    return " · ".join(clean(part, 60) for part in parts if part)


def _cells(
    user: GpuUser,
    snapshot: NodeSnapshot,
    said: SaidOfRank | None,
    recent: Recent | None,
    *,
    crowded: bool,
) -> tuple[tuple[str, str], ...]:
    process = user.reading
    gpus = [gpu for address in user.gpus if (gpu := snapshot.machine.gpu(address)) is not None]
    readings = filter(None, map(snapshot.readings.gpu, user.gpus))
    shares = [gpu.utilization_percent for gpu in readings if gpu.utilization_percent is not None]
    return (
        (whole(process.rank), _ink(process.rank)),
        (str(user.pid), ""),
        (gpu_names(user.gpus, snapshot.machine), ""),
        *_said_cells(said),
        (size(user.memory_bytes), _ink(user.memory_bytes)),
        (size(process.memory_bytes), _ink(process.memory_bytes)),
        _carried(gpus, recent),
        CROWDED if crowded else _bound_cell(process, gpus, snapshot),
        (process.state or UNKNOWN, STATES.get(process.state or "") or _ink(process.state)),
        (percent(sum(shares) / len(shares)) if shares else UNKNOWN, ""),
        (process.command or "not readable", _ink(process.command)),
        (process.user or UNKNOWN, _ink(process.user)),
        (short(age(process.started_at, snapshot)), _ink(process.started_at)),
        (process.cpu_affinity or UNKNOWN, "bad" if crowded else _ink(process.cpu_affinity)),
    )


def _said_cells(said: SaidOfRank | None) -> tuple[tuple[str, str], ...]:
    """What its job says of it: last collective, how far behind, how long it waits, its core."""
    if said is None:
        unknown = UNKNOWN, "muted"
        return unknown, ("", "bad"), unknown, unknown
    last = said.rank.last
    return (
        (UNKNOWN if last is None else last.name, _ink(last)),
        (f"-{said.behind}" if said.behind else "", "bad"),
        *((text, "muted" if text == UNKNOWN else "") for text in (said.waits, said.core)),
    )


def _bound_cell(
    process: ProcessReading, gpus: Sequence[Gpu], snapshot: NodeSnapshot
) -> tuple[str, str]:
    """The NUMA node of its GPUs, and how its CPUs are bound against that."""
    bound = together(tuple(binding(snapshot.machine, process, gpu) for gpu in gpus))
    numa = written({node for gpu in gpus if (node := gpu_numa(gpu)) is not None})
    where, ink = BOUND[bound]
    return f"{numa} {where}" if numa else where, ink


def _carried(gpus: Sequence[Gpu], recent: Recent | None) -> tuple[str, str]:
    """What the links of its GPU carried in the last minute; of one of several nothing is said."""
    if recent is None or len(gpus) != 1:
        return UNKNOWN, "muted"
    text = text_of(links_past(gpus[0], recent, SPARK, "link-nvlink"))
    return (text, "link-nvlink") if text.strip() else (UNKNOWN, "muted")


def _ink(value: object) -> str:
    return "muted" if value is None else ""


class JobList(NamedList):
    """The rows; a double click asks why."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(fixed_rows=1, id=id, classes=classes)
        self._rows: tuple[JobRow, ...] = ()
        self._nothing = ""
        self.filter = ""
        """Words that all have to be in a line: a job's, or one of its processes'."""

    @property
    def row(self) -> JobRow | None:
        """The line under the cursor; None when there is none."""
        return self._rows[self.place] if self._rows else None

    def select_about(self, device: str) -> None:
        """Put the cursor on what uses this GPU, unless it is there."""
        here = self.row
        if here is None or device in _gpus(here):
            return
        found = next((row for row in self._rows if device in _gpus(row)), here)
        self.selected = found.name

    def show_rows(self, rows: Sequence[JobRow], nothing: str) -> None:
        """Put these rows on screen, or say why there is none."""
        found = matching(rows, self.filter)
        if rows and not found:
            nothing = f"no process matches “{clean(self.filter, 60)}”"
        self._rows, self._nothing = tuple(self._sorted(found)), nothing
        moved = self.take_names(row.name for row in self._rows)
        self.draw()
        if rows and moved:
            self.call_after_refresh(self.reveal_cursor)

    def sort_to(self, title: str) -> None:
        """Go by this column, figures with the largest first; "" for the order as given."""
        self.column, self._turns = title, 0
        self.post_message(self.Picked(self.selected))

    def _sorted(self, rows: Sequence[JobRow]) -> Iterator[JobRow]:
        """The processes of each job by the column whose heading was clicked."""
        shown = COLUMNS
        known = {row.name: row for row in rows}
        for row in rows if self.column else ():
            if row.user is None:
                yield row
                names = [one.name for one in rows if one.user is not None and one.job is row.job]
                head, line = (
                    _head(shown),
                    lambda name: _line(known[name].cells, shown, " ", ("", "")),
                )
                yield from (known[name] for name in self.in_order(names, head, line))
        yield from () if self.column else rows

    def draw(self) -> None:
        """Draw the rows."""
        width = self.scrollable_content_region.width or 78
        if not self._rows:
            self.show(((), *wrapped(((f" {self._nothing}", "muted"),), width, 1)))
            return
        shown = _fitting(width)
        lines = [with_order(_head(shown), self.column, falling=self.falling)]
        lines += [self._draw_row(row, shown, width) for row in self._rows]
        self.show(lines, self.marks_at(width))

    def _draw_row(self, row: JobRow, shown: Sequence[tuple[str, int]], width: int) -> Line:
        mark = "›" if row.name == self.selected else " "
        if row.user is None:
            text, ink = row.cells[0]
            return ((mark, "strong"), (left(text, width - 1), ink))
        return _line(row.cells, shown, mark, row.sign)


def matching(rows: Sequence[JobRow], words: str) -> tuple[JobRow, ...]:
    """The processes in whose line, or in whose job's name, every word occurs; and their jobs."""
    wanted = words.lower().split()

    def fits(row: JobRow) -> bool:
        text = " ".join([row.job.name, *(text for text, _ in row.cells)]).lower()
        return all(word in text for word in wanted)

    found = [row for row in rows if row.user is not None and fits(row)]
    names = {row.name for row in found}
    held = {id(row.job) for row in found}
    return tuple(
        row for row in rows if row.name in names or (row.user is None and id(row.job) in held)
    )


def _gpus(row: JobRow) -> tuple[str, ...]:
    return row.job.gpus if row.user is None else row.user.gpus


def _fitting(width: int) -> tuple[tuple[str, int], ...]:
    """The columns that fit."""
    found: list[tuple[str, int]] = []
    used = INDENT
    for head, size_ in COLUMNS:
        used += size_ + 1
        if used > width + 1:
            break
        found.append((head, size_))
    return tuple(found)


def _head(shown: Sequence[tuple[str, int]]) -> Line:
    return _line([(head, "muted") for head, _ in shown], shown, " ", ("", ""))


def _line(
    cells: Sequence[tuple[str, str]],
    shown: Sequence[tuple[str, int]],
    mark: str,
    sign: tuple[str, str],
) -> Line:
    line = [(mark, "strong"), (sign[0].ljust(INDENT - 1), sign[1])]
    for (text, ink), (head, width) in zip(cells, shown, strict=False):
        place = right if head in NUMBERS else left
        line.append((place(clean(text, 60), width) + " ", ink))
    return tuple(line)


PLACES = {
    NEAR: "near their GPU",
    PARTLY: "partly far from it",
    FAR: "far from it",
    None: "not known",
}
"""Where the CPUs of a rank are; on a host with one NUMA node the question does not arise."""


def _on_two_lines(sentence: Line, width: int) -> tuple[Line, ...]:
    """What is said of a job, on two lines if need be."""
    (text, ink), *tail = sentence
    first, *rest = wrapped(((text, ink),), width, 2)
    if not rest and width_of(sentence) <= width:
        return (sentence,)
    more = " ".join(text_of(line).strip() for line in rest)
    return first, (*cut(((f"  {more}", ink),), width - width_of(tail)), *tail)


def _loudest(crowd: int, findings: Sequence[Finding]) -> Line:
    """That processes crowd on CPUs, else the worst finding."""
    if crowd:
        ranks = f"{crowd} processes are bound to fewer CPUs than they are"
        return ("▼ ", "warn bold"), (ranks, "warn bold")
    sign, ink, _ = findings[0].severity.shown
    more = f" · {len(findings) - 1} more" if len(findings) > 1 else ""
    return (f"{sign} {clean(findings[0].title, 200)}", f"{ink} bold".strip()), (more, "muted")


def head_lines(
    found: Sequence[Job],
    snapshot: NodeSnapshot,
    findings: Sequence[Finding],
    width: int,
    sentence: Line | None = None,
    step: str = "",
) -> tuple[Line, ...]:
    """How the job stands that is worst off, and what to do; without one the worst finding.

    `sentence`: what is said of that job, on two lines if need be; `step`: what to do about it.
    """
    told = () if sentence is None else _on_two_lines(sentence, width)
    jobs, free = _jobs(found, snapshot), _free(snapshot)
    if told and step:
        do: Line = (("  Do ", "muted"), (clean(step, 200), "strong"), ("  y copies", "muted"))
        return (*told, cut((*do, *free), width))
    crowd = crowded(user.reading for job in found for user in job.processes)
    if crowd or findings:
        loud = cut(_loudest(len(crowd), findings), width)
        return (*told, loud, *(() if told else (cut((*jobs, *free), width),)))
    if told:
        return (*told, cut((("  ", ""), *jobs, *free), width))
    return cut((*jobs, *free), width), cut(_bound(found, snapshot), width)


def _jobs(found: Sequence[Job], snapshot: NodeSnapshot) -> tuple[Span, ...]:
    if not found:
        return (("No process is seen on the GPUs", "strong"),)
    first = found[0]
    started = "" if first.started_at is None else f", {age(first.started_at, snapshot)}"
    gpus = gpu_names(first.gpus, snapshot.machine)
    if len(found) == 1:
        text = f"{clean(first.name, 40)}: {ranks_here(first)} on {gpus}{started}"
        return ((text, "strong"),)
    held = {address for job in found for address in job.gpus}
    named = ", ".join(clean(job.name, 30) for job in found[:3]) + ", …" * (len(found) > 3)
    return (
        (f"{len(found)} jobs on {gpu_names(sorted(held), snapshot.machine)}: ", "strong"),
        (named, ""),
    )


def _free(snapshot: NodeSnapshot) -> tuple[Span, ...]:
    """The GPUs whose list of processes is known to be empty."""
    free = [gpu.address for gpu in snapshot.readings.gpus if gpu.processes == ()]
    hidden = sum(gpu.processes is None for gpu in snapshot.readings.gpus)
    spans: list[Span] = []
    if free:
        spans.append((f" · {gpu_names(free, snapshot.machine)} free", "good"))
    if hidden:
        spans.append((f" · processes of {hidden} GPUs not read", "muted"))
    return tuple(spans)


def _bound(found: Sequence[Job], snapshot: NodeSnapshot) -> tuple[Span, ...]:
    """How many processes run near their GPUs."""
    counts = Counter(_place(user, snapshot) for job in found for user in job.processes)
    counts.pop(ONE_NODE, None)
    if not counts:
        return ()
    spans: list[Span] = [("CPUs of the processes:", "muted")]
    for place, words in PLACES.items():
        if counts[place]:
            comma = "," * (len(spans) > 1)
            ink = "warn" if place in (PARTLY, FAR) else "muted"
            spans += [(f"{comma} ", "muted"), (f"{counts[place]} {words}", ink)]
    return tuple(spans)


def _place(user: GpuUser, snapshot: NodeSnapshot) -> str | None:
    gpus = [gpu for address in user.gpus if (gpu := snapshot.machine.gpu(address)) is not None]
    return together(tuple(binding(snapshot.machine, user.reading, gpu) for gpu in gpus))
