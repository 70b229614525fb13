"""Peer to peer: granted access, arrival of bytes, bandwidth and latency.

Answers the second and third question of the ladder (`topology/explain/ladder.py`) and measures
every ordered pair. Copies run on a stream of the source (writes) or of the destination (reads),
and kernels on the multiprocessors of either, like nvbandwidth's
device_to_device_memcpy_{write,read}_{ce,sm}, with its repeats at the levels "normal" and "full":
512 MiB, 16 copies between two events, all queued while the stream is held.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Optional

from ...devices.devices import Backend, Flow
from ...devices.opened import Emit, open_devices
from ...engine.library import EngineError
from ...protocol.messages import DeviceRecord, WorkerRequest
from ...protocol.plaintext import one_line
from ...protocol.quantity import Quantity
from ...protocol.sizing import GIB, MIB, Sizes, choose_sizes
from ...protocol.spec import ProbeSpec, level_of
from ...protocol.timing import Sampled, gigabytes_per_second, low_ones, sample, verdict_of, warm
from ...protocol.tracking import Track
from .plan import PLANS, Kinds, PairPlan, couples, ordered
from .quantities import (
    ACCESS,
    ALONE,
    ARRIVAL,
    BOTH_WAYS,
    KERNEL_LATENCY,
    KERNEL_READ,
    KERNEL_WRITE,
    LATENCY,
    READ,
    SWEEP,
    THROUGH_HOST,
    TOGETHER,
    WRITE,
)
from .report import STAGED, PairReporter

SPEC = ProbeSpec(
    name="p2p",
    title="GPU to GPU",
    measures=(
        "For every ordered pair of GPUs: does the driver grant access, does data that a kernel "
        "stores arrive intact, how fast copy engines and kernels write and read, one way and both "
        "ways, and latency. For each kind of link also by message size, and through host memory."
    ),
    method="p2p/3",
    minimum_gpus=2,
    memory_bytes_per_gpu=2 * GIB,
    start_seconds=1.5,
    seconds_per_gpu=0.3,
    seconds_per_pair=0.45,
    seconds_alone=1.2,
    level_factors={"quick": 0.09, "normal": 1.0, "full": 1.6},
    host_memory_bytes=64 * MIB,
    loads=("links",),
    needs_torch=False,
    quantities=ALONE,
)

STEADY = 0.01
"""If two trials differ by less than this, the link is awake."""

# The other ways between two GPUs: reading, kernels, the host, and how size matters.
STAGED_BYTES = 256 * MIB
_FEW = 3
"""Number of samples for figures that are not judged."""


class Paths:
    """Measures the further figures of an ordered pair."""

    def __init__(self, backend: Backend, sizes: Sizes, reporter: PairReporter) -> None:
        self._backend = backend
        self._sizes = sizes
        self._report = reporter

    def read(
        self, reader: DeviceRecord, owner: DeviceRecord, size: int, granted: bool, attempt: int
    ) -> Sampled:
        """Copies on a stream of the reader, like nvbandwidth's device_to_device_memcpy_read_ce."""
        flow = Flow(owner.index, reader.index, reads=True)
        copies = self._sizes.copies
        self._backend.clear(reader.index)
        sampled = sample(
            lambda: gigabytes_per_second(
                copies * size, self._backend.flow_seconds([flow], size, copies).together
            ),
            self._sizes.samples,
        )
        self._report.figure(
            READ, reader, owner, self._backend.copy_engine if granted else STAGED,
            f"{reader.key} reads the memory of {owner.key}, nothing else running",
            sampled, size, copies, attempt=attempt, verdict=self._verdict(owner, reader, size),
        )  # fmt: skip
        return sampled

    def kernel(
        self, doer: DeviceRecord, other: DeviceRecord, size: int, reads: bool, attempt: int
    ) -> Optional[Sampled]:
        """Copies by multiprocessors of the acting GPU; None where no kernel can do it."""
        ends = (other, doer) if reads else (doer, other)
        flow = Flow(ends[0].index, ends[1].index, reads=reads)
        copies, times = self._sizes.copies, []
        self._backend.clear(flow.dst)
        self._backend.kernel_seconds(flow, size, 1)
        for _ in range(self._sizes.samples):
            seconds = self._backend.kernel_seconds(flow, size, copies)
            if seconds is None:
                return None
            times.append(gigabytes_per_second(copies * size, seconds))
        sampled = Sampled(tuple(times))
        quantity = KERNEL_READ if reads else KERNEL_WRITE
        does = "reads the memory of" if reads else "writes into"
        self._report.figure(
            quantity, doer, other, self._backend.kernel_engine,
            f"a kernel of {doer.key} {does} {other.key}, nothing else running",
            sampled, size, copies, attempt=attempt, verdict=self._verdict(*ends, size),
        )  # fmt: skip
        return sampled

    def chase(self, src: DeviceRecord, dst: DeviceRecord) -> None:
        """Latency of one load: each loaded word is the address of the next."""
        hops = self._sizes.hops
        chase = partial(self._backend.chase_seconds, src.index, dst.index, hops)
        if chase() is None:  # the first lap fills the owner's cache and the reader's page tables
            return
        times = [1e6 * seconds / hops for seconds in self._times(chase, self._sizes.samples)]
        self._report.figure(
            KERNEL_LATENCY, src, dst, self._backend.kernel_engine,
            f"a kernel of {src.key} follows pointers in the memory of {dst.key}",
            Sampled(tuple(times)), 8, hops, digits=4,
        )  # fmt: skip

    def staging(
        self, src: DeviceRecord, dst: DeviceRecord, direct: float, granted: bool, attempt: int
    ) -> Sampled:
        """Copies through the host; `direct`: GB/s of the copy engine for the pair."""
        ends = src.index, dst.index
        size = min(STAGED_BYTES, self._sizes.copy_bytes)
        self._backend.clear(dst.index)
        stage = partial(self._backend.staged_seconds, *ends, size)
        stage()
        sampled = Sampled(tuple(gigabytes_per_second(size, t) for t in self._times(stage, _FEW)))
        self._report.figure(
            THROUGH_HOST, src, dst, "copy engine, through pinned host memory",
            f"{src.key} to {dst.key} by way of two pinned buffers on the host",
            sampled, size, 1, attempt=attempt, verdict=self._verdict(src, dst, size),
        )  # fmt: skip
        if sampled.median >= direct:
            what = (
                "P2P gains nothing on this pair" if granted
                else "the driver's own staging is no better, and P2P is not granted"
            )  # fmt: skip
            self._report.note(
                "staging",
                f"{src.key} to {dst.key}: {sampled.median:.1f} GB/s through pinned host memory, "
                f"{direct:.1f} GB/s directly: {what}.",
                src=src.key, dst=dst.key, granted=granted, direct_gbs=round(direct, 3),
                staged_gbs=round(sampled.median, 3),
            )  # fmt: skip
        return sampled

    def sweep(
        self, src: DeviceRecord, dst: DeviceRecord, factor: int, direct: float, granted: bool
    ) -> None:
        """Copies of each size in turn, all queued before the first starts.

        `direct`: GB/s of the copy engine for the pair.
        """
        flow = Flow(src.index, dst.index)
        for size in self._sizes.sweep(factor):
            copies = self._sizes.sweep_copies(size, 1e9 * direct)
            times = [self._backend.flow_seconds([flow], size, copies).together for _ in range(_FEW)]
            sampled = Sampled(tuple(gigabytes_per_second(copies * size, t) for t in times))
            self._report.figure(
                SWEEP, src, dst, self._backend.copy_engine if granted else STAGED,
                f"{src.key} writes into {dst.key}, copy after copy of one size",
                sampled, size, copies,
                details={"time_us": round(1e6 * sorted(times)[_FEW // 2] / copies, 3)},
            )  # fmt: skip

    def _times(self, measure: Any, times: int) -> "list[float]":
        return [float(measure()) for _ in range(times)]

    def _verdict(self, src: DeviceRecord, dst: DeviceRecord, size: int) -> Optional[str]:
        return verdict_of(self._backend.copied_right(src.index, dst.index, size))


@dataclass
class _Figure:
    """One timed thing, kept so that it can be timed again."""

    group: str
    """Figures of one group should be alike."""
    sampled: Sampled
    time_it: Callable[[int], Optional[Sampled]]
    """Measures and reports it; the argument is the attempt."""


class Walk:
    """Measures pair after pair."""

    def __init__(
        self,
        backend: Backend,
        sizes: Sizes,
        plan: PairPlan,
        reporter: PairReporter,
        track: Track,
        requested_kinds: object,
    ) -> None:
        self.backend = backend
        self._sizes = sizes
        self._plan = plan
        self._report = reporter
        self._track = track
        self._requested_kinds = requested_kinds
        self._paths = Paths(backend, sizes, reporter)
        self.granted: dict[tuple[str, str], bool] = {}
        self._arrived: set[tuple[str, str]] = set()
        self._copy_bytes: dict[tuple[str, str], int] = {}
        self._direct: dict[tuple[str, str], float] = {}
        self._warmed: set[str] = set()
        self._figures: list[_Figure] = []
        self._kinds = Kinds({}, {})

    def measure_all(self, devices: Sequence[DeviceRecord]) -> None:
        """Take every step, then repeat low or unsteady figures."""
        if self.backend.no_kernels:
            self._report.note(
                "kernels",
                f"No kernel of ours runs here: {one_line(self.backend.no_kernels, 200)}. Copy "
                "engines alone are measured, with what launching them takes, and not compared.",
            )
        for src, dst in ordered(devices):
            self.granted[src.key, dst.key] = self.backend.can_access(src.index, dst.index)
        self._kinds = Kinds(self._requested_kinds, self.granted)
        steps = self._steps(devices)
        for done, (what, step) in enumerate(steps):
            self._track.step(done, len(steps), what)
            try:
                step()
            except EngineError as error:
                if not error.code:  # a call that is missing is so for all
                    raise
                raise EngineError(f"{what}: {error}", error.code) from error
        odd = set(low_ones([(f.group, f.sampled.median) for f in self._figures]))
        odd |= {place for place, f in enumerate(self._figures) if f.sampled.restless()}
        for count, place in enumerate(sorted(odd)):
            what = f"once more, {count + 1} of {len(odd)}: low or restless at first"
            self._track.step(len(steps), len(steps), what)
            self._figures[place].time_it(2)
        self._track.step(len(steps), len(steps), "all pairs measured")

    def _steps(self, devices: Sequence[DeviceRecord]) -> "list[tuple[str, Callable[[], object]]]":
        plan, every = self._plan, ordered(devices)
        twos = couples(devices)
        both = twos if plan.both_ways_of_all else self._kinds.samples(twos)
        steps: list[tuple[str, Callable[[], object]]] = []
        for a, b in twos:
            for src, dst in ((a, b), (b, a)):
                steps.append((f"{src.key} to {dst.key}", partial(self._one_direction, src, dst)))
            if (a, b) in both:
                steps.append((f"{a.key} and {b.key}, both ways", partial(self._both_ways, a, b)))
        if plan.other_paths:
            for src, dst in every:
                what = f"{src.key} to {dst.key}, reading and kernels"
                steps.append((what, partial(self._other_paths, src, dst)))
        if plan.sweep_factor:
            for src, dst in every if plan.extras_of_all else self._kinds.samples(every):
                what = f"{src.key} to {dst.key}, by way of the host and by size"
                steps.append((what, partial(self._extras, src, dst)))
        return steps

    def _one_direction(self, src: DeviceRecord, dst: DeviceRecord) -> None:
        granted = self.granted[src.key, dst.key]
        direction = f"{src.key} asks for the memory of {dst.key}"
        self._report.say(
            ACCESS, src, dst, self.backend.grantor, direction,
            verdict="granted" if granted else "not-granted",
        )  # fmt: skip
        refusal = "the driver does not grant peer access, so no kernel can store there"
        if granted:
            refusal = self.backend.why_not_mapped(src.index, dst.index) or ""
            self.granted[src.key, dst.key] = not refusal  # else its copies go through the host
        self._arrival(src, dst, refusal)
        self._choose_copy_bytes(src, dst)
        self._figure(WRITE, src, dst, partial(self._one_way, src, dst))
        self._latency(src, dst)

    def _arrival(self, src: DeviceRecord, dst: DeviceRecord, refusal: str) -> None:
        """Let a kernel store; `refusal`: why none can, "" if one can."""
        if self.backend.no_kernels:
            return  # nothing here can store; a note says so
        direction = f"{src.key} stores into {dst.key}, which reads its own memory"
        say = partial(self._report.say, ARRIVAL, src, dst, self.backend.store_engine, direction)
        if refusal:
            say(verdict="not-granted", why=one_line(refusal, 300))
            return
        try:
            check = self.backend.store(src.index, dst.index, self._sizes.store_bytes)
        except RuntimeError as error:
            say(verdict="failed", why=one_line(str(error), 300))
            raise
        if not check.wrong_bytes:
            self._arrived.add((src.key, dst.key))
        say(
            verdict="wrong-bytes" if check.wrong_bytes else "arrived",
            checked_bytes=check.checked_bytes,
            wrong_bytes=check.wrong_bytes,
            first_wrong_offset=check.first_wrong_offset,
        )

    def _choose_copy_bytes(self, src: DeviceRecord, dst: DeviceRecord) -> None:
        """Warm up, then choose the size of copies by a short trial of the smallest."""
        sizes, small = self._sizes, self._sizes.smallest_bytes
        flow = Flow(src.index, dst.index)
        first = src.key not in self._warmed
        self._warmed.add(src.key)

        def speed(copies: int) -> float:
            return copies * small / self.backend.flow_seconds([flow], small, copies).together

        if not self._figures:
            self._track.so_far(speed(4) / 1e9)  # the first figure, while links still wake
        seconds = sizes.first_warm_seconds if first else sizes.warm_seconds
        if self._plan.steady_warm_up:
            _until_steady(partial(speed, 4), seconds)
        else:
            warm(partial(speed, 4), seconds)
        self._copy_bytes[src.key, dst.key] = sizes.fitting(speed(2))

    def _figure(
        self,
        quantity: Quantity,
        src: DeviceRecord,
        dst: DeviceRecord,
        time_it: Callable[[int], Optional[Sampled]],
    ) -> None:
        """Measure a figure and keep it for repetition; it is compared with others of its kind."""
        sampled = time_it(1)
        if sampled is not None:
            kind = f"{quantity.key} {self._kinds.of(src, dst)}"
            self._figures.append(_Figure(kind, sampled, time_it))

    def _one_way(self, src: DeviceRecord, dst: DeviceRecord, attempt: int) -> Sampled:
        size, copies = self._copy_bytes[src.key, dst.key], self._sizes.copies
        flow = Flow(src.index, dst.index)
        self.backend.clear(flow.dst)
        sampled = sample(
            lambda: gigabytes_per_second(
                copies * size, self.backend.flow_seconds([flow], size, copies).together
            ),
            self._sizes.samples,
            tell=self._tell_first,
        )
        verdict = verdict_of(self.backend.copied_right(flow.src, flow.dst, size))
        self._direct[src.key, dst.key] = sampled.median
        self._report.figure(
            WRITE, src, dst,
            self.backend.copy_engine if self.granted[src.key, dst.key] else STAGED,
            f"{src.key} writes into {dst.key}, nothing else running",
            sampled, size, copies, attempt=attempt, verdict=verdict,
        )  # fmt: skip
        return sampled

    def _tell_first(self, samples: "tuple[float, ...]") -> None:
        """Show the first figure as it grows; later ones follow too fast to be read."""
        if not self._figures:
            self._track.so_far_of(samples)

    def _both_ways(self, a: DeviceRecord, b: DeviceRecord) -> None:
        self._figure(BOTH_WAYS, a, b, partial(self._time_both_ways, a, b))

    def _time_both_ways(self, a: DeviceRecord, b: DeviceRecord, attempt: int) -> Sampled:
        size = min(self._copy_bytes[a.key, b.key], self._copy_bytes[b.key, a.key])
        copies = self._sizes.copies
        flows = [Flow(a.index, b.index), Flow(b.index, a.index)]
        times = [self.backend.flow_seconds(flows, size, copies) for _ in range(self._sizes.samples)]

        def of(bytes_moved: int, seconds: Sequence[float]) -> Sampled:
            return Sampled(tuple(gigabytes_per_second(bytes_moved, elapsed) for elapsed in seconds))

        payload = copies * size
        there, back = (of(payload, [t.each[place] for t in times]) for place in (0, 1))
        together = of(2 * payload, [t.together for t in times])
        direct = self.granted[a.key, b.key] and self.granted[b.key, a.key]
        engine = self.backend.copy_engine if direct else STAGED
        for src, dst, sampled in ((a, b, there), (b, a, back)):
            direction = f"{src.key} writes into {dst.key} while {dst.key} writes into {src.key}"
            self._report.figure(
                BOTH_WAYS, src, dst, engine, direction, sampled, size, copies, attempt=attempt
            )
        self._report.figure(
            TOGETHER, a, b, engine, f"{a.key} and {b.key} write into each other, both added",
            together, size, copies, attempt=attempt,
            # nvbandwidth's total adds the two rates, although the slower one ends alone.
            details={"rates_added_gbs": round(there.median + back.median, 3)},
        )  # fmt: skip
        return together

    def _latency(self, src: DeviceRecord, dst: DeviceRecord) -> None:
        small, copies = self._sizes.small_bytes, self._sizes.small_copies
        flow = Flow(src.index, dst.index)
        sampled = sample(
            lambda: 1e6 * self.backend.flow_seconds([flow], small, copies).together / copies,
            self._sizes.samples,
        )
        self._report.figure(
            LATENCY, src, dst,
            self.backend.copy_engine if self.granted[src.key, dst.key] else STAGED,
            f"{src.key} writes {small} bytes into {dst.key}, copy after copy",
            sampled, small, copies, counted=f"one copy of {small} bytes",
        )  # fmt: skip

    def _other_paths(self, src: DeviceRecord, dst: DeviceRecord) -> None:
        size, granted = self._copy_bytes[src.key, dst.key], self.granted[src.key, dst.key]
        read = partial(self._paths.read, src, dst, size, granted)
        self._figure(READ, src, dst, read)
        # Where bytes are wrong, a pointer from there could lead anywhere.
        if (src.key, dst.key) in self._arrived:
            for reads, quantity in ((False, KERNEL_WRITE), (True, KERNEL_READ)):
                kernel = partial(self._paths.kernel, src, dst, size, reads)
                self._figure(quantity, src, dst, kernel)
            self._paths.chase(src, dst)

    def _extras(self, src: DeviceRecord, dst: DeviceRecord) -> None:
        granted, direct = self.granted[src.key, dst.key], self._direct[src.key, dst.key]
        self._paths.staging(src, dst, direct, granted, 1)
        self._paths.sweep(src, dst, self._plan.sweep_factor, direct, granted)


def _until_steady(speed: Callable[[], float], seconds: float) -> None:
    """Try until two trials agree or the time is over."""
    until = time.monotonic() + seconds
    before = speed()
    while time.monotonic() < until:
        now = speed()
        if abs(now / before - 1) < STEADY:
            return
        before = now


def run(request: WorkerRequest, emit: Emit) -> None:
    """Measure the ordered pairs of the requested devices; ProbeStopped if it cannot."""
    plan = PLANS[level_of(request.params)]
    backend, opened = open_devices(request, SPEC, emit)
    sizes = choose_sizes(backend.kind, opened, request.params)
    reporter = PairReporter(backend, SPEC.method, emit)
    track = Track(emit)
    walk = Walk(backend, sizes, plan, reporter, track, request.params.get("kinds"))
    try:
        track.step(0, 1, f"filling {2 * sizes.buffer_bytes // MIB} MiB on each device")
        backend.allocate([d.index for d in opened], sizes.buffer_bytes)
        walk.measure_all(opened)
    finally:
        backend.release()
