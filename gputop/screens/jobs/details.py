"""The panel beside the list of jobs: everything about one job, or about one of its processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from gputop.screens.jobs.list import JobRow, age, ranks_here
from gputop.terminal.clean import clean
from gputop.topology.diagnosis.rules.network.sockets import chosen
from gputop.topology.diagnosis.shared.job_variables import differing
from gputop.topology.hardware.terms import terms_of
from gputop.topology.jobs.binding import FAR, NEAR, ONE_NODE, PARTLY, Binding, binding
from gputop.topology.model.severity import FlagStatus
from gputop.topology.model.units import UNKNOWN, figure, percent, seconds, size, whole
from gputop.topology.wiring.gpu_names import gpu_label, gpu_names
from gputop.widgets.spans import Line, left, wrapped

if TYPE_CHECKING:
    from gputop.screens.jobs.variables import VariableDetails
    from gputop.topology.jobs.grouping import GpuUser, Job
    from gputop.topology.model.finding import Finding
    from gputop.topology.model.readings import ProcessReading
    from gputop.topology.model.snapshot import NodeSnapshot

LABEL = 12
CPUS = {
    NEAR: "all of them at this GPU's NUMA node",
    PARTLY: "some at this GPU's NUMA node, some at another",
    FAR: "none of them at this GPU's NUMA node",
    ONE_NODE: "the host has one NUMA node",
    None: "it is not known which are near this GPU",
}
MEMORY = {
    NEAR: "this GPU's node alone",
    PARTLY: "this GPU's node and others",
    FAR: "not this GPU's node",
    ONE_NODE: "the only node",
    None: "it is not known which is near this GPU",
}
KINDS = ("ipc", "mnt", "net", "uts")
"""Namespaces that decide whether two ranks can reach each other."""
Fact = tuple[str, str, str]
"""Name, value, ink."""

LEAST_BYTES = 64 * 2**20
"""Change that is worth a word: buffers and caches come and go."""
LEAST_SECONDS = 20.0
MOST_NAMED = 4


def heading(row: JobRow) -> str:
    """What the panel is about: "torchrun run-7", "python3 4711, rank 3"."""
    if row.user is None:
        return row.job.name
    process = row.user.reading
    rank = "" if process.rank is None else f", rank {process.rank}"
    return f"{process.command or 'process'} {row.user.pid}{rank}"


def detail_lines(
    row: JobRow,
    snapshot: NodeSnapshot,
    details: VariableDetails | None,
    findings: Sequence[Finding],
    width: int,
) -> tuple[Line, ...]:
    """Oddities first, then identity, binding and variables, and at last what is not known."""
    lines: list[Line] = []
    for finding in findings:
        lines += wrapped(((f"! {clean(finding.title, 200)}", "warn"),), width, 2)
    parts = _job(row.job, snapshot) if row.user is None else _process(row.user, row.job, snapshot)
    for title, facts in parts:
        shown = [
            line
            for name, value, ink in facts
            for line in wrapped(
                ((f" {left(name, LABEL)}", "muted"), (clean(value), _dim(value, ink))),
                width,
                LABEL + 1,
            )
        ]
        if shown:
            lines += [
                *([()] if lines else []),
                *([((title, "key bold"),)] if title else []),
                *shown,
            ]
    lines += _variables(row, details, width)
    lines += _hidden(row, width)
    return tuple(lines)


def _dim(value: str, ink: str) -> str:
    return "muted" if value == UNKNOWN else ink


def _job(job: Job, snapshot: NodeSnapshot) -> Iterator[tuple[str, list[Fact]]]:
    yield (
        "",
        [
            ("User", ", ".join(job.users) or UNKNOWN, ""),
            ("Here", ranks_here(job), ""),
            *([("World size", str(job.world_size), "")] if job.world_size else []),
            ("GPUs", gpu_names(job.gpus, snapshot.machine), ""),
            ("Memory", f"{size(job.memory_bytes)} of GPU memory", ""),
            ("Age", age(job.started_at, snapshot), ""),
            *[("" if at else "Growing", text, "") for at, text in enumerate(growing(job))],
        ],
    )
    yield "Between ranks", list(_ranks(job))
    different = differing([user.reading for user in job.processes])
    if different:
        yield (
            "Variables that differ",
            [
                (
                    "",
                    f"{name}: "
                    + "; ".join(
                        f"{'not set' if value is None else value} on {_places(ranks)}"
                        for value, ranks in values.items()
                    ),
                    "warn",
                )
                for name, values in different.items()
            ],
        )


def _places(ranks: Sequence[int]) -> str:
    named = [str(rank) for rank in ranks if rank >= 0]
    return f"rank {', '.join(named)}" if named else f"{len(ranks)} processes"


def _ranks(job: Job) -> Iterator[Fact]:
    for what, value in (
        ("Rendezvous", {user.reading.rendezvous for user in job.processes}),
        ("Host name", {user.reading.hostname for user in job.processes}),
        ("/dev/shm", {_device(user.reading) for user in job.processes}),
    ):
        known = sorted(str(item) for item in value if item is not None)
        if known:
            alone = len(known) == 1
            if what == "/dev/shm" and alone and None not in value and len(job.processes) > 1:
                known = ["shared by all ranks"]
            yield what, ", ".join(known), "" if alone else "warn"


def _device(process: ProcessReading) -> str | None:
    return None if process.shm_device is None else f"device {process.shm_device}"


def _process(user: GpuUser, job: Job, snapshot: NodeSnapshot) -> Iterator[tuple[str, list[Fact]]]:
    process = user.reading
    parent = (
        f"{process.parent} {process.parent_command or ''}".strip() if process.parent else UNKNOWN
    )
    memory = f"{size(user.memory_bytes)} on GPUs, {size(process.memory_bytes)} of the host"
    grown = grown_words(process)
    yield (
        "",
        [
            ("Job", f"{job.name}, user {process.user or UNKNOWN}", ""),
            ("Rank", f"{_rank(process)}, {age(process.started_at, snapshot)} old", ""),
            ("State", f"{process.state or UNKNOWN}, started by {parent}", ""),
            ("Memory", memory, ""),
            *([("", f"of the host: {grown}", "")] if grown else []),
            *([("Arguments", " ".join(process.arguments), "")] if process.arguments else []),
        ],
    )
    yield "GPUs and binding", list(_binding(user, snapshot))
    yield "Limits", list(_limits(process))
    yield "Network", list(_network(process, job, snapshot))


def _rank(process: ProcessReading) -> str:
    if process.rank is None:
        return UNKNOWN
    parts = [f"{process.rank}"]
    parts += [f"of {process.world_size}"] * (process.world_size is not None)
    parts += [f"(local {process.local_rank})"] * (process.local_rank is not None)
    return " ".join(parts)


def bindings(user: GpuUser, snapshot: NodeSnapshot) -> tuple[Binding, ...]:
    """The process against each of its GPUs."""
    gpus = [gpu for address in user.gpus if (gpu := snapshot.machine.gpu(address)) is not None]
    return tuple(binding(snapshot.machine, user.reading, gpu) for gpu in gpus)


def _binding(user: GpuUser, snapshot: NodeSnapshot) -> Iterator[Fact]:
    process = user.reading
    for found in bindings(user, snapshot):
        gpu, reading = snapshot.machine.gpu(found.gpu), snapshot.readings.gpu(found.gpu)
        busy = percent(None if reading is None else reading.utilization_percent)
        label = found.gpu if gpu is None else gpu_label(gpu)
        yield label, f"{found.gpu}, utilisation {busy}, NUMA node {whole(found.node)}", ""
        cpus = f"CPUs {process.cpu_affinity or UNKNOWN}: {CPUS[found.cpus]}"
        yield "", cpus, "bad" if found.cpus == FAR else ""
        memory = f"memory of NUMA {process.memory_nodes or UNKNOWN}: {MEMORY[found.memory]}"
        yield "", memory, "bad" if found.memory == FAR else ""


def _limits(process: ProcessReading) -> Iterator[Fact]:
    quota = (
        None if process.cpu_quota is None else f"{figure(process.cpu_quota)} CPUs' worth of time"
    )
    for name, field, value in (
        ("Memory", "memory_limit_bytes", _size(process.memory_limit_bytes)),
        ("CPU time", "cpu_quota", quota),
        ("/dev/shm", "shm_bytes", _size(process.shm_bytes)),
        ("Locked", "memlock_bytes", _size(process.memlock_bytes)),
    ):
        why = process.why(field)
        if value is not None:
            yield name, value, ""
        elif why is not None:
            yield name, "no limit" if why == "unlimited" else f"not known: {why}", "muted"


def _size(value: int | None) -> str | None:
    return None if value is None else size(value)


def _network(process: ProcessReading, job: Job, snapshot: NodeSnapshot) -> Iterator[Fact]:
    host = snapshot.machine.host
    if process.hostname is not None:
        yield "Host name", process.hostname, ""
    own = dict(process.namespaces or ())
    for kind in KINDS:
        others = {dict(user.reading.namespaces or ()).get(kind) for user in job.processes}
        if own and len(others - {None}) > 1:
            yield "Namespace", f"{kind} {own.get(kind, UNKNOWN)}: not the same in all ranks", "warn"
    if process.hostname is None or host is None or process.hostname != host.hostname:
        return  # in a container whose own network interfaces are not known
    running = [face for face in snapshot.machine.interfaces if face.up and face.ips]
    wanted = dict(process.variables or ()).get("NCCL_SOCKET_IFNAME", "")
    if not running or process.variables is None:
        return
    face = chosen(running, wanted)
    gpus = snapshot.machine.gpus
    library = terms_of(gpus).library
    first = f"the first in {library}'s order"
    why = f"by NCCL_SOCKET_IFNAME={wanted}" if wanted else first
    found = f"none fits: {library} does not start" if face is None else face.name
    yield "Sockets", f"{found}, {why}", "bad" if face is None else ""


def _variables(row: JobRow, details: VariableDetails | None, width: int) -> list[Line]:
    if details is None:
        return [(), (("Variables", "key bold"),), ((" working out what they do here …", "muted"),)]
    title = f"Variables of {details.whose}" if row.user is None and details.whose else "Variables"
    rules = f", by the rules of {details.rules}" if details.rules else ""
    heading = ((clean(f"{title} at its start{rules}", 100), "key bold"),)
    lines: list[Line] = [(), *wrapped(heading, width, 1)]
    if details.trouble:
        lines += wrapped(((f" {clean(details.trouble, 300)}", "muted"),), width, 1)
    for entry in details.entries:
        sign, ink, _ = FlagStatus(entry.status).shown
        text = clean(f"{entry.name}={entry.value}", 200)
        lines += wrapped(((f" {sign} {text}", ink),), width, 3)
        if entry.said:
            lines += wrapped(((f"   {clean(entry.said, 600)}", ""),), width, 3)
    return lines


def _hidden(row: JobRow, width: int) -> list[Line]:
    """What could not be read of which process, and why; a missing limit does not count."""
    users = (row.user,) if row.user is not None else row.job.processes
    gaps = sorted(
        {
            (gap.why, gap.field.replace("_", " "))
            for user in users
            for gap in user.reading.gaps
            if gap.why != "unlimited"
        }
    )
    lines: list[Line] = []
    for why, group in groupby(gaps, key=lambda gap: gap[0]):
        fields = ", ".join(field for _, field in group)
        lines += wrapped(((f" {clean(why, 120)}: ", "warn"), (clean(fields), "muted")), width, 3)
    if all(user.reading.started_at is None for user in users) and not lines:
        why = " the system shows no process of this number: another PID namespace, or hidden"
        lines += wrapped(((why, "warn"),), width, 1)
    return [(), (("Not readable", "key bold"),), *lines] if lines else []


# How the host memory of processes changed while the app looked on.
def grown_words(process: ProcessReading) -> str:
    """What it gained since it was first read and lately; "" where that is too short ago.

    "+1.2 GiB in 4 min, +900 MiB in the last 62 s (14.5 MiB a second)".
    """
    now, before = process.memory_bytes, process.memory_before
    if now is None or not before or before[0][0] < LEAST_SECONDS:
        return ""
    ago, held = before[0]
    total, lately = now - held, before[-1]
    if len(before) == 1:
        return f"{_signed(total)} in {_span(ago)}{_pace(total, ago)}"
    recent = now - lately[1]
    last = f"{_signed(recent)} in the last {_span(lately[0])}{_pace(recent, lately[0])}"
    return f"{_signed(total)} in {_span(ago)}, {last}"


def growing(job: Job) -> Iterator[str]:
    """The processes of a job whose memory grew lately, the fastest first."""
    found = []
    for user in job.processes:
        process = user.reading
        if process.memory_bytes is None or not process.memory_before:
            continue
        ago, held = process.memory_before[-1]
        grown = process.memory_bytes - held
        if ago >= LEAST_SECONDS and grown >= LEAST_BYTES:
            name = f"pid {user.pid}" if process.rank is None else f"rank {process.rank}"
            text = f"{name} {_signed(grown)} of the host in {_span(ago)}{_pace(grown, ago)}"
            found.append((grown / ago, text))
    found.sort(key=lambda item: -item[0])
    for _, text in found[:MOST_NAMED]:
        yield text
    if len(found) > MOST_NAMED:
        yield f"and {len(found) - MOST_NAMED} more"


def _signed(change: int) -> str:
    if abs(change) < LEAST_BYTES:
        return f"less than {size(LEAST_BYTES)} more or less"
    return f"{'+' if change > 0 else '-'}{size(abs(change))}"


def _span(ago: float) -> str:
    return f"{ago:.0f} s" if ago < 120 else seconds(ago)


def _pace(change: int, ago: float) -> str:
    return f" ({size(round(change / ago))} a second)" if change >= LEAST_BYTES else ""
