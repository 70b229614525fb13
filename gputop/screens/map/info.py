"""The lines under the map: about the selected device, or the path between two devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gputop.screens.map import xgmi as wiring_xgmi
from gputop.screens.map.facts import DOT
from gputop.screens.map.measured import there_and_back
from gputop.terminal.clean import clean
from gputop.topology.explain.pair_summary import pair_summary
from gputop.topology.explain.ports import MOST_COUNTERS, counted, ways
from gputop.topology.model import units
from gputop.topology.model.english import first
from gputop.topology.sketch.drawing import BoxKind
from gputop.topology.sketch.names import bridge_names, is_weak, nic_rate, short
from gputop.topology.sketch.packages import package_facts, part_name, plain_names
from gputop.topology.wiring.wires import WireKind
from gputop.widgets.gpu_cells import fast_traffic
from gputop.widgets.spans import Line

if TYPE_CHECKING:
    import networkx as nx

    from gputop.topology.model.readings import GpuReading
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.report import Report
    from gputop.topology.sketch.drawing import Box, Drawing
    from gputop.topology.wiring.packages import Package
    from gputop.topology.wiring.paths import Path
    from gputop.topology.wiring.wires import Wire


def label(graph: nx.Graph[str], node: str) -> str:
    """Short name of a node: that of a NIC is its first one."""
    words = clean(graph.nodes[node].get("label") or node)
    return words.split()[0] if graph.nodes[node].get("kind") == "nic" and words.split() else words


def about(report: Report, box: Box) -> tuple[Line, Line]:
    """Two lines about one box."""
    graph = report.graph
    package = wiring_xgmi.package_of(graph, box.id)
    if package is not None and box.kind is BoxKind.PACKAGE:
        return _package(graph, package)
    drive = box.kind is BoxKind.DRIVE and len(box.members) == 1
    if box.kind not in (BoxKind.GPU, BoxKind.NIC) and not drive:
        return (("  ", ""), (box.lines[0] if box.lines else "", "strong")), _facts(
            _rest(graph, box)
        )
    record = graph.nodes[box.id].get("record")
    head: list[tuple[str, str]] = [("  ", ""), (label(graph, box.id), "strong"), DOT]
    # A GPU that no driver numbers is called by its address already.
    head = head[:-1] if label(graph, box.id) == clean(box.id) else [*head, (clean(box.id), "")]
    name = (
        getattr(record, "name", None)
        if box.kind is BoxKind.GPU
        else graph.nodes[box.id].get("label")
    )
    if name and clean(name) != label(graph, box.id):
        head += [DOT, (clean(name), "")]
    numa = getattr(record, "numa_node", None)
    if numa is not None:
        head += [DOT, (f"NUMA {numa}", "")]
    own = getattr(record, "gpu_numa_id", None)
    if own is not None:
        head += [DOT, (f"its memory is NUMA {own}", "")]
    if package is not None:
        head += [DOT, (_package_of_gpu(graph, package, box.id), "")]
    if box.kind is BoxKind.GPU:
        return tuple(head), _facts(_gpu(report, box.id))
    if drive:
        return tuple(head), _facts([_pcie(graph, box.id), *_drive(report, box.id)])
    rate = nic_rate(record)[0]
    ports = getattr(record, "ports", ())
    states = ", ".join(dict.fromkeys(clean(port.state) for port in ports if port.state))
    told = [("port", rate, ""), ("", states, ""), *_ports(report, box)]
    return tuple(head), _facts([_pcie(graph, box.id), *told])


def _ports(report: Report, box: Box) -> list[tuple[str, str, str]]:
    """What the ports of a NIC carry, and what they have counted."""
    readings = report.snapshot.readings
    carried = [text for one in box.members if (text := ways(readings.nic(one)))]
    errors = [text for one in box.members for text in counted(readings, one)]
    traffic = f"{', '.join(carried)} GB/s" if carried else ""
    return [("traffic", traffic, ""), ("counted", first(errors, MOST_COUNTERS), "")]


def _drive(report: Report, address: str) -> list[tuple[str, str, str]]:
    """What the kernel says of a drive."""
    drives = (one for one in report.snapshot.machine.drives if one.address == address)
    known = next(drives, None)
    if known is None:
        return []
    on_it = ", ".join(map(clean, known.filesystems or ()))
    size = "" if known.size_bytes is None else units.size(known.size_bytes)
    return [("", clean(known.model or ""), ""), ("", size, ""), ("file systems", on_it, "")]


def _package_of_gpu(graph: nx.Graph[str], package: Package, node: str) -> str:
    """The package that contains a GPU."""
    if package.shared:
        part = part_name(graph.nodes[node].get("record"), node)
        return clean(f"part {part} of {plain_names(graph, package)[0]}")
    others = [label(graph, other) for other in package.members if other != node]
    return f"one package with {', '.join(others)}"


def _package(graph: nx.Graph[str], package: Package) -> tuple[Line, Line]:
    """Two lines about a package: its parts, and what these share."""
    names = [label(graph, node) for node in package.members]
    who = ", ".join(names) if len(names) < 4 else f"{names[0]} to {names[-1]}"
    name = clean(plain_names(graph, package)[0])
    head: list[tuple[str, str]] = [("  ", ""), (name, "strong")]
    if not package.shared:
        own = "each GCD is a GPU with its own memory, PCIe link and xGMI links"
        why = f"{package.links} xGMI links join only dies of one package"
        return (*head, DOT, (who, "")), _facts([("", own, ""), ("", why, "muted")])
    return (
        (*head, DOT, (clean(package_facts(graph, package)[0]), ""), DOT, (who, "")),
        _facts([_pcie(graph, package.members[0]), wiring_xgmi.of_package(graph, package)]),
    )


def _facts(facts: list[tuple[str, str, str]]) -> Line:
    """Facts as a line: a muted word, the value in its ink; empty values are left out."""
    spans: list[tuple[str, str]] = []
    for word, value, ink in facts:
        if value:
            spans += [DOT] if spans else [("  ", "")]
            spans += [(f"{word} ", "muted")] if word else []
            spans.append((value, ink))
    return tuple(spans)


def _rest(graph: nx.Graph[str], box: Box) -> list[tuple[str, str, str]]:
    if box.kind is BoxKind.MESH:
        return [("", wiring_xgmi.mesh(graph), "")]
    names = ", ".join(label(graph, member) for member in box.members[:4])
    more = len(box.members) - 4
    facts = [("stands for", names + (f" and {more} more" if more > 0 else ""), "")]
    if box.kind is BoxKind.BRIDGE:
        wires = [graph.edges[box.id, other].get("wire") for other in graph.neighbors(box.id)]
        links = [wire for wire in wires if wire is not None and wire.payload_gbs is not None]
        facts += [("", _words(wire), "bad" if is_weak(wire) else "") for wire in links[:1]]
    return facts


def _gpu(report: Report, address: str) -> list[tuple[str, str, str]]:
    graph, snapshot = report.graph, report.snapshot
    record = graph.nodes[address].get("record")
    reading = snapshot.readings.gpu(address.partition("/")[0])
    facts: list[tuple[str, str, str]] = []
    if reading is not None:
        if reading.lost:
            return [("", "! lost: the driver says that this GPU is gone", "bad")]
        facts.append(("utilisation", units.percent(reading.utilization_percent), ""))
        if reading.memory_used_bytes is not None:
            used, total = reading.memory_used_bytes, getattr(record, "memory_bytes", None)
            facts.append(("memory", _of(units.size(used), units.size(total)), ""))
    facts.append(_pcie(graph, address, reading))
    links = getattr(record, "nvlinks", ())
    if record is not None and links:
        active = sum(1 for link in links if link.active)
        most = report.node.devices.links_most(record)
        sick = active < most
        word = f"{active} of {most}{' !' if sick else ''}"
        facts.append(("NVLink", word, "bad" if sick else ""))
    bundles = getattr(record, "xgmi", ())
    package = wiring_xgmi.package_of(graph, address)
    if package is not None and package.shared:
        facts.append(wiring_xgmi.of_package(graph, package))
    elif bundles:
        facts.append(wiring_xgmi.of_gpu(bundles))
    out, into = (None, None) if reading is None else fast_traffic(reading)
    if out is not None:
        rates = (out / 1e9, None if into is None else into / 1e9)
        word = report.words.link
        facts.append((f"{word} traffic", f"↑{short(rates[0])} ↓{short(rates[1])} GB/s", ""))
    return facts


def _of(part: str, whole: str) -> str:
    """Say "55.0 of 64.0 GiB": the unit once where both have the same."""
    unit = whole.rpartition(" ")[2]
    return f"{part.removesuffix(f' {unit}')} of {whole}"


def _pcie(
    graph: nx.Graph[str], node: str, reading: GpuReading | None = None
) -> tuple[str, str, str]:
    """What the slot can do, and for a GPU at which generation and width it runs at this moment."""
    wires = [graph.edges[node, other].get("wire") for other in graph.neighbors(node)]
    wire = next((wire for wire in wires if wire is not None and wire.kind is WireKind.PCIE), None)
    if wire is None:
        return "", "", ""
    now = (None, None) if reading is None else (reading.pcie_gen, reading.pcie_width)
    if now[0] is not None and (str(now[0]), now[1]) == (wire.generation, wire.count_max):
        words = f"gen{now[0]} x{now[1]} now{_rate(wire, ', ')}"
    else:
        words = _words(wire).removeprefix("PCIe").strip() or "link not readable"
        if now[0] is not None:
            words += f", runs at gen{now[0]} x{units.whole(now[1])}"
    weak = is_weak(wire)
    return "PCIe", words + (" !" if weak else ""), "bad" if weak else ""


def _words(wire: Any) -> str:
    return f"{wire.name()}{_rate(wire, ' ')}"


def _rate(wire: Any, lead: str) -> str:
    return f"{lead}{short(wire.payload_gbs)} GB/s" if wire.payload_gbs is not None else ""


def _steps(graph: nx.Graph[str], drawing: Drawing, path: Path) -> Iterator[tuple[str, str]]:
    """The boxes that a path goes through, and its wires between them."""
    narrow = None if has_one_rate(path) else path.bottleneck
    shown: str | None = None
    passed: list[int] = []
    for i, node in enumerate(path.nodes):
        passed += [i - 1] if i else []
        box = drawing.box_of(node)
        # A node without a box is part of a line, so the path is described as it is drawn.
        if box is None or box.id == shown:
            continue
        if shown is not None:
            yield _leg([path.wires[step] for step in passed], narrow in passed)
            passed = []
        shown = box.id
        yield _step(graph, node), "strong" if node in (path.nodes[0], path.nodes[-1]) else ""


def ends_text(
    report: Report, drawing: Drawing, path: Path | None, a: str, b: str
) -> tuple[Line, Line]:
    """Two lines about a pair of nodes."""
    graph = report.graph
    head: list[tuple[str, str]] = [("  ", "")]
    if path is None:
        head += [(f"{label(graph, a)} → {label(graph, b)}", "strong")]
        return tuple(head), (("  nothing that was read joins these two", "muted"),)
    head += _steps(graph, drawing, path)
    verdict = _verdict(report.snapshot, a, b, path)
    if path.kind is WireKind.NVLINK and len(path.nodes) > 2:
        over = " and ".join(label(graph, node) for node in path.nodes[1:-1])
        verdict = (*verdict, DOT, (f"{report.words.library} relays through {over}", ""))
    summary = pair_summary(report.node, a, b)
    if summary.detour:
        how = summary.head.partition(": ")[2]
        verdict = (*verdict, DOT, (f"{report.words.library}: no P2P, {how}", "warn"))
    return tuple(head), verdict


def has_one_rate(path: Path) -> bool:
    """Whether all links of a path have the same bandwidth, so that none is the bottleneck."""
    return len({wire.payload_gbs for wire in path.wires if wire.payload_gbs is not None}) < 2


def _leg(wires: Sequence[Wire], narrow: bool) -> tuple[str, str]:
    """The step from one box to the next, with its narrowest link."""
    known = [wire for wire in wires if wire.payload_gbs is not None]
    wire = min(known, key=lambda wire: wire.payload_gbs or 0.0, default=wires[0])
    name = {"nvlink": f"NV{wire.count or ''} ", "xgmi": "xGMI "}.get(wire.kind, "")
    name = "" if wire.inside else name
    rate = "" if wire.payload_gbs is None else short(wire.payload_gbs)
    words = f"{name}{rate}".strip()
    sign = "▲ " if narrow else ""
    return (f" ─ {sign}{words} ─ " if words else " ── "), "bad" if narrow else "muted"


def _step(graph: nx.Graph[str], node: str) -> str:
    kind = str(graph.nodes[node].get("kind"))
    if kind.startswith(("switch", "root", "bridge")):
        return bridge_names(kind, node)[0]
    return "NVSwitch" if kind == "nvswitch" else label(graph, node)


def _narrowest(path: Path) -> Iterator[tuple[str, str]]:
    """The narrowest part of a path, and what of it is not known."""
    narrowest = path.narrowest
    if narrowest is not None and path.payload_gbs is not None:
        most = "at most " if path.relayed else ""
        yield f"▲ bottleneck {most}{short(path.payload_gbs)} GB/s", "warn"
        yield f" one way: {narrowest.name()}", ""
        if path.relayed:
            yield "; which GPUs lie between is not told", "muted"
        elif not path.complete:
            yield " (or a part whose rate is not known)", "muted"
    elif all(wire.inside for wire in path.wires) and path.kind is WireKind.XGMI:
        yield path.wires[0].source, ""
    else:
        yield "no rate on this path is known", "muted"


def _verdict(snapshot: NodeSnapshot, a: str, b: str, path: Path) -> Line:
    spans = [("  ", ""), *_narrowest(path)]
    basis, measured = there_and_back(snapshot, a, b)
    if measured:
        spans += [DOT, (f"{basis} ", "muted"), (measured, "good"), (" there / back", "muted")]
    elif snapshot.machine.gpu(a) is not None and snapshot.machine.gpu(b) is not None:
        spans += [DOT, ("not measured yet: ", "muted"), ("p", "key bold @probe(False)")]
    return tuple(spans)


def shortened(line: Line) -> Line:
    """The line without its last fact; unchanged where it has only one."""
    for i in range(len(line) - 1, 0, -1):
        if line[i] == DOT:
            return line[:i]
    return line
