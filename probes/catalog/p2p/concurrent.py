"""Peer to peer, many pairs at once: shared links show only when pairs compete.

Every flow copies on its own stream of the source (writes), like nvbandwidth's all_to_one and
one_to_all, and all wait for one event. The figure of a pair counts until the first flow is done, so
that all others run meanwhile; the total counts until the last one is done. Flows into or out of
the same GPU use separate parts of its buffers.

Copy engines do not serve the streams of a GPU fairly, so the figure of a pair in "one to all" is
its part of the total. For the same reason, and because many streams collide at the receivers, "all
to all" runs in phases where one to all is as fast as to one (a switch, a slot): each GPU writes to
one other, no two to the same, timed like a ring, and all wait for the last before the next phase.
Without the wait a late writer would meet another one at its receiver and fall back further. The
figure of a pair is that of its phase; the total is all bytes over the seconds of all phases. GPUs
with separate links to each peer (a mesh) need a stream for each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Optional

from ...devices.devices import Backend, Flow, FlowTimes
from ...devices.opened import open_devices
from ...engine.held import rates
from ...protocol.messages import DeviceRecord, Message, Progress, WorkerRequest
from ...protocol.sizing import GIB, KIB, MIB, Sizes, choose_sizes
from ...protocol.spec import ProbeSpec, level_of
from ...protocol.timing import Sampled, gigabytes_per_second, warm
from .patterns import (
    ALL_TO_ALL,
    ALL_TO_ONE,
    AT_ONCE,
    IN_PHASES,
    ONE_TO_ALL,
    Ends,
    Pattern,
    PatternResult,
    has_one_port,
    patterns,
    phases,
    slots,
    wiring,
)
from .quantities import CONCURRENT, CONCURRENT_TOTAL, CROWDED
from .report import STAGED, PairReporter

SPEC = ProbeSpec(
    name="p2p-concurrent",
    title="GPU to GPU, all at once",
    measures=(
        "GB/s of every pair and their total while many copy at once: to the next in a ring, all "
        "to one, one to all, all to all; a switch, a mesh and a shared path differ there."
    ),
    method="p2p-concurrent/4",
    minimum_gpus=2,
    memory_bytes_per_gpu=2 * GIB,
    start_seconds=1.5,
    seconds_per_gpu=0.3,
    seconds_per_pair=0.28,
    level_factors={"quick": 0.13, "normal": 1.0, "full": 1.5},
    loads=("links",),
    needs_torch=False,
    quantities=CROWDED,
)

Emit = Callable[[Message], None]
_STORE_BYTES = 64 * KIB
_WARM_SECONDS = 0.05


def run(request: WorkerRequest, emit: Emit) -> None:
    """Run the patterns of the level among the requested devices; ProbeStopped if it cannot."""
    level = level_of(request.params)
    backend, opened = open_devices(request, SPEC, emit)
    sizes = choose_sizes(backend.kind, opened, request.params)
    crowd = _Crowd(backend, sizes, opened, PairReporter(backend, SPEC.method, emit))
    plan = patterns(len(opened), level)
    steps = len(plan) + 1
    try:
        emit(Progress(0, steps, f"filling {2 * sizes.buffer_bytes // MIB} MiB on each device"))
        backend.allocate([d.index for d in opened], sizes.buffer_bytes)
        crowd.connect()
        emit(Progress(0, steps, "each pair alone"))
        crowd.measure_alone()
        for done, pattern in enumerate(plan):
            emit(Progress(1 + done, steps, crowd.title(pattern)))
            crowd.measure(pattern)
        emit(Progress(steps, steps, "all patterns measured"))
        crowd.conclude()
    finally:
        backend.release()


class _Crowd:
    """Times devices that copy at the same time."""

    def __init__(
        self,
        backend: Backend,
        sizes: Sizes,
        devices: Sequence[DeviceRecord],
        reporter: PairReporter,
    ) -> None:
        self._backend = backend
        self._sizes = sizes
        self._devices = devices
        self._report = reporter
        self._granted: dict[Ends, bool] = {}
        self._alone: dict[Ends, float] = {}
        self._ran: list[PatternResult] = []
        # At most one slot for each peer; its length is a power of two.
        room = sizes.buffer_bytes // (len(devices) - 1)
        self._size = min(sizes.copy_bytes, 1 << room.bit_length() - 1)

    def title(self, pattern: Pattern) -> str:
        """The pattern as the variant of a figure."""
        if pattern.hub is None:
            return pattern.name
        return f"{pattern.name} ({self._devices[pattern.hub].key})"

    def connect(self) -> None:
        """Map all peers, and let a kernel of each device store to every other once."""
        for src, a in enumerate(self._devices):
            for dst, b in enumerate(self._devices):
                if src == dst:
                    continue
                ends = a.index, b.index
                granted = self._backend.can_access(*ends)
                self._granted[src, dst] = granted and not self._backend.why_not_mapped(*ends)
                if self._granted[src, dst] and not self._backend.no_kernels:
                    self._backend.store(*ends, _STORE_BYTES)

    def measure_alone(self) -> None:
        """GB/s of each pair alone, the reference of its other figures."""
        small = min(self._size, self._sizes.smallest_bytes)
        speeds = []
        for src in range(len(self._devices)):
            for ends in [ends for ends in self._granted if ends[0] == src]:
                trial = partial(self._backend.flow_seconds, self._flows([ends]), small, 4)
                warm(trial, _WARM_SECONDS if ends == (src, int(src == 0)) else 0.0)
                speeds.append(4 * small / trial().together)
        self._size = self._sizes.fitting(min(speeds), self._size)
        for ends in self._granted:
            self._alone[ends] = self._time(Pattern("alone", (ends,))).each[0]

    def measure(self, pattern: Pattern) -> None:
        """Time one pattern."""
        if pattern.name != ALL_TO_ALL:
            self._ran.append(self._time(pattern))
        elif has_one_port(self._ran, self._alone):
            self._ran.append(self._time_phases(pattern))
        else:
            self._ran.append(self._time(pattern, AT_ONCE))

    def conclude(self) -> None:
        """Note what the figures say about the links."""
        text, details = wiring(self._ran, self._alone, [d.key for d in self._devices])
        self._report.note("wiring", text, **details)

    def _flows(self, ends: Sequence[Ends]) -> "list[Flow]":
        return [
            Flow(
                self._devices[src].index,
                self._devices[dst].index,
                src_slot=src_slot,
                dst_slot=dst_slot,
            )
            for (src, dst), (src_slot, dst_slot) in zip(ends, slots(ends))
        ]

    def _times(self, ends: Sequence[Ends]) -> "list[FlowTimes]":
        """Sample simultaneous flows, with a stream for each, after a first copy of each."""
        flows = self._flows(ends)
        self._backend.flow_seconds(flows, self._size, 1)
        return [
            self._backend.flow_seconds(flows, self._size, self._sizes.copies)
            for _ in range(self._sizes.samples)
        ]

    def _rates(self, times: FlowTimes) -> "tuple[float, ...]":
        piece = self._sizes.copies * self._size // len(times.ends[0])
        return rates(times.ends, [piece] * len(times.ends))

    def _time(self, pattern: Pattern, schedule: Optional[str] = None) -> PatternResult:
        """Time all flows at once."""
        times, pairs = self._times(pattern.flows), len(pattern.flows)
        payload, how = self._sizes.copies * self._size, f" {schedule}" if schedule else ""
        if pattern.name == ONE_TO_ALL:
            how = ", its share until all are done"
            found = [[gigabytes_per_second(payload, t.together)] * pairs for t in times]
        else:
            found = [list(self._rates(t)) for t in times]
        totals = [gigabytes_per_second(pairs * payload, t.together) for t in times]
        return self._emit_result(_Taken(pattern, schedule, how, found, totals))

    def _time_phases(self, pattern: Pattern) -> PatternResult:
        """Time all to all in phases; none begins before the last flow of the one before is done."""
        each: list[dict[Ends, float]] = [{} for _ in range(self._sizes.samples)]
        seconds = [0.0] * self._sizes.samples
        for phase in phases(len(self._devices)):
            for number, times in enumerate(self._times(phase)):
                each[number].update(zip(phase, self._rates(times)))
                seconds[number] += times.together
        payload = len(pattern.flows) * self._sizes.copies * self._size
        found = [[rates[ends] for ends in pattern.flows] for rates in each]
        totals = [gigabytes_per_second(payload, elapsed) for elapsed in seconds]
        how = f" {IN_PHASES}: each GPU to one other, no two to the same"
        return self._emit_result(_Taken(pattern, IN_PHASES, how, found, totals))

    def _emit_result(self, taken: "_Taken") -> PatternResult:
        """Report the figure of each pair and the total."""
        pattern, variant = taken.pattern, self.title(taken.pattern)
        details = {"schedule": taken.schedule} if taken.schedule else {}
        medians = []
        for place, (src, dst) in enumerate(pattern.flows):
            a, b = self._devices[src], self._devices[dst]
            sampled = Sampled(tuple(rates[place] for rates in taken.found))
            medians.append(sampled.median)
            self._report.figure(
                CONCURRENT, a, b,
                self._backend.copy_engine if self._granted[src, dst] else STAGED,
                f"{a.key} writes into {b.key}: {pattern.name}{taken.how}",
                sampled, self._size, self._sizes.copies, variant=variant, details=details,
            )  # fmt: skip
        total, pairs = Sampled(tuple(taken.totals)), len(pattern.flows)
        if pairs > 1:
            hub = None if pattern.hub is None else self._devices[pattern.hub]
            granted = all(self._granted[ends] for ends in pattern.flows)
            how = "at once, until the last is done"
            if taken.schedule == IN_PHASES:
                how = "in phases one after the other, each until its last is done"
            self._report.figure(
                CONCURRENT_TOTAL,
                hub if pattern.name == ONE_TO_ALL else None,
                hub if pattern.name == ALL_TO_ONE else None,
                self._backend.copy_engine if granted else STAGED,
                f"{pattern.name}, {pairs} pairs, {how}",
                total, self._size, self._sizes.copies, variant=variant,
                details={"pairs": pairs, **details},
            )  # fmt: skip
        return PatternResult(pattern, tuple(medians), total.median, taken.schedule or AT_ONCE)


@dataclass(frozen=True)
class _Taken:
    """Samples of one pattern, GB/s."""

    pattern: Pattern
    schedule: Optional[str]
    """How "all to all" runs: all at once or in phases."""
    how: str
    """What a pair's `direction` ends with."""
    found: "list[list[float]]"
    """One for each pair in each sample."""
    totals: "list[float]"
