"""Host to GPU and back: pinned and pageable, both ways, from each NUMA node, all GPUs at once.

The method is that of nvbandwidth's host_to_device_memcpy_ce and device_to_host_memcpy_ce: 512 MiB
of memory from the driver, allocated on the CPUs next to the GPU, and 16 copies queued while the
stream is held. Generation and width of the PCIe link are read while the copies run, because an idle
link is often asleep.
"""

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any, Optional

from ...devices import numa
from ...devices.gpus import Gpus
from ...devices.numa import on_cpus
from ...devices.opened import Emit, host_free_bytes, largest_fitting, open_devices
from ...devices.sensors import Sensors
from ...engine.held import rates
from ...engine.host_copies import Copier, Copy, CpuCopier, GpuCopier
from ...engine.host_memory import HostBuffer
from ...engine.memory import Memory
from ...protocol.messages import DeviceRecord, Note, WorkerRequest
from ...protocol.plaintext import one_line
from ...protocol.sizing import MIB, too_full
from ...protocol.spec import ProbeSpec, ProbeStopped, level_of
from ...protocol.status import DeviceKind, Status
from ...protocol.timing import Sampled, gigabytes_per_second, low_ones, sample, verdict_of, warm
from ...protocol.tracking import Track
from .report import (
    FEW_COPIES,
    FROM_DEVICE,
    QUANTITIES,
    TO_DEVICE,
    HostReporter,
    HostResult,
    Level,
    Place,
    about,
    link,
    way,
)

SPEC = ProbeSpec(
    name="host",
    title="Host to GPU",
    measures=(
        "GB/s from host memory to each GPU and back by the copy engines: pinned, pageable, both "
        "ways, from the CPUs of each NUMA node, all GPUs at once; PCIe link as it is meanwhile."
    ),
    method="host/2",
    minimum_gpus=1,
    memory_bytes_per_gpu=512 * MIB,
    start_seconds=1.5,
    needs_torch=False,
    seconds_per_gpu=2.0,
    seconds_per_pair=0.0,
    seconds_alone=2.0,
    level_factors={"quick": 0.2, "normal": 1.0, "full": 1.0},
    host_memory_bytes=1280 * MIB,
    loads=("host", "links"),
    quantities=(TO_DEVICE, FROM_DEVICE),
)

_BUFFER_BYTES = (512 * MIB, 256 * MIB, 64 * MIB)
_CPU_BYTES = 8 * MIB
_OTHER_BYTES = 256 * MIB
"""Size of pageable buffers and those of one NUMA node; one of them exists at a time."""
_HOST_SHARE = 4
"""All buffers together stay below this part of the free host memory."""
_FASTER = 1.05

_STAGED = "copy engine, staged by the driver"
_PAGEABLE_COPIES, _FEW_SAMPLES = 2, 3
_PAGE_BYTES = 4096


