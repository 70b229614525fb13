"""The parts of a debug log as lines: version, ranks, variables, rings, choices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gputop.terminal.clean import clean
from gputop.topology.model import units
from gputop.topology.recorded.kept import not_looked_through
from gputop.widgets.spans import Line, Span, left, right, wrapped

if TYPE_CHECKING:
    from gputop.topology.diagnosis.symptoms.log import ReadLog
    from gputop.topology.diagnosis.symptoms.pasted_figures import PastedFigure
    from gputop.topology.logs.comparing.agreement import ComparedItem
    from gputop.topology.logs.report.communicator import Communicator, LoggedGraph
    from gputop.topology.logs.report.report import LogReport

VERDICTS = {"healthy": "good", "low": "bad", "high": "warn"}
PATTERNS = {1: "Tree", 2: "Tree", 3: "Tree", 4: "Ring", 5: "NVLS", 6: "CollNet"}
MOST_RANKS = 64
MOST_ROWS = 24
AGREES: Span = ("✓", "good")
DIFFERS: Span = ("✗", "bad")


def mark(agrees: bool | None) -> Span:
    """Sign and ink of an agreement."""
    return ("·", "muted") if agrees is None else AGREES if agrees else DIFFERS


def compared(read: ReadLog) -> str:
    """The result of the comparison, with the rules and the node that it uses."""
    agreement, node = read.overlay.agreement, read.overlay.node
    if not (node and agreement.comparable):
        return agreement.sentence
    return f"{agreement.sentence} ({agreement.library}, {node})"


def version_spans(log: LogReport) -> list[Span]:
    """Version and size of a log."""
    versions = log.versions
    name = versions.library.upper() if versions.library else "NCCL or RCCL"
    told = f"{name} {versions.version or 'of unknown version'}"
    if log.diagnostics and not (versions.version or versions.library):
        told = "NCCL 2.31 or later, as it prints diagnostics"
    spans: list[Span] = [(told, "strong")]
    if versions.built_for:
        spans.append((f" for {clean(versions.built_for, 20)}", ""))
    if versions.driver:
        spans.append((f", driver for CUDA {_cuda(versions.driver)}", ""))
    spans.append((f" · {_count(log.lines, 'line')}, {_count(_hosts(log), 'host')}", "muted"))
    return spans


def _hosts(log: LogReport) -> int:
    reports = {report.host for report in log.diagnostics if report.host}
    return len(log.hosts) or len(reports)


def gap_lines(log: LogReport, width: int) -> tuple[Line, ...]:
    """The parts of the log that could not be read or kept."""
    return tuple(
        line for text in _gaps(log) for line in wrapped((("! ", "warn"), (text, "")), width, 2)
    )


def output_lines(log: LogReport, width: int) -> tuple[Line, ...]:
    """The outputs of other tools that stand in the same text, and those that cannot be read."""
    if log.pasted is None:
        return ()
    places: dict[str, list[str]] = {}
    for section in log.pasted.sections:
        places.setdefault(section.tool, []).append(section.where)
    named = []
    for tool, found in places.items():
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        named.append(f"{tool} ({', '.join(found[:3])}{more})")
    lines: list[Line] = []
    if named:
        lines += wrapped((("· ", "muted"), (f"also read: {'; '.join(named)}", "")), width, 2)
    for where, why in log.pasted.broken[:MOST_ROWS]:
        lines += wrapped((("! ", "warn"), (f"{where}: {clean(why, 200)}", "")), width, 2)
    return tuple(lines)


def measured_lines(figures: Iterable[PastedFigure], width: int) -> tuple[Line, ...]:
    """Figures of other programs: what, how much, and how that is for this hardware."""
    lines: list[Line] = []
    for shown in figures:
        ink = VERDICTS.get(shown.verdict, "muted")
        spans: list[Span] = [
            (f"{clean(shown.tool, 40)}: {clean(shown.what, 80)} ", ""),
            (clean(shown.value, 60), "strong"),
            (f"  {shown.verdict}", ink),
            (f": {clean(shown.against, 200)}" if shown.against else "", "muted"),
        ]
        lines += wrapped(spans, width, 4)
    return tuple(lines)


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _gaps(log: LogReport) -> Iterator[str]:
    if log.unread:
        total = sum(note.count for note in log.unread)
        yield (
            f"{_count(total, 'line')} that should tell something could not be read, first "
            f"{log.unread[0].line}: {clean(log.unread[0].text, 120)}"
        )
    if log.cut:
        yield f"{_count(log.cut, 'line')} cut, or with another line written into it"
    for what, number in log.more.items():
        yield f"left out: {number} {clean(what, 60)}"
    if log.outputs_until is not None:
        yield not_looked_through(log.outputs_until)


def rank_lines(comm: Communicator, width: int, library: str | None = None) -> tuple[Line, ...]:
    """Ranks and their devices; RCCL numbers devices the way HIP and rocm-smi do."""
    runtime, driver = ("hip", "smi") if library == "rccl" else ("cuda", "nvml")
    nodes = "" if comm.nodes is None else f" on {_count(comm.nodes, 'node')}"
    least = "at least " if comm.size_seen_only else ""
    text = f"{least}{_count(comm.nranks, 'rank')}{nodes}"
    if comm.network:
        text += f", network {clean(comm.network, 60)}"
    if comm.use_gdr is not None and any(
        transport.label.startswith("NET") for transport in comm.transports
    ):
        text += f", GDR {'on' if comm.use_gdr else 'off'}, PXN {'on' if comm.use_pxn else 'off'}"
    lines: list[Line] = [*wrapped(((text, ""),), width, 2)]
    if not comm.ranks:
        return tuple(lines)
    host_width = max(4, *(len(rank.host or "") for rank in comm.ranks))
    host_width = min(host_width, max(width - 52, 8))
    lines.append(
        (
            (right("rank", 5), "muted"),
            ("  " + left("host", host_width), "muted"),
            (right("pid", 9), "muted"),
            (right(runtime, 6), "muted"),
            (right(driver, 6), "muted"),
            ("  " + left("PCI address", 14), "muted"),
            ("state", "muted"),
        )
    )
    lines += [
        (
            (right(str(rank.rank), 5), "strong"),
            ("  " + left(clean(rank.host or units.UNKNOWN), host_width), ""),
            (right(units.text(rank.pid), 9), "muted"),
            (right(units.text(rank.cuda_dev), 6), ""),
            (right(units.text(rank.nvml_dev), 6), ""),
            ("  " + left(clean(rank.bus_id or units.UNKNOWN), 14), ""),
            (rank.state, "warn" if rank.state == "started" else "muted"),
        )
        for rank in comm.ranks[:MOST_RANKS]
    ]
    if len(comm.ranks) > MOST_RANKS:
        lines.append(((f"and {len(comm.ranks) - MOST_RANKS} ranks more", "muted"),))
    return tuple(lines)


def environment_lines(log: LogReport, width: int) -> tuple[Line, ...]:
    """The variables that the library says it read."""
    lines: list[Line] = []
    for variable in log.environment:
        spans: list[Span] = [
            (f"{clean(variable.name, 60)}=", "key"),
            (clean(variable.value, 200), "strong"),
        ]
        times = f"  line {variable.line}" + (
            f", {variable.count} times" if variable.count > 1 else ""
        )
        spans.append((times, "muted"))
        if variable.remark:
            spans.append((f"  {clean(variable.remark, 200)}", "warn"))
        lines += wrapped(spans, width, 4)
    if not lines:
        lines.append((("none shown: no NCCL_ variable was set, or SUBSYS lacks ENV", "muted"),))
    return tuple(lines)


def graph_lines(read: ReadLog, comm: Communicator, width: int) -> tuple[Line, ...]:
    """The searched graphs, the channels and the orders of the rings, with marks."""
    items = {
        item.line: item
        for item in read.overlay.agreement.items
        if item.topic == "graph" and item.line
    }
    lines: list[Line] = []
    for graph in sorted(comm.graphs, key=lambda graph: (-graph.pattern, graph.ranks))[:MOST_ROWS]:
        item = items.get(graph.line)
        name = PATTERNS.get(graph.pattern, f"Pattern {graph.pattern}")
        if len({other.pattern for other in comm.graphs}) < len(comm.graphs):
            name += f" of rank {', '.join(map(str, graph.ranks[:8]))}"
        spans: list[Span] = [
            mark(item.agrees if item else None),
            (f" {name}: ", "muted"),
            (_graph(graph), "strong"),
        ]
        if item is not None and not item.agrees:
            spans.append((f"  predicted {clean(item.predicted, 120)}", "bad"))
        lines += wrapped(spans, width, 4)
    lines += _items(read, ("channels", "nodes", "rings", "trees"), width)
    shown = {item.topic for item in read.overlay.agreement.items}
    if "rings" not in shown:
        for ring in comm.rings[:4]:
            order = " ".join(map(str, ring.order[:32])) + (" …" if len(ring.order) > 32 else "")
            lines += wrapped(
                (("· ", "muted"), (f"ring of {_count(len(ring.channels), 'channel')}: ", "muted"),
                 (order, "")), width, 4,
            )  # fmt: skip
    if comm.counts is not None and "channels" not in shown:
        counts = comm.counts
        text = f"{counts.coll} channels for collectives, {counts.nvls} for NVLS, {counts.p2p} p2p"
        lines.append((("· ", "muted"), (text, "")))
    if not lines:
        lines.append((("none in the log: NCCL_DEBUG_SUBSYS lacks GRAPH", "muted"),))
    return tuple(lines)


def _graph(graph: LoggedGraph) -> str:
    inter = "" if graph.bw_inter == graph.bw_intra else f"/{units.figure(graph.bw_inter)}"
    same = "" if graph.same_channels else ", channels differ"
    return (
        f"{_count(graph.channels, 'channel')} × {units.figure(graph.bw_intra)}{inter} GB/s "
        f"{clean(graph.type_intra, 8)}/{clean(graph.type_inter, 8)}{same}"
    )


def _items(read: ReadLog, topics: Iterable[str], width: int) -> list[Line]:
    lines: list[Line] = []
    for item in read.overlay.agreement.items:
        if item.topic in topics:
            lines += item_lines(item, width)
    return lines


def item_lines(item: ComparedItem, width: int) -> tuple[Line, ...]:
    """One compared item: mark, name, the log's value, and the predicted one where it differs."""
    spans: list[Span] = [
        mark(item.agrees),
        (f" {clean(item.subject, 80)}: ", "muted"),
        (clean(item.logged, 200), "strong"),
    ]
    if not item.agrees:
        spans.append((f"  predicted {clean(item.predicted, 200)}", "bad"))
    if item.line:
        spans.append((f"  line {item.line}", "muted"))
    return wrapped(spans, width, 4)


