"""What each probe would find on a node: the figures that it names, at their expected values.

A probe yields its steps: what the progress says, figures without values, and one that adds them up.
A figure of which nothing says what it should be is left out, and so is a step without figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from gputop.measuring.runs import request_for, to_measurement, worker_request
from gputop.probes.catalog import memory
from gputop.probes.catalog.collectives import operations
from gputop.probes.catalog.collectives import probe as collectives
from gputop.probes.catalog.collectives.plan import sizes
from gputop.probes.catalog.gemm import probe as gemm
from gputop.probes.catalog.gemm.cases import asked_shape, cases
from gputop.probes.catalog.gemm.report import quantity_of
from gputop.probes.catalog.host import probe as host
from gputop.probes.catalog.host import report as host_report
from gputop.probes.catalog.p2p import concurrent, patterns
from gputop.probes.catalog.p2p import probe as p2p_probe
from gputop.probes.catalog.p2p import quantities as p2p
from gputop.probes.catalog.p2p.plan import PLANS, Kinds, couples, ordered
from gputop.probes.engine.memory_work import DRIVER_COPY, OPERATIONS
from gputop.probes.protocol.messages import DeviceRecord, MeasuredValue, WorkerRequest
from gputop.probes.protocol.quantity import Quantity
from gputop.probes.protocol.sizing import GIB, KIB, MIB
from gputop.simulating.node import SimulatedNode, template
from gputop.topology.expectation.collectives import COLLECTIVES
from gputop.topology.hardware.vendors import vendor_of
from gputop.topology.model import units
from gputop.topology.model.snapshot import Measurement
from gputop.topology.report import Report
from gputop.topology.wiring.graph import gpu_numa

START_SECONDS = 4.5e-6
"""How long a copy takes before its first byte moves: 4 KiB take 4.5 us between two H200 over NVLink
(gputop probe p2p). Other links start alike within a few us; nobody published theirs."""
_COPY, _KERNEL = "copy engine", "kernel"
_ONE_WAY = (
    (p2p.READ, _COPY, "{src} reads the memory of {dst}, nothing else running"),
    (p2p.KERNEL_WRITE, _KERNEL, "a kernel of {src} writes into {dst}, nothing else running"),
    (p2p.KERNEL_READ, _KERNEL, "a kernel of {src} reads the memory of {dst}, nothing else running"),
)


class SimulatedStep(NamedTuple):
    """One step of a simulated probe."""

    what: str
    """What the progress says meanwhile."""
    figures: Sequence[MeasuredValue]
    """Figures that come at its end; while it is planned they may lack their values."""
    total: MeasuredValue | None = None
    """The sum of the others, which takes all of them."""


Steps = Iterator[SimulatedStep]
Params = Mapping[str, Any]


def steps_of(node: SimulatedNode, request: WorkerRequest) -> tuple[SimulatedStep, ...]:
    """The steps of one probe on these devices, each with its figures."""
    devices = [node.device(key, number) for number, key in enumerate(request.devices)]
    planned = _PROBES[request.probe](node, devices, request.params)
    return tuple(
        SimulatedStep(step.what, found) for step in planned if (found := _filled(node, step))
    )


def _filled(node: SimulatedNode, step: SimulatedStep) -> tuple[MeasuredValue, ...]:
    found = tuple(one for figure in step.figures for one in node.simulated(figure))
    if step.total is None:
        return found
    if len(found) < len(step.figures):
        return ()
    return (*found, node.filled(step.total, sum(figure.value or 0.0 for figure in found)))


def expected_figures(report: Report, probe: str) -> tuple[Measurement, ...]:
    """What a probe should find on a healthy node like this; () where nothing says what it is.

    Where the number of GPUs makes no difference, one GPU or pair stands for all.
    """
    machine = report.snapshot.machine
    gpus = tuple(gpu.address for gpu in machine.gpus)
    of_pairs, of_all = probe.startswith("p2p"), probe == "collectives"
    if probe not in _PROBES or len(gpus) < (2 if of_pairs or of_all else 1):
        return ()
    if not of_all:
        gpus = gpus[: 2 if of_pairs else 1]
    node = SimulatedNode(report.snapshot, report.node, healthy=True)
    request = request_for(probe, machine, gpus)
    return tuple(
        msgspec.structs.replace(to_measurement(figure, probe, None), taken_at=None)
        for step in steps_of(node, worker_request(request, 1.0))
        for figure in step.figures
    )


def _host(node: SimulatedNode, devices: Sequence[DeviceRecord], params: Params) -> Steps:
    """Pinned copies of each GPU over its PCIe link as it came up.

    Pageable memory and all GPUs at once have no reference.
    """
    for device in devices:
        link = _host_link(node, device.key)
        figures = [
            template(
                host.SPEC,
                quantity,
                device.key,
                engine=_COPY,
                direction=host_report.way(device.key, to_device),
                variant="pinned",
                bytes_per_copy=512 * MIB,
                details=link,
            )
            for to_device, quantity in host_report.QUANTITIES.items()
        ]
        yield SimulatedStep(f"{device.key}, pinned memory", figures)


def _host_link(node: SimulatedNode, address: str) -> dict[str, Any]:
    """The PCIe link while the copies run, and the NUMA node of the memory."""
    gpu, bus = node.gpu(address), node.snapshot.machine.pci_device(address)
    seen = {
        "memory": "pinned by the driver",
        "numa_node": gpu_numa(gpu),
        "pcie_generation": gpu.pcie_gen_max,
        "pcie_width": gpu.pcie_width_max if bus is None else bus.link_width_now,
    }
    return {name: value for name, value in seen.items() if value is not None}


def _memory(node: SimulatedNode, devices: Sequence[DeviceRecord], params: Params) -> Steps:
    """Every operation in the memory of every GPU."""
    for device in devices:
        for operation in OPERATIONS:
            figure = template(
                memory.SPEC,
                operation.quantity,
                device.key,
                engine=_COPY if operation is DRIVER_COPY else _KERNEL,
                direction=f"{device.key} {operation.what} its own memory",
                verdict="verified",
                variant=operation.variant,
                bytes_per_copy=2 * GIB,
            )
            words = f"{operation.quantity.key.replace('_', ' ')} {operation.variant}"
            yield SimulatedStep(f"{device.key}: {words}".strip(), [figure])


def _gemm(node: SimulatedNode, devices: Sequence[DeviceRecord], params: Params) -> Steps:
    """Each matrix multiplication on all GPUs."""
    for case in cases(params["level"], shape=asked_shape(params)):
        shape: dict[str, Any] = {name: getattr(case, name) for name in ("dtype", "m", "k", "n")}
        shape["entry"] = str(case.entry)
        figures = [
            template(
                gemm.SPEC,
                quantity_of(case),
                device.key,
                engine=str(case.entry),
                direction=f"{device.key} multiplies in its own memory",
                variant=case.name,
                details=shape,
            )
            for device in devices
        ]
        yield SimulatedStep(case.name, figures)


def _p2p(node: SimulatedNode, devices: Sequence[DeviceRecord], params: Params) -> Steps:
    """Access, arrival, copies both ways, kernels, and copies by size, in the order of the probe."""
    plan = PLANS[params["level"]]
    pairs = ordered(devices)
    granted = {(src.key, dst.key): _granted(node, src, dst) for src, dst in pairs}
    kinds = Kinds(params.get("kinds"), granted)
    twos = couples(devices)
    both = twos if plan.both_ways_of_all else kinds.samples(twos)
    for a, b in twos:
        for src, dst in ((a, b), (b, a)):
            yield SimulatedStep(
                f"{src.key} to {dst.key}", _one_direction(src, dst, granted[src.key, dst.key])
            )
        if (a, b) in both and granted[a.key, b.key]:
            yield SimulatedStep(f"{a.key} and {b.key}, both ways", *_both_ways(a, b))
    for src, dst in pairs if plan.other_paths else ():
        if granted[src.key, dst.key]:
            yield SimulatedStep(
                f"{src.key} to {dst.key}, reading and kernels", _other_paths(src, dst)
            )
    swept = pairs if plan.extras_of_all else kinds.samples(pairs)
    for src, dst in swept if plan.sweep_factor else ():
        if granted[src.key, dst.key]:
            figures = tuple(_sweep(node, src, dst, plan.sweep_factor))
            yield SimulatedStep(f"{src.key} to {dst.key}, by size", figures)


def _granted(node: SimulatedNode, src: DeviceRecord, dst: DeviceRecord) -> bool:
    pair = node.snapshot.machine.pair(src.key, dst.key)
    return pair is not None and pair.p2p_read == "ok" and pair.p2p_write == "ok"


def _one_direction(src: DeviceRecord, dst: DeviceRecord, granted: bool) -> list[MeasuredValue]:
    asks = f"{src.key} asks for the memory of {dst.key}"
    stores = f"{src.key} stores into {dst.key}, which reads its own memory"
    access, arrival = ("granted", "arrived") if granted else ("not-granted", "not-granted")
    checked = {"checked_bytes": 4 * MIB, "wrong_bytes": 0} if granted else {}
    figures = [
        _pair(p2p.ACCESS, src, dst, "", asks, verdict=access),
        _pair(p2p.ARRIVAL, src, dst, "kernel store", stores, verdict=arrival, **checked),
    ]
    if granted:
        direction = f"{src.key} writes into {dst.key}, nothing else running"
        figures.append(_copy(p2p.WRITE, src, dst, _COPY, direction, "verified"))
    return figures


def _both_ways(a: DeviceRecord, b: DeviceRecord) -> tuple[list[MeasuredValue], MeasuredValue]:
    figures = [
        _copy(
            p2p.BOTH_WAYS,
            src,
            dst,
            _COPY,
            f"{src.key} writes into {dst.key} while {dst.key} writes into {src.key}",
        )
        for src, dst in ((a, b), (b, a))
    ]
    direction = f"{a.key} and {b.key} write into each other, both added"
    return figures, _copy(p2p.TOGETHER, a, b, _COPY, direction)


def _other_paths(src: DeviceRecord, dst: DeviceRecord) -> list[MeasuredValue]:
    figures = [
        _copy(quantity, src, dst, engine, words.format(src=src.key, dst=dst.key), "verified")
        for quantity, engine, words in _ONE_WAY
    ]
    chases = f"a kernel of {src.key} follows pointers in the memory of {dst.key}"
    return [*figures, _pair(p2p.KERNEL_LATENCY, src, dst, _KERNEL, chases, bytes_per_copy=8)]


def _sweep(
    node: SimulatedNode, src: DeviceRecord, dst: DeviceRecord, factor: int
) -> Iterator[MeasuredValue]:
    """Copies by size: the start of a copy, then its bytes at the rate of a large one."""
    direction = f"{src.key} writes into {dst.key}, copy after copy of one size"
    rate_gbs = node.expected(_copy(p2p.SWEEP, src, dst, _COPY, direction))
    size = 4 * KIB
    while rate_gbs is not None and size <= GIB:
        seconds = START_SECONDS + size / (rate_gbs * 1e9)
        yield _pair(
            p2p.SWEEP,
            src,
            dst,
            _COPY,
            direction,
            value=size / seconds / 1e9,
            bytes_per_copy=size,
            details={"time_us": round(1e6 * seconds, 3)},
        )
        size *= factor


def _copy(
    quantity: Quantity,
    src: DeviceRecord,
    dst: DeviceRecord,
    engine: str,
    direction: str,
    verdict: str | None = None,
) -> MeasuredValue:
    large = {"bytes_per_copy": 512 * MIB, "copies_per_sample": 16}
    return _pair(quantity, src, dst, engine, direction, verdict=verdict, **large)


def _pair(
    quantity: Quantity,
    src: DeviceRecord,
    dst: DeviceRecord,
    engine: str,
    direction: str,
    **more: Any,
) -> MeasuredValue:
    about = {"engine": engine, "direction": direction, **more}
    return template(p2p_probe.SPEC, quantity, src.key, dst.key, **about)


def _concurrent(node: SimulatedNode, devices: Sequence[DeviceRecord], params: Params) -> Steps:
    """The patterns of simultaneous copies in which every pair has a reference."""
    for pattern in patterns.patterns(len(devices), params["level"]):
        hub = "" if pattern.hub is None else devices[pattern.hub].key
        title = f"{pattern.name} ({hub})" if hub else pattern.name
        shared = {"engine": _COPY, "variant": title, "bytes_per_copy": 128 * MIB}
        pairs = [(devices[src].key, devices[dst].key) for src, dst in pattern.flows]
        figures = [
            template(
                concurrent.SPEC,
                p2p.CONCURRENT,
                src,
                dst,
                direction=f"{src} writes into {dst}: {pattern.name}",
                **shared,
            )
            for src, dst in pairs
        ]
        total = template(
            concurrent.SPEC,
            p2p.CONCURRENT_TOTAL,
            hub if pattern.name == patterns.ONE_TO_ALL else "",
            hub if pattern.name == patterns.ALL_TO_ONE else "",
            direction=f"{pattern.name}, {len(pairs)} pairs, at once, until the last is done",
            details={"pairs": len(pairs)},
            **shared,
        )
        yield SimulatedStep(title, figures, total if len(pairs) > 1 else None)


def _collectives(node: SimulatedNode, devices: Sequence[DeviceRecord], params: Params) -> Steps:
    """Every operation, form and size that a reference or the library's own model covers."""
    forms = 1 if params["level"] == "quick" else None
    variables = dict(params.get("set") or {})
    details = {"ranks": len(devices), "dtype": "float32", "variables": variables}
    for operation in operations.BY_NAME.values():
        for form in operation.forms[:forms]:
            shared = {"verdict": "verified", "variant": form, "details": details}
            for size, figures in _curve(node, operation, devices, params, shared):
                yield SimulatedStep(f"{operation.title} of {units.size(size)}, {form}", figures)