class Measuring:
    """Holds buffers on host and devices, and times copies between them."""

    def __init__(
        self,
        copier: Copier,
        level: Level,
        places: Sequence[Place],
        reporter: HostReporter,
        track: Track,
    ) -> None:
        self._copier = copier
        self._track = track
        self._level = level
        self._places = places
        self._reporter = reporter
        self._sensors = Sensors([place.device.pci_address for place in places])
        self._pools: dict[Optional[int], HostBuffer] = {}
        self._devices: dict[str, Memory] = {}

    def allocate(self, size_bytes: int) -> None:
        """Allocate pinned memory on each node that has a device, and as much on each device."""
        for place in self._places:
            self._devices[place.key] = self._copier.device_buffer(place.index, size_bytes)
            if place.node not in self._pools:
                self._pools[place.node] = self._host_buffer(place, "pinned", size_bytes)

    def _host_buffer(self, place: Place, kind: str, size_bytes: int) -> HostBuffer:
        return on_cpus(
            place.cpus, partial(self._copier.host_buffer, place.index, kind, size_bytes)
        )  # fmt: skip

    def close(self) -> None:
        """Free everything, also after an error."""
        for place in self._places:
            with contextlib.suppress(RuntimeError):
                self._copier.finish(place.index)
        for pool in self._pools.values():
            with contextlib.suppress(RuntimeError):
                pool.close()
        self._pools.clear()
        self._devices.clear()
        self._copier.close()

    def one_way(self, place: Place) -> "list[HostResult]":
        """Copy to the device and back, pinned and alone; the bytes are compared once."""
        pool, device = self._pools[place.node], self._devices[place.key]
        verdict = verdict_of(self._copier.comes_back(place.index, pool.memory, device))
        there = Copy(place.index, True, pool.memory, device)
        warm(lambda: self._copier.ends([there], 2), self._level.warm_seconds)
        samples = self._level.samples
        return [
            self._pinned(place, pool, to_device, "pinned", samples, verdict, 1)
            for to_device in (True, False)
        ]

    def _pinned(
        self, place: Place, buffer: HostBuffer, to_device: bool, variant: str, samples: int,
        verdict: Optional[str], attempt: int,
    ) -> HostResult:  # fmt: skip
        device = self._devices[place.key]
        small = min(self._level.smallest_bytes, buffer.memory.size_bytes)
        trial = Copy(place.index, to_device, buffer.memory.part(0, small), device.part(0, small))
        speed = 2 * small / self._copier.ends([trial], 2)[0][-1]
        size, copies = self._level.plan(buffer.memory.size_bytes, speed)
        copy = Copy(place.index, to_device, buffer.memory.part(0, size), device.part(0, size))
        with self._sensors.watching(place.device.pci_address) as watch:
            sampled = sample(
                lambda: gigabytes_per_second(
                    copies * size, self._copier.ends([copy], copies)[0][-1]
                ),
                samples,
                tell=self._track.so_far_of,
            )
        details = {**link(watch.summary()), **about(buffer, place.node)}
        self._reporter.figure(
            QUANTITIES[to_device], place.key, variant, way(place.key, to_device), sampled, size,
            copies, details, self._copier.engine, attempt, verdict,
        )  # fmt: skip
        again = partial(
            self._pinned, place, buffer, to_device, variant, samples, verdict, attempt + 1
        )
        return HostResult(QUANTITIES[to_device], place, sampled, again)

    def both_ways(self, place: Place) -> None:
        """Copy both ways at once; each way has its own half of the buffers."""
        pool, device = self._pools[place.node], self._devices[place.key]
        half = pool.memory.size_bytes // 2
        there = Copy(place.index, True, pool.memory.part(0, half), device.part(0, half))
        back = Copy(place.index, False, pool.memory.part(half, half), device.part(half, half))
        with self._sensors.watching(place.device.pci_address) as watch:
            *each, together = self._together([there, back])
        details = {**link(watch.summary()), **about(pool, place.node)}
        details["together_gbs"] = round(together.median, 3)
        for to_device, sampled in zip((True, False), each):
            direction = f"{way(place.key, to_device)}, while the other way runs too"
            self._reporter.figure(
                QUANTITIES[to_device], place.key, "pinned, both ways", direction, sampled, half,
                self._level.copies, details, self._copier.engine,
            )  # fmt: skip

    def all_at_once(self) -> None:
        """Copy to and from all devices at once, each with its own part of pinned memory."""
        for to_device in (True, False):
            copies = self._shares(to_device)
            with contextlib.ExitStack() as stack:
                watches = [
                    stack.enter_context(self._sensors.watching(place.device.pci_address))
                    for place in self._places
                ]
                *each, total = self._together(copies)
            size, engine = copies[0].host.size_bytes, self._copier.engine
            for place, sampled, watch in zip(self._places, each, watches):
                self._reporter.figure(
                    QUANTITIES[to_device], place.key, "pinned, all GPUs at once",
                    f"{way(place.key, to_device)}, while all others do the same", sampled, size,
                    self._level.copies,
                    {**link(watch.summary()), **about(self._pools[place.node], place.node)}, engine,
                )  # fmt: skip
            self._reporter.figure(
                QUANTITIES[to_device], "", "pinned, all GPUs at once",
                f"{way('all GPUs at once', to_device)}, added", total, size, self._level.copies,
                {"gpus": len(copies)}, engine,
            )  # fmt: skip

    def _shares(self, to_device: bool) -> "list[Copy]":
        """A copy for each device; the devices of a node share its pinned memory in equal parts."""
        nodes = [place.node for place in self._places]
        most = max(nodes.count(node) for node in nodes)
        size = (
            next(iter(self._pools.values())).memory.size_bytes // most // _PAGE_BYTES * _PAGE_BYTES
        )
        copies, start_of = [], dict.fromkeys(nodes, 0)
        for place in self._places:
            start = start_of[place.node]
            start_of[place.node] += size
            host = self._pools[place.node].memory.part(start, size)
            copies.append(
                Copy(place.index, to_device, host, self._devices[place.key].part(0, size))
            )
        return copies

    def _together(self, copies: "Sequence[Copy]") -> "list[Sampled]":
        """GB/s of each device while all are busy, followed by their sum."""
        sizes = [copy.host.size_bytes for copy in copies]
        self._copier.ends(copies, FEW_COPIES)
        taken = [
            rates(self._copier.ends(copies, self._level.copies), sizes)
            for _ in range(self._level.samples)
        ]
        each = [Sampled(tuple(rates[place] for rates in taken)) for place in range(len(copies))]
        return [*each, Sampled(tuple(sum(rates) for rates in taken))]

    def pageable(self, size_bytes: int) -> None:
        """Copy from pageable memory next to each device; the CPU copies, so its clock counts."""
        for node in dict.fromkeys(place.node for place in self._places):
            places = [place for place in self._places if place.node == node]
            buffer = self._host_buffer(places[0], "pageable", size_bytes)
            try:
                for place in places:
                    for to_device in (True, False):
                        self._pageable(place, buffer, to_device)
            finally:
                buffer.close()

    def _pageable(self, place: Place, buffer: HostBuffer, to_device: bool) -> None:
        size = buffer.memory.size_bytes
        device = self._devices[place.key].part(0, size)
        copy = Copy(place.index, to_device, buffer.memory, device)
        work = partial(self._copier.waited_seconds, copy, _PAGEABLE_COPIES)
        on_cpus(place.cpus, work)
        sampled = sample(
            lambda: gigabytes_per_second(_PAGEABLE_COPIES * size, on_cpus(place.cpus, work)),
            _FEW_SAMPLES,
        )
        engine = self._copier.engine if self._reporter.kind == DeviceKind.CPU else _STAGED
        self._reporter.figure(
            QUANTITIES[to_device], place.key, "pageable", way(place.key, to_device), sampled, size,
            _PAGEABLE_COPIES, about(buffer, place.node), engine,
        )  # fmt: skip

    def from_node(self, node: int, cpus: "frozenset[int]", size_bytes: int) -> "list[HostResult]":
        """Copy between every device and memory of one NUMA node."""
        make = partial(self._copier.host_buffer, self._places[0].index)
        try:
            try:
                buffer = on_cpus(cpus, partial(make, "registered", size_bytes))
            except RuntimeError:
                buffer = on_cpus(cpus, partial(make, "pinned", size_bytes))
        except (RuntimeError, OSError, MemoryError) as error:
            text = f"No memory could be pinned on NUMA node {node}: {one_line(str(error), 120)}."
            self._reporter.emit(Note("numa", text, {"node": node}))
            return []
        variant, results = f"pinned, NUMA node {node}", []
        try:
            for place in self._places:
                here = Place(place.device, node, cpus)
                for to_device in (True, False):
                    work = partial(
                        self._pinned, here, buffer, to_device, variant, _FEW_SAMPLES, None, 1
                    )
                    results.append(on_cpus(cpus, work))
        finally:
            buffer.close()
        return results


