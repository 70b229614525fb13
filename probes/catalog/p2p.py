"""Peer to peer: does the driver grant it, do bytes arrive, how fast and how soon.

Rungs 2 and 3 of the ladder (peers.md B0) and copy-engine figures, for every ordered pair. Copies
are writes: they run on a stream of the source, like nvbandwidth's device_to_device_memcpy_write_ce
and with its repeats: 512 MiB, 16 copies between two events, all queued while the stream is held.
"""

import dataclasses
import platform
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..devices import Backend, select
from ..gpus import drop_overruled_variables
from ..opening import open_backend
from ..plaintext import one_line
from ..protocol import DeviceRecord, Hello, Measurement, Message, Note, Progress, Request
from ..sizing import MIB, Sizes, choose_sizes
from ..spec import ProbeSpec
from ..timing import Sampled, gigabytes_per_second, low_ones, sample, warm

SPEC = ProbeSpec(
    name="p2p",
    title="GPU to GPU",
    measures=(
        "For every ordered pair: whether the driver grants access, whether bytes that a kernel "
        "stores arrive, copy-engine GB/s one way and both ways, and the time of a 16-byte copy."
    ),
    method="p2p/1",
    minimum_gpus=2,
    memory_bytes_per_gpu=2 * 512 * MIB,
    start_seconds=4.5,
    seconds_per_gpu=0.7,
    seconds_per_pair=0.4,
)

Emit = Callable[[Message], None]


def run(request: Request, emit: Emit) -> None:
    """Measure all ordered pairs of the requested devices; ProbeStopped where it cannot."""
    dropped = drop_overruled_variables()
    emit(Progress(0, 1, "importing torch"))
    backend = open_backend(request.params)
    records = backend.devices()
    chosen = select(records, request.devices, SPEC.minimum_gpus)
    opened = []
    for record in chosen:
        emit(Progress(0, 1, f"opening {record.key}"))
        free = backend.free_bytes(record.torch_index)
        opened.append(dataclasses.replace(record, free_bytes=free))
    others = [dataclasses.replace(r, selected=False) for r in records if r not in chosen]
    versions = dataclasses.asdict(backend.versions())
    emit(
        Hello(
            probe=SPEC.name,
            method=SPEC.method,
            python=platform.python_version(),
            device_kind=backend.kind,
            devices=(*opened, *others),
            **versions,
        )
    )
    if dropped:
        emit(Note("environment", f"Left out for this run: {', '.join(dropped)}."))
    sizes = choose_sizes(backend.kind, opened, request.params)
    emit(Progress(0, 1, f"filling {2 * sizes.buffer_bytes // MIB} MiB on each device"))
    backend.allocate([d.torch_index for d in opened], sizes.buffer_bytes)
    pairs = _Pairs(backend, sizes, emit, request.params.get("kinds"))
    pairs.measure_all(opened)
    if request.params.get("trace") is True:
        pairs.trace(opened)


@dataclasses.dataclass
class _Figure:
    """One timed thing, kept so that it can be timed again."""

    kind: str
    sampled: Sampled
    time_it: Callable[[int], Sampled]
    """Times and reports it; the argument is the attempt."""