def _curve(
    node: SimulatedNode,
    operation: operations.Operation,
    devices: Sequence[DeviceRecord],
    params: Params,
    shared: dict[str, Any],
) -> Iterator[tuple[int, list[MeasuredValue]]]:
    """One collective over message sizes; [] where nothing says what it should be."""
    addresses = [device.key for device in devices]
    library = vendor_of(node.gpu(addresses[0])).library
    model = _model(node, operation, addresses)

    def figure(size: int, value: float | None = None) -> MeasuredValue:
        direction = f"{operation.title} of {units.size(size)}, by all {len(devices)} ranks"
        about = {"engine": library, "direction": direction, **shared}
        return template(
            collectives.SPEC, operation.quantity, value=value, bytes_per_copy=size, **about
        )

    def expected(size: int) -> float | None:
        return node.expected(figure(size), {"devices": addresses})

    for size in sizes(operation.name, params, cpu=False):
        value = expected(size)
        if value is None:
            value = _by_model(model, size, expected)
        yield size, [] if value is None else [figure(size, value)]


def _by_model(
    model: Mapping[int, float], size: int, expected: Callable[[int], float | None]
) -> float | None:
    """Small messages: the library's model gives the shape, the reference the height."""
    here = _seconds(model, size)
    for least, there in sorted(model.items()) if here else ():
        height = expected(least) if least > size else None
        if height is not None and here:
            return height * (size / here) / (least / there)
    return None