def choice_lines(read: ReadLog, comm: Communicator, width: int) -> tuple[Line, ...]:
    """Algorithm and protocol of each call, and whether the tuning table is as predicted."""
    items = {
        item.line: item
        for item in read.overlay.agreement.items
        if item.topic == "choice" and item.line
    }
    lines: list[Line] = []
    chosen = sorted(comm.choices, key=lambda choice: (choice.collective, choice.bytes))
    for choice in chosen[:MOST_ROWS]:
        item = items.get(choice.line)
        channels = (
            ""
            if choice.channels is None
            else f" channels {choice.channels[0]}-{choice.channels[1]}"
        )
        spans: list[Span] = [
            mark(item.agrees if item else None),
            (
                f" {left(clean(choice.collective, 16), 13)} {right(units.size(choice.bytes), 9)} ",
                "",
            ),
            (f"{clean(choice.algorithm, 20)} {clean(choice.protocol, 40)}", "strong"),
            (f"{channels}, {_count(choice.count, 'call')}", "muted"),
        ]
        if item is not None and not item.agrees:
            spans.append((f"  predicted {clean(item.predicted, 120)}", "bad"))
        lines += wrapped(spans, width, 4)
    if len(chosen) > MOST_ROWS:
        lines.append(((f"  and {len(chosen) - MOST_ROWS} sizes more", "muted"),))
    rows = [item for item in read.overlay.agreement.items if item.topic == "tuning"]
    if rows:
        same = sum(row.agrees for row in rows)
        text = f" tuning table: {same} of {len(rows)} rows as predicted"
        lines.append((mark(same == len(rows)), (text, "")))
        for row in [row for row in rows if not row.agrees][:6]:
            lines += item_lines(row, width)
    if not lines:
        lines.append((("none in the log: NCCL_DEBUG_SUBSYS lacks TUNING", "muted"),))
    return tuple(lines)