class _Pairs:
    """The walk over all pairs."""

    def __init__(self, backend: Backend, sizes: Sizes, emit: Emit, kinds: object) -> None:
        self._backend = backend
        self._sizes = sizes
        self._emit = emit
        self._kinds = kinds if isinstance(kinds, dict) else {}
        self._granted: dict[tuple[str, str], bool] = {}
        self._copy_bytes: dict[tuple[str, str], int] = {}
        self._warmed: set[str] = set()
        self._figures: list[_Figure] = []

    def measure_all(self, devices: Sequence[DeviceRecord]) -> None:
        """Each pair there, back and both; then once more what was low or restless."""
        couples = [(a, b) for place, a in enumerate(devices) for b in devices[place + 1 :]]
        total, done = 3 * len(couples), 0
        for a, b in couples:
            for src, dst in ((a, b), (b, a)):
                self._emit(Progress(done, total, f"{src.key} to {dst.key}"))
                self._one_direction(src, dst)
                done += 1
            self._emit(Progress(done, total, f"{a.key} and {b.key}, both ways"))
            self._figure("both-ways", a, b, partial(self._both_ways, a, b))
            done += 1
        odd = set(low_ones([(f.kind, f.sampled.median) for f in self._figures]))
        odd |= {place for place, f in enumerate(self._figures) if f.sampled.restless()}
        for count, place in enumerate(sorted(odd)):
            what = f"once more, {count + 1} of {len(odd)}: low or restless at first"
            self._emit(Progress(done, total, what))
            self._figures[place].time_it(2)
        self._emit(Progress(total, total, "all pairs measured"))

    def _one_direction(self, src: DeviceRecord, dst: DeviceRecord) -> None:
        granted = self._backend.can_access(src.torch_index, dst.torch_index)
        self._granted[src.key, dst.key] = granted
        direction = f"{src.key} asks for the memory of {dst.key}"
        self._say(
            "access", src, dst, self._backend.grantor, direction,
            verdict="granted" if granted else "not-granted",
        )  # fmt: skip
        self._arrival(src, dst, granted)
        self._choose_copy_bytes(src, dst)
        self._figure("one-way", src, dst, partial(self._one_way, src, dst))
        self._latency(src, dst)

    def _arrival(self, src: DeviceRecord, dst: DeviceRecord, granted: bool) -> None:
        direction = f"{src.key} stores into {dst.key}, which reads its own memory"
        engine = self._backend.store_engine
        if not granted:
            self._say(
                "arrival", src, dst, engine, direction, verdict="not-granted",
                why="the driver does not grant peer access, so no kernel can store there",
            )  # fmt: skip
            return
        try:
            check = self._backend.store(src.torch_index, dst.torch_index, self._sizes.store_bytes)
        except RuntimeError as error:
            self._say(
                "arrival", src, dst, engine, direction, verdict="failed",
                why=one_line(str(error), 300),
            )  # fmt: skip
            raise
        self._say(
            "arrival", src, dst, engine, direction,
            verdict="wrong-bytes" if check.wrong_bytes else "arrived",
            checked_bytes=check.checked_bytes,
            wrong_bytes=check.wrong_bytes,
            first_wrong_offset=check.first_wrong_offset,
        )  # fmt: skip

    def _choose_copy_bytes(self, src: DeviceRecord, dst: DeviceRecord) -> None:
        """Warm up, then take a copy's size from a short trial of the smallest."""
        sizes, small = self._sizes, self._sizes.smallest_bytes
        first = src.key not in self._warmed
        self._warmed.add(src.key)
        ends = src.torch_index, dst.torch_index
        warm(
            lambda: self._backend.one_way_seconds(*ends, small, 4),
            sizes.first_warm_seconds if first else sizes.warm_seconds,
        )
        speed = 2 * small / self._backend.one_way_seconds(*ends, small, 2)
        self._copy_bytes[src.key, dst.key] = sizes.fitting(speed)

    def _figure(
        self, name: str, src: DeviceRecord, dst: DeviceRecord, time_it: Callable[[int], Sampled]
    ) -> None:
        """Time it, and keep how to do so again. Compared with: its like, of the kind asked for."""
        granted = self._granted[src.key, dst.key]
        kind = f"{name} {granted} {self._kinds.get(f'{src.key} {dst.key}', '')}"
        self._figures.append(_Figure(kind, time_it(1), time_it))

    def _one_way(self, src: DeviceRecord, dst: DeviceRecord, attempt: int) -> Sampled:
        size, copies = self._copy_bytes[src.key, dst.key], self._sizes.copies
        ends = src.torch_index, dst.torch_index
        sampled = sample(
            lambda: gigabytes_per_second(
                copies * size, self._backend.one_way_seconds(*ends, size, copies)
            ),
            self._sizes.samples,
        )
        right = self._backend.copied_right(*ends, size)
        self._report(
            "one-way", src, dst, f"{src.key} writes into {dst.key}, nothing else running",
            sampled, size, attempt, verdict="verified" if right else "wrong-data",
        )  # fmt: skip
        return sampled

    def _both_ways(self, a: DeviceRecord, b: DeviceRecord, attempt: int) -> Sampled:
        size = min(self._copy_bytes[a.key, b.key], self._copy_bytes[b.key, a.key])
        copies = self._sizes.copies
        payload = copies * size
        times = [
            self._backend.both_ways_seconds(a.torch_index, b.torch_index, size, copies)
            for _ in range(self._sizes.samples)
        ]
        there, back, together = (
            Sampled(tuple(gigabytes_per_second(factor * payload, t[column]) for t in times))
            for column, factor in ((0, 1), (1, 1), (2, 2))
        )
        for src, dst, sampled in ((a, b, there), (b, a, back)):
            direction = f"{src.key} writes into {dst.key} while {dst.key} writes into {src.key}"
            self._report("both-ways", src, dst, direction, sampled, size, attempt)
        direction = f"{a.key} and {b.key} write into each other, both added"
        self._report("together", a, b, direction, together, size, attempt)
        return together

    def _latency(self, src: DeviceRecord, dst: DeviceRecord) -> None:
        small, copies = self._sizes.small_bytes, self._sizes.small_copies
        sampled = sample(
            lambda: (
                1e6
                * self._backend.one_way_seconds(src.torch_index, dst.torch_index, small, copies)
                / copies
            ),
            self._sizes.samples,
        )
        direction = f"{src.key} writes {small} bytes into {dst.key}, copy after copy"
        self._report("latency", src, dst, direction, sampled, small, 1, unit="us", copies=copies)

    def trace(self, devices: Sequence[DeviceRecord]) -> None:
        """What a profiler sees during rung 3 of the first granted pair."""
        granted = [pair for pair, yes in self._granted.items() if yes]
        if not granted:
            return
        src, dst = (next(d for d in devices if d.key == key) for key in granted[0])
        seen = self._backend.trace_store(src.torch_index, dst.torch_index, self._sizes.store_bytes)
        stores = [
            activity["name"]
            for activity in seen
            if activity["category"] == "kernel" and activity["device"] == src.torch_index
        ]
        text = f"Kernels on {src.key} while it stores into {dst.key}: {', '.join(stores) or 'none'}"
        details = {"src": src.key, "dst": dst.key, "activities": seen[:40]}
        self._emit(Note("trace", text, details))

    def _report(
        self,
        name: str,
        src: DeviceRecord,
        dst: DeviceRecord,
        direction: str,
        sampled: Sampled,
        size_bytes: int,
        attempt: int,
        *,
        unit: str = "GB/s",
        copies: int = 0,
        **more: Any,
    ) -> None:
        engine = self._backend.copy_engine
        if not (self._granted[src.key, dst.key] and self._granted.get((dst.key, src.key), True)):
            engine = "copy, staged through the host"
        self._say(
            name, src, dst, engine, direction,
            value=round(sampled.median, 3),
            unit=unit,
            minimum=round(min(sampled.samples), 3),
            maximum=round(max(sampled.samples), 3),
            samples=tuple(round(figure, 3) for figure in sampled.samples),
            bytes_per_copy=size_bytes,
            copies_per_sample=copies or self._sizes.copies,
            attempt=attempt,
            why=None if attempt == 1 else "measured twice: low or restless at first",
            **more,
        )  # fmt: skip

    def _say(
        self,
        name: str,
        src: DeviceRecord,
        dst: DeviceRecord,
        engine: str,
        direction: str,
        **more: Any,
    ) -> None:
        self._emit(
            Measurement(
                name=name,
                src=src.key,
                dst=dst.key,
                method=SPEC.method,
                device_kind=self._backend.kind,
                engine=engine,
                direction=direction,
                **more,
            )
        )
