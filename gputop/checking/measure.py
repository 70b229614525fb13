"""Measures the idle GPUs for a check, and reads the error counters again afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gputop.exits import USAGE, Exit
from gputop.measuring.selection import hidden_note, measurable
from gputop.probes.protocol.status import ProbeLevel, Status
from gputop.reading import SETTLE_SECONDS, read_snapshot
from gputop.terminal.clean import clean
from gputop.terminal.lines import warn
from gputop.terminal.nearest import instead
from gputop.topology.model.readings import GpuReading
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.wiring.devices import devices_of
from gputop.topology.wiring.gpu_names import gpu_label

if TYPE_CHECKING:
    from gputop.measuring.guard import Idle
    from gputop.measuring.planning import Plan
    from gputop.measuring.state import ProbeRun

PROBES = ("p2p", "host", "memory", "gemm", "collectives")
"""Probes that test links, host links, memory, compute and NCCL in half a minute."""
AGAIN = "reading the node again"
AGAIN_SECONDS = 3.0
"""How long the second reading may take before a deadline: the driver is awake by then."""
_WHILE_IDLE = (
    "utilization_percent",
    "memory_utilization_percent",
    "memory_used_bytes",
    "memory_free_bytes",
    "bar1_used_bytes",
    "power_watts",
    "clock_graphics_mhz",
    "clock_sm_mhz",
    "clock_memory_mhz",
    "clock_video_mhz",
    "throttle_reasons",
    "performance_state",
    "pcie_gen",
    "processes",
)
"""Fields of a reading that still show our own load shortly after it."""


class ProbeEnd(msgspec.Struct, frozen=True):
    """How one probe ended, as a document names it."""

    probe: str
    status: Status
    text: str
    """Why it ended as it did; one sentence."""
    figures: int
    """How many it returned."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The result of measuring."""

    runs: tuple[ProbeRun, ...] = ()
    """The probes as they ended."""
    left_out: tuple[tuple[str, str], ...] = ()
    """(PCI address, reason) of each GPU that was in use."""
    gpus: tuple[str, ...] = ()
    """PCI addresses of the measured GPUs."""
    gone: tuple[tuple[str, str], ...] = ()
    """(PCI address, name) of each GPU that answered before measuring and is gone now."""
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    planned: tuple[str, ...] = ()
    """Names of the probes that were to run."""
    out_of_time: bool = False
    """Whether the deadline of the check ended it."""

    @property
    def ends(self) -> tuple[ProbeEnd, ...]:
        """How each probe ended, for a document."""
        return tuple(
            ProbeEnd(run.name, run.status, run.text, len(run.measurements)) for run in self.runs
        )


class ProbePlan(NamedTuple):
    """How a check measures."""

    full: bool = False
    force: bool = False
    """Whether GPUs in use are measured too."""
    python: str | None = None
    names: Sequence[str] = ()
    """The probes to run, else those of a check."""
    until: float | None = None
    """When they are to be over, by the monotonic clock."""


def measure_node(
    node: NodeSnapshot,
    addresses: tuple[str, ...],
    how: ProbePlan,
    begin: Callable[[str], None],
) -> tuple[NodeSnapshot, Measured]:
    """Measure, then read again; `begin` hears that it does. On a demo figures are simulated."""
    if not node.is_live:
        measured = _simulate(node, addresses or measurable(node), how)
        return _with_figures(node, measured), measured
    if not addresses and (note := hidden_note(node)):
        warn(note)
    measured = measure(node, addresses or measurable(node), how)
    if not measured.runs:
        return node, measured
    begin(AGAIN)
    now, gone = after(node, seconds=AGAIN_SECONDS if how.until else SETTLE_SECONDS)
    measured = msgspec.structs.replace(measured, gone=gone)
    return _with_figures(now, measured), measured


def _with_figures(node: NodeSnapshot, measured: Measured) -> NodeSnapshot:
    made = (one for run in measured.runs for one in run.measurements)
    return msgspec.structs.replace(node, measurements=(*node.measurements, *made))


def probe_names(text: str | None) -> tuple[str, ...]:
    """The names in --probe. Raises Exit for one that is unknown."""
    if text is None:
        return ()
    from gputop.measuring.plugged import known
    from gputop.probes import catalog

    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise Exit("--probe needs a name", USAGE)
    for name in names:
        if name not in catalog.NAMES and name not in known():
            hint = instead(name, known(), "gputop probe --list")
            raise Exit(f"--probe: no probe {clean(name, 60)!r}{hint}", USAGE)
    return names