def _model(
    node: SimulatedNode, operation: operations.Operation, addresses: list[str]
) -> dict[int, float]:
    """Bytes -> seconds of one call by the library's own model; {} where it has none."""
    _, collective = COLLECTIVES.get(operation.quantity.key, ("", ""))
    everyone = len(addresses) == len(node.snapshot.machine.gpus)
    made = node.judge.variables.without({}, None if everyone else tuple(addresses))
    if made is None or not collective:
        return {}
    return {
        choice.bytes: choice.expected_us * 1e-6
        for choice in made.choices
        if choice.collective == collective and choice.expected_us > 0
    }


def _seconds(model: Mapping[int, float], size: int) -> float | None:
    """The model at a size: straight between two of its sizes, and on below the smallest."""
    known = sorted(model.items())
    for (low, before), (high, after) in pairwise(known):
        if size <= high:
            return before + (size - low) / (high - low) * (after - before)
    return None


_PROBES: Mapping[str, Callable[[SimulatedNode, Sequence[DeviceRecord], Params], Steps]] = {
    "host": _host,
    "memory": _memory,
    "p2p": _p2p,
    "p2p-concurrent": _concurrent,
    "gemm": _gemm,
    "collectives": _collectives,
}
NAMES = tuple(_PROBES)
"""Probes that can be simulated. One without a reference (first use, training steps, NCCL's own log)
is not: nothing in the project says what it should find."""