def run(request: WorkerRequest, emit: Emit) -> None:
    """Measure every requested device; ProbeStopped where it cannot."""
    level = level_of(request.params)
    samples = request.params.get("samples", 3 if level == "quick" else 5)
    if type(samples) is not int or not 3 <= samples <= 25:
        raise ProbeStopped(Status.REFUSED, "samples is a number from 3 to 25.")
    backend, devices = open_devices(request, SPEC, emit)
    is_cpu = backend.kind == DeviceKind.CPU
    nodes = numa.nodes()
    places = [_place(device, nodes) for device in devices]
    size_bytes = _size(request, devices, places, is_cpu=is_cpu)
    kept = Level(
        samples=samples,
        copies=16 if level != "quick" and not is_cpu else 4,
        sample_seconds=0.12 if level == "quick" else 0.4,
        warm_seconds=0.0 if is_cpu else 0.2,
        smallest_bytes=min(size_bytes, 64 * MIB),
    )
    copier: Copier = CpuCopier()
    if isinstance(backend, Gpus):
        copier = GpuCopier(backend.runtime, backend.kernels)
    reporter = HostReporter(SPEC.method, backend.kind, emit)
    track = Track(emit)
    measuring = Measuring(copier, kept, places, reporter, track)
    try:
        track.step(0, 1, f"pinning {size_bytes // MIB} MiB of host memory")
        measuring.allocate(size_bytes)
        _walk(measuring, places, level, nodes, min(size_bytes, _OTHER_BYTES), track, emit)
    finally:
        measuring.close()
        backend.release()


