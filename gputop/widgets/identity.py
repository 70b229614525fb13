"""The line that says what this machine is, and the lines about what could not be read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gputop.clean import clean
from gputop.topology.units import size
from gputop.widgets.gpu_cells import short_name
from gputop.widgets.spans import Line, joined, width_of, wrapped

if TYPE_CHECKING:
    from gputop.topology.absence import Reason
    from gputop.topology.machine import Host, Machine
    from gputop.topology.snapshot import NodeSnapshot

_DOT = (" · ", "muted")


def identity_lines(snapshot: NodeSnapshot, width: int, most: int = 2) -> tuple[Line, ...]:
    """Host, CPUs, GPUs, versions, and whether this is a guest; on `most` lines at most."""
    machine = snapshot.machine
    parts: list[Line] = []
    host = machine.host
    if host is not None and host.hostname:
        parts.append(((clean(host.hostname, 60), "strong"),))
    for name, count in Counter(short_name(gpu.name) for gpu in machine.gpus).items():
        parts.append(((f"{count} × {name}", "strong"),))
    parts += _versions(machine)
    if host is not None:
        parts += _host(host)
    while most == 1 and len(parts) > 1 and width_of(joined(parts, _DOT)) + 2 > width:
        parts.pop()
    lines = wrapped(((" ", ""), *joined(parts, _DOT)), max(width - 1, 20), indent=1)
    return lines[:most]


def _versions(machine: Machine) -> list[Line]:
    software = machine.software
    if software is None:
        return []
    found = (
        ("driver", software.nvidia_driver or software.amd_driver),
        ("CUDA", software.cuda_driver),
        ("ROCm", software.rocm),
        ("NCCL", software.nccl),
        ("RCCL", software.rccl),
    )
    return [((f"{name} ", "muted"), (clean(value, 40), "")) for name, value in found if value]


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
    """What could not be read; sources that found nothing to ask come last, and muted."""
    found = sorted(snapshot.problems, key=lambda problem: problem.kind == "absent")
    lines: list[Line] = []
    for problem in found:
        quiet = problem.kind == "absent"
        spans = (
            (" " if quiet else "!", "muted" if quiet else "warn"),
            (f" {clean(problem.source, 20)} ", "muted"),
            (clean(problem.text), "muted" if quiet else ""),
        )
        lines += wrapped(spans, width, indent=4)
    return tuple(lines)


def absence_lines(reasons: tuple[Reason, ...], width: int) -> tuple[Line, ...]:
    """No GPU: why none is seen, and what to do; then where demos are."""
    lines: list[Line] = [((" No GPU is seen here.", "strong"),), ()]
    for reason in reasons:
        lines += wrapped(((" • ", "warn"), (clean(reason.sentence), "")), width - 1, indent=3)
        for evidence in (
            reason.evidence if not isinstance(reason.evidence, str) else (reason.evidence,)
        ):
            lines += wrapped(((f"   {clean(evidence)}", "muted"),), width - 1, indent=3)
        if reason.fix:
            lines += wrapped((("   → ", "good"), (clean(reason.fix), "")), width - 1, indent=5)
    lines += [(), ((" Press ", "muted"), ("d", "key bold"), (" to look at a demo node.", "muted"))]
    return tuple(lines)


def host_lines(snapshot: NodeSnapshot, width: int) -> tuple[Line, ...]:
    """The machine around: CPUs, NUMA nodes, PCI devices, network; for a node without a GPU."""
    machine, lines = snapshot.machine, list[Line]()
    host = machine.host
    if host is not None:
        for socket in host.sockets:
            lines.append(
                (
                    (f" socket {socket.socket}  ", "muted"),
                    (f"{socket.cores or '–'} cores, {socket.threads or '–'} threads", ""),
                )
            )
        for node in host.numa:
            lines.append(
                (
                    (f" NUMA {node.node}    ", "muted"),
                    (f"CPUs {clean(node.cpus or '–', 60)}, {size(node.memory_bytes)}", ""),
                )
            )
    kinds = Counter(device.kind for device in machine.pci)
    if kinds:
        counted = ", ".join(f"{count} × {clean(kind)}" for kind, count in sorted(kinds.items()))
        lines += wrapped(
            ((" PCI       ", "muted"), (f"{len(machine.pci)} functions: {counted}", "")), width, 11
        )
    for device in machine.rdma:
        port = device.ports[0] if device.ports else None
        state = (
            f"{clean(port.state or '–')}, {clean(port.rate or '–')}"
            if port is not None
            else "no port"
        )
        lines.append(
            (
                (f" {clean(device.name, 16):<9} ", "muted"),
                (f"{clean(device.address or '–')}  {state}", ""),
            )
        )
    for interface in machine.interfaces:
        if interface.address is not None:
            speed = (
                f", {interface.speed_mbps / 1000:g} Gbit/s"
                if (interface.speed_mbps or 0) > 0
                else ""
            )
            up = {True: "up", False: "down", None: "–"}[interface.up]
            lines.append(
                (
                    (f" {clean(interface.name, 16):<9} ", "muted"),
                    (f"{clean(interface.address)}  {up}{speed}", ""),
                )
            )
    return tuple(lines)
