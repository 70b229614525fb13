"""The lines that identify the machine, and those about what could not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gputop.terminal.clean import clean
from gputop.topology.hardware.specs import sku_for
from gputop.topology.hardware.strangers import remarks
from gputop.topology.hardware.vendors import AMD, vendor_of
from gputop.topology.model.snapshot import ProblemKind
from gputop.topology.model.units import UNKNOWN, size, text, whole
from gputop.topology.model.versions import LibraryName
from gputop.widgets.gpu_cells import model
from gputop.widgets.spans import Line, joined, left, width_of, wrapped

if TYPE_CHECKING:
    from gputop.topology.explain.absence_reason import Reason
    from gputop.topology.model.machine import Gpu, Machine
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.model.surroundings import Host, Software

_DOT = (" · ", "muted")


def identity_lines(snapshot: NodeSnapshot, width: int, most: int = 2) -> tuple[Line, ...]:
    """Host, CPUs, GPUs, versions, and whether this is a guest; on `most` lines at most."""
    machine = snapshot.machine
    parts: list[Line] = []
    host = machine.host
    if host is not None and host.hostname:
        parts.append(((clean(host.hostname, 60), "strong"),))
    for name, count in Counter(_model(gpu) for gpu in machine.gpus).items():
        parts.append(_counted(machine, name, count))
    parts += _versions(machine)
    if host is not None:
        parts += _host(host)
    while most == 1 and len(parts) > 1 and width_of(joined(parts, _DOT)) + 2 > width:
        parts.pop()
    return _packed(parts, max(width - 1, 20))[:most]


def _packed(parts: list[Line], width: int) -> tuple[Line, ...]:
    """Join facts; one that does not fit begins a new line, because a cut "2.2" misleads."""
    rows: list[list[Line]] = [[]]
    for part in parts:
        if rows[-1] and width_of(joined([*rows[-1], part], _DOT)) + 1 > width:
            rows.append([])
        rows[-1].append(part)
    return tuple(
        line for row in rows for line in wrapped(((" ", ""), *joined(row, _DOT)), width, indent=1)
    )


def _counted(machine: Machine, name: str, count: int) -> Line:
    """How many GPUs of a model; where packages show as parts, how many of each."""
    gpus = [gpu for gpu in machine.gpus if _model(gpu) == name]
    packages = len({gpu.parent for gpu in gpus if gpu.parent and gpu.partition})
    if not packages or any(
        not vendor_of(gpu).parts_are_devices or not gpu.partition for gpu in gpus
    ):
        # Each die of an MI250X is a GPU: eight of them are four MI250X.
        dies = all(gpu.vendor == AMD.id and _is_die(gpu) for gpu in gpus)
        what = f"{count} GCD{'s' * (count != 1)} of {name}" if dies else f"{count} × {name}"
        return ((what, "strong"),)
    modes = {gpu.compute_partition for gpu in gpus}
    mode = clean(modes.pop() or "", 8) if len(modes) == 1 else ""
    return (
        (f"{packages} × {name}", "strong"),
        (f" in {count} part{'s' * (count != 1)}{f', {mode}' if mode else ''}", ""),
    )


def _is_die(gpu: Gpu) -> bool:
    sku = sku_for(gpu)
    return sku is not None and sku.devices > 1


def _model(gpu: Gpu) -> str:
    """The GPU's name, else its model by the PCI id; without both, what it can do."""
    name = model(gpu)
    if name != UNKNOWN:
        return name
    vendor = vendor_of(gpu)
    maker = clean(vendor.name, 20)
    if gpu.compute_capability is None:
        return f"{maker} GPU, model unknown".lstrip()
    return f"{maker} GPU{vendor.capability} {clean(gpu.compute_capability, 20)}".lstrip()


def _versions(machine: Machine) -> list[Line]:
    software = machine.software
    if software is None:
        return []
    found = (
        ("driver", software.nvidia_driver or software.amd_driver),
        ("CUDA", software.cuda_driver),
        ("ROCm", software.rocm),
        ("NCCL", _with_loaded(software, software.nccl, LibraryName.NCCL)),
        ("RCCL", _with_loaded(software, software.rccl, LibraryName.RCCL)),
    )
    return [((f"{name} ", "muted"), (clean(value, 40), "")) for name, value in found if value]


def _with_loaded(software: Software, installed: str | None, name: LibraryName) -> str | None:
    """The version that is installed, and those that jobs have loaded where they are others."""
    others = [one.version for one in software.running if one.name == name and one.version]
    loaded = [f"{version} loaded" for version in dict.fromkeys(others) if version != installed]
    return ", ".join([*([installed] if installed else []), *loaded]) or None


