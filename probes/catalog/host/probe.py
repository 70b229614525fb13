"""Host to GPU and back: pinned and pageable, both ways, from each NUMA node, all GPUs at once.

The method is that of nvbandwidth's host_to_device_memcpy_ce and device_to_host_memcpy_ce: 512 MiB
of memory from the driver, allocated on the CPUs next to the GPU, and 16 copies queued while the
stream is held. Generation and width of the PCIe link are read while the copies run, because an idle
link is often asleep.
"""

from collections.abc import Sequence
from typing import Any, Optional

from ...devices import numa
from ...devices.gpus import Gpus
from ...devices.opened import Emit, host_free_bytes, largest_fitting, open_devices
from ...engine.host_copies import Copier, CpuCopier, GpuCopier
from ...protocol.messages import DeviceRecord, Note, WorkerRequest
from ...protocol.sizing import MIB, too_full
from ...protocol.spec import ProbeSpec, ProbeStopped, level_of
from ...protocol.timing import low_ones
from ...protocol.tracking import Track
from .measuring import Measuring
from .report import FROM_DEVICE, TO_DEVICE, HostReporter, HostResult, Level, Place

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


def run(request: WorkerRequest, emit: Emit) -> None:
    """Measure every requested device; ProbeStopped where it cannot."""
    level = level_of(request.params)
    samples = request.params.get("samples", 3 if level == "quick" else 5)
    if type(samples) is not int or not 3 <= samples <= 25:
        raise ProbeStopped("refused", "samples is a number from 3 to 25.")
    backend, devices = open_devices(request, SPEC, emit)
    is_cpu = backend.kind == "cpu"
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
            "refused",
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
    odd = set(
        low_ones([(f"{f.quantity.key} {f.place.device.name}", f.sampled.median) for f in figures])
    )
    odd |= {number for number, f in enumerate(figures) if f.sampled.restless()}
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
            found.setdefault((figure.place.key, figure.quantity.key), {})[node] = (
                figure.sampled.median
            )
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