def _place(device: DeviceRecord, nodes: "dict[int, frozenset[int]]") -> Place:
    node = numa.node_of(device.pci_address)
    return Place(device, node, nodes.get(node) if node is not None else None)


def _size(
    request: WorkerRequest,
    devices: "Sequence[DeviceRecord]",
    places: "Sequence[Place]",
    *,
    is_cpu: bool,
) -> int:
    """Bytes on each device, and bytes of pinned memory on each NUMA node with a device."""
    if is_cpu:
        return _CPU_BYTES
    forced = request.params.get("force") is True
    on_device = largest_fitting(_BUFFER_BYTES, devices, forced=forced)
    if on_device is None:
        raise too_full(devices, _BUFFER_BYTES[-1], forced=forced)
    free = host_free_bytes()
    # At most one more buffer of this size exists beside these: see _OTHER_BYTES.
    buffers = len({place.node for place in places}) + 1
    room = free // _HOST_SHARE // buffers
    pinned = next((size for size in _BUFFER_BYTES if size <= room), None)
    if pinned is None:
        raise ProbeStopped(
            Status.REFUSED,
            f"{free // MIB} MiB of host memory are free for this process: the probe pins "
            f"{_BUFFER_BYTES[-1] // MIB} MiB for each NUMA node and one buffer more, and takes no "
            "more than a quarter.",
        )
    return min(on_device, pinned)


def _walk(
    measuring: Measuring,
    places: "Sequence[Place]",
    level: str,
    nodes: "dict[int, frozenset[int]]",
    other_bytes: int,
    track: Track,
    emit: Emit,
) -> None:
    """Measure everything of the level, step by step."""
    more = level != "quick"
    from_nodes = list(nodes.items()) if more and len(nodes) > 1 else []
    several = len(places) > 1
    total = len(places) * (2 if more else 1) + several + bool(more) + len(from_nodes)
    done = 0

    def step(what: str) -> None:
        nonlocal done
        track.step(done, total, what)
        done += 1

    figures: list[HostResult] = []
    for place in places:
        step(f"{place.key}, pinned memory")
        figures += measuring.one_way(place)
    alike = [(f"{f.quantity.key} {f.place.device.name}", f.sampled.median) for f in figures]
    odd = {*low_ones(alike), *(n for n, f in enumerate(figures) if f.sampled.restless())}
    for number in sorted(odd):
        low = figures[number]
        track.step(done, total, f"{low.place.key} once more: low or restless at first")
        figures[number] = low.again()
    if several:
        step("all GPUs at once")
        measuring.all_at_once()
    if more:
        for place in places:
            step(f"{place.key}, both ways at once")
            measuring.both_ways(place)
        step("pageable memory")
        measuring.pageable(other_bytes)
    found: dict[tuple[str, str], dict[int, float]] = {}
    for node, cpus in from_nodes:
        step(f"from the CPUs of NUMA node {node}")
        for figure in measuring.from_node(node, cpus, other_bytes):
            by_node = found.setdefault((figure.place.key, figure.quantity.key), {})
            by_node[node] = figure.sampled.median
    if more:
        _compare_nodes(found, {place.key: place.node for place in places}, nodes, emit)
    track.step(total, total, "all host copies measured")


def _compare_nodes(
    found: "dict[tuple[str, str], dict[int, float]]",
    own: "dict[str, Optional[int]]",
    nodes: "dict[int, frozenset[int]]",
    emit: Emit,
) -> None:
    """A note if another node is faster than the one that the firmware names."""
    if len(nodes) == 1:
        node = next(iter(nodes))
        emit(Note("numa", f"One NUMA node has CPUs for this process: node {node}."))
        return
    lines: list[str] = []
    details: list[dict[str, Any]] = []
    for (key, name), by_node in found.items():
        named, best = own[key], max(by_node, key=lambda node: by_node[node])
        if named is None or named not in by_node or by_node[best] <= _FASTER * by_node[named]:
            continue
        way = "to it" if name == TO_DEVICE.key else "from it"
        lines.append(
            f"{key}: {by_node[best]:.1f} GB/s {way} from node {best}, {by_node[named]:.1f} from "
            f"node {named}, which the firmware says is its own."
        )
        details.append({"device": key, "quantity": name, "gbs_by_node": list(by_node.items())})
    if lines:
        emit(Note("numa", "\n".join(lines), {"figures": details}))