def _host(host: Host) -> list[Line]:
    parts: list[Line] = []
    if host.hypervisor:
        parts.append((("guest of ", "muted"), (clean(host.hypervisor, 40), "")))
    if host.container is not None and host.container.kind:
        parts.append((("in ", "muted"), (clean(host.container.kind, 40), "")))
    if host.cpu_model_name:
        count = f"{len(host.sockets)} × " if host.sockets else ""
        parts.append(((f"{count}{_short_cpu(host.cpu_model_name)}", ""),))
    if host.memory_bytes is not None:
        parts.append(((size(host.memory_bytes), ""),))
    return parts


def _short_cpu(name: str) -> str:
    text = clean(name, 80)
    for noise in ("(R)", "(TM)", "(tm)", " Processor", " CPU"):
        text = text.replace(noise, "")
    return " ".join(text.split())


def problem_lines(snapshot: NodeSnapshot, width: int) -> tuple[Line, ...]:
    """Vendors that are not known, then what could not be read; absent sources last, and muted."""
    found = sorted(snapshot.problems, key=lambda problem: problem.kind is ProblemKind.ABSENT)
    lines: list[Line] = []
    for remark in remarks(snapshot.machine.gpus):
        lines += wrapped((("!", "warn"), (f" {clean(remark)}", "")), width, indent=4)
    for problem in found:
        quiet = problem.kind is ProblemKind.ABSENT
        spans = (
            (" " if quiet else "!", "muted" if quiet else "warn"),
            (f" {clean(problem.source, 20)} ", "muted"),
            (clean(problem.text), "muted" if quiet else ""),
        )
        lines += wrapped(spans, width, indent=4)
    return tuple(lines)


DEMOS: Line = ((" Press ", "muted"), ("d", "key bold"), (" to look at a demo node.", "muted"))


def absence_lines(reasons: tuple[Reason, ...], width: int) -> tuple[Line, ...]:
    """No GPU: why none is seen, and what to do; then where demos are."""
    return (
        ((" No GPU is seen here.", "strong"),),
        (),
        *reason_lines(reasons, width),
        (),
        DEMOS,
    )


def reason_lines(reasons: tuple[Reason, ...], width: int) -> tuple[Line, ...]:
    """Causes of a GPU that does not answer, each with its evidence and what to do."""
    lines: list[Line] = []
    for reason in reasons:
        lines += wrapped(((" • ", "warn"), (clean(reason.sentence), "")), width - 1, indent=3)
        for evidence in (
            reason.evidence if not isinstance(reason.evidence, str) else (reason.evidence,)
        ):
            lines += wrapped(((f"   {clean(evidence)}", "muted"),), width - 1, indent=3)
        if reason.fix:
            lines += wrapped((("   → ", "good"), (clean(reason.fix), "")), width - 1, indent=5)
    return tuple(lines)


def host_lines(snapshot: NodeSnapshot, width: int) -> tuple[Line, ...]:
    """The machine around: CPUs, NUMA nodes, PCI devices, network; for a node without a GPU."""
    facts = (
        fact
        for facts in (_cpu_facts(snapshot.machine), _net_facts(snapshot.machine))
        for fact in facts
    )
    lines: list[Line] = []
    for name, value in facts:
        lines += wrapped(
            ((f" {left(clean(name), 11)} ", "muted"), (clean(value), "")), width - 1, 13
        )
    return tuple(lines)


def _cpu_facts(machine: Machine) -> Iterator[tuple[str, str]]:
    host = machine.host
    for socket in host.sockets if host is not None else ():
        yield (
            f"socket {socket.socket}",
            f"{whole(socket.cores)} cores, {whole(socket.threads)} threads",
        )
    for node in host.numa if host is not None else ():
        yield f"NUMA {node.node}", f"CPUs {node.cpus or '–'}, {size(node.memory_bytes)}"
    kinds = Counter(device.kind for device in machine.pci)
    if kinds:
        counted = ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items()))
        yield "PCI", f"{len(machine.pci)} functions: {counted}"


def _net_facts(machine: Machine) -> Iterator[tuple[str, str]]:
    for device in machine.rdma:
        ports = ", ".join(f"{text(port.state)} {text(port.rate)}" for port in device.ports)
        yield device.name, f"{text(device.address)}  {ports or 'no port'}"
    for interface in machine.interfaces:
        if interface.address is not None:
            megabits = interface.speed_mbps or 0
            speed = f", {megabits / 1000:g} Gbit/s" if megabits > 0 else ""
            up = {True: "up", False: "down", None: "–"}[interface.up]
            yield interface.name, f"{interface.address}  {up}{speed}"