def measure(
    node: NodeSnapshot,
    addresses: Sequence[str],
    how: ProbePlan = ProbePlan(),  # noqa: B008 - a tuple
    look: Callable[..., Idle] | None = None,
) -> Measured:
    """Measure these GPUs of a live node; `look` decides which are in use, like `idle.idle`."""
    from gputop.measuring.attended import Attended
    from gputop.measuring.guard import Idle, idle

    labels = dict(devices_of(node.machine).labels)
    seen = Idle(free=tuple(addresses)) if how.force else (look or idle)(addresses, labels)
    for why in dict.fromkeys(why for _, why in seen.busy):
        warn(f"left out: {why}")
    if not seen.free:
        return Measured(left_out=seen.busy, notes=seen.blind)
    planned = _planned(node, seen.free, how)
    warn(planned.sentence)
    attended = Attended(planned)
    with _over_by(how.until, attended.stop):
        ends = list(attended.ends())
    return Measured(
        runs=tuple(ends),
        left_out=seen.busy,
        gpus=seen.free,
        notes=(*seen.blind, *_kept(node, ends)),
        interrupted=attended.interrupted,
        out_of_time=attended.stopped,
        planned=tuple(step.name for step in planned.runs),
    )


def _planned(node: NodeSnapshot, gpus: tuple[str, ...], how: ProbePlan) -> Plan:
    from gputop.measuring.planning import plan

    return plan(
        how.names or (() if how.full else _possible(len(gpus))),
        node.machine,
        gpus,
        level=ProbeLevel.FULL if how.full else ProbeLevel.QUICK,
        force=how.force,
        python=how.python,
    )


def _simulate(node: NodeSnapshot, addresses: tuple[str, ...], how: ProbePlan) -> Measured:
    """What the probes would find on a demo; it takes no time and no GPU."""
    from gputop.measuring.attended import Attended
    from gputop.simulating.suite import NOTE, simulated_plan, simulated_suite

    planned = simulated_plan(_planned(node, addresses, how))
    attended = Attended(planned, simulated_suite(node, at_once=True))
    # What has no reference here cannot be simulated, which says nothing about the node.
    runs = tuple(run for run in attended.ends() if run.status is Status.FINISHED)
    names = tuple(run.name for run in runs)
    return Measured(
        runs=runs,
        gpus=addresses,
        notes=(NOTE,),
        planned=names,
        interrupted=attended.interrupted,
    )


@contextmanager
def _over_by(until: float | None, stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at that time, unless the work is over by then."""
    if until is None:
        yield
        return
    timer = threading.Timer(max(0.0, until - time.monotonic()), stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _possible(gpus: int) -> tuple[str, ...]:
    """The probes that can run on so few GPUs."""
    from gputop.probes import catalog

    return tuple(name for name in PROBES if catalog.load(name).SPEC.minimum_gpus <= gpus)


def _kept(node: NodeSnapshot, ends: Sequence[ProbeRun]) -> list[str]:
    """Keep the runs in the history; returns a note for each that fails."""
    from gputop.measuring import history

    return [note for run in ends if (note := history.keep_result(node, run))]


def after(
    before: NodeSnapshot,
    read: Callable[[], NodeSnapshot] | None = None,
    seconds: float = SETTLE_SECONDS,
) -> tuple[NodeSnapshot, tuple[tuple[str, str], ...]]:
    """Read the machine again after measuring, without the traces of our own load.

    Counters, links, errors and settings come from the new reading; utilisation, clocks, memory and
    processes from the one before. The second part of the answer is `Measured.gone`; when all GPUs
    are gone, the node is the one before.
    """
    now = read() if read is not None else read_snapshot((), None, seconds=seconds)
    here = {gpu.address for gpu in now.machine.gpus}
    gone = tuple(
        (gpu.address, gpu_label(gpu)) for gpu in before.machine.gpus if gpu.address not in here
    )
    if not here:
        return before, gone
    gpus = tuple(_calm(gpu, before.readings.gpu(gpu.address)) for gpu in now.readings.gpus)
    readings = msgspec.structs.replace(
        now.readings, gpus=gpus, processes=before.readings.processes, host=before.readings.host
    )
    return msgspec.structs.replace(now, readings=readings), gone


def _calm(now: GpuReading, before: GpuReading | None) -> GpuReading:
    if before is None:
        return now
    kept = {field: getattr(before, field) for field in _WHILE_IDLE}
    fields = set(_WHILE_IDLE)
    gaps = (
        *(gap for gap in now.gaps if gap.field not in fields),
        *(gap for gap in before.gaps if gap.field in fields),
    )
    return msgspec.structs.replace(now, **kept, gaps=gaps)
