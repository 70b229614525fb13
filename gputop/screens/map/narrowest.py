"""The answer over the map, what joins the GPUs and what is narrow, and the table below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from gputop.screens.map.info import label
from gputop.screens.map.links import NVSWITCH, MapLink
from gputop.screens.map.live import pace
from gputop.topology.explain.ports import ways
from gputop.topology.model.cpulist import written
from gputop.topology.model.gathered import gathered
from gputop.topology.model.severity import SLOW
from gputop.topology.model.units import UNKNOWN
from gputop.topology.sketch.names import is_weak, short
from gputop.topology.wiring.wires import WireKind
from gputop.widgets.spans import Line, Span, cut, left, right

if TYPE_CHECKING:
    from gputop.screens.map.measured import MeasuredLines
    from gputop.topology.report import Report
    from gputop.topology.wiring.graph import Graph

COLUMNS = (
    ("link", 26),
    ("is", 24),
    ("full", 7),
    ("here", 7),
    ("measured", 12),
    ("traffic now", 14),
)
"""Head and width; all but the first two at the right edge."""
HEADING = "GB/s payload, one way"
NOT_PER_LINK = "not per link"
"""A GPU that has a link to each other one counts the traffic of all of them together."""


def head_lines(report: Report, found: Sequence[MapLink], width: int) -> tuple[Line, Line]:
    """What joins the GPUs, and which link is not whole; `found` are the links of the node."""
    joined = _joined(report, found)
    weak = [link for link in found if is_weak(link.wire)]
    pairs = [link for link in found if link.role == "GPU–GPU"]
    gone = _missing(_gpus(report.graph), pairs)
    if not weak and not gone:
        return cut(((" ", ""), (joined, "strong")), width), cut(_whole(found), width)
    devices = gathered((_name(report.graph, link), _loss(link)) for link in weak)
    links = report.words.link
    texts = [
        f"no {links} between {label(report.graph, a)} and {label(report.graph, b)}" for a, b in gone
    ]
    texts += [f"{name}: {', '.join(losses)}" for name, losses in devices.items()]
    more = f" · {len(texts) - 2} more" if len(texts) > 2 else ""
    sign, ink, word = SLOW.shown
    said = " · ".join(texts[:2]) + more
    # Where there is no room the sign stands for its word.
    mark = f" {sign} {word}  " if len(said) + len(word) + 5 <= width else f" {sign} "
    narrow = (mark, f"{ink} bold"), (said, "warn bold")
    return cut(narrow, width), cut(((f"   {joined}", ""),), width)


def table(
    report: Report, found: Sequence[MapLink], measured: MeasuredLines, width: int, rows: int
) -> list[Line]:
    """At most so many rows: the narrowest links first, equal ones in one row; [] without room."""
    # Between CPUs no source has a rate or a count: a row of dashes.
    groups = _groups([link for link in found if link.role != "CPU–CPU" or link.wire.payload_gbs])
    if rows < 2 or not groups:
        return []
    shown = _fitting(width)
    if len(shown) < 2:
        return []
    heads = [left(f"narrowest links, {HEADING}", shown[0][1] + shown[1][1] + 1)]
    named = {"measured": measured.basis}
    heads += [right(named.get(head, head), size) for head, size in shown[2:]]
    lines: list[Line] = [((f"   {' '.join(heads)}", "muted"),)]
    lines += [_row(report, group, measured, shown) for group in groups[: rows - 1]]
    return lines


def _fitting(width: int) -> list[tuple[str, int]]:
    shown: list[tuple[str, int]] = []
    used = 3
    for head, size in COLUMNS:
        used += size + 1
        if used <= width or not shown:
            shown.append((head, size))
    return shown


def _groups(found: Sequence[MapLink]) -> list[list[MapLink]]:
    """Links of one role and one wire, in the order of the links."""
    alike: dict[tuple[object, ...], list[MapLink]] = {}
    for link in found:
        wire = link.wire
        key = (link.role, wire.name(), wire.payload_gbs, wire.count_max)
        alike.setdefault(key, []).append(link)
    return list(alike.values())


def _row(
    report: Report,
    group: Sequence[MapLink],
    measured: MeasuredLines,
    shown: Sequence[tuple[str, int]],
) -> Line:
    first = group[0]
    weak = is_weak(first.wire)
    ink = "warn" if weak else ""
    cells = [
        left(_who(report.graph, group), shown[0][1]),
        left(first.wire.name(), shown[1][1]) if len(shown) > 1 else "",
    ]
    figures = {
        "full": short(first.whole_gbs) if first.whole_gbs is not None else UNKNOWN,
        "here": short(first.wire.payload_gbs) if first.wire.payload_gbs is not None else UNKNOWN,
        "measured": measured.of_links(group),
        "traffic now": _busiest(report, group),
    }
    spans: list[Span] = [(" ▼ " if weak else "   ", ink), (" ".join(cells), ink)]
    for head, size in shown[2:]:
        text = figures[head]
        spans.append((" " + right(text, size), "muted" if text in (UNKNOWN, NOT_PER_LINK) else ink))
    return tuple(spans)


def _who(graph: Graph, group: Sequence[MapLink]) -> str:
    """The devices of a group: "GPU0-2,4-7 – NVSwitch", "6 NVLink pairs"."""
    first = group[0]
    if first.role == "GPU–GPU":
        if len(group) == 1:
            return f"{_name(graph, first)} – {label(graph, first.other)}"
        return f"{len(group)} pairs of GPUs"
    if first.role == "CPU–CPU":
        return "CPU – CPU"
    if first.role == "switch–CPU":
        return f"{len(group)} PCIe switch{'es' * (len(group) > 1)} – CPU"
    return f"{_names(graph, [link.device for link in group])} – {first.role.partition('–')[2]}"


def _names(graph: Graph, devices: Iterable[str]) -> str:
    names = [label(graph, device) for device in devices]
    numbers = [int(name[3:]) for name in names if name[:3] == "GPU" and name[3:].isdecimal()]
    if len(numbers) == len(names):
        return f"GPU{written(numbers)}"
    return names[0] if len(names) == 1 else f"{len(names)} NICs"


def _name(graph: Graph, link: MapLink) -> str:
    return label(graph, link.device)


def _loss(link: MapLink) -> str:
    """What is left of a link: "PCIe x8 of x16 (31.5 of 63 GB/s)", one way."""
    here, whole, wire = link.wire.payload_gbs, link.whole_gbs, link.wire
    name = f"PCIe x{wire.count} of x{wire.count_max}" if wire.kind is WireKind.PCIE else wire.name()
    rates = "" if here is None or whole is None else f" ({short(here)} of {short(whole)} GB/s)"
    return f"{name}{rates}"


def _missing(gpus: Sequence[str], pairs: Sequence[MapLink]) -> list[tuple[str, str]]:
    """Pairs without a link in a mesh where most GPUs have one to every other."""
    joined = {frozenset((link.device, link.other)) for link in pairs}
    gone = [pair for pair in combinations(gpus, 2) if frozenset(pair) not in joined]
    whole = set(gpus) - {gpu for pair in gone for gpu in pair}
    return gone if len(whole) > len(gpus) / 2 else []


def _whole(found: Sequence[MapLink]) -> tuple[Span, ...]:
    """What is known of the links when none is seen to lack anything."""
    # Between CPUs no source counts lanes.
    found = [link for link in found if link.role != "CPU–CPU"]
    unknown = sum(link.wire.count is None or link.wire.count_max is None for link in found)
    if not found:
        return (("   no link between devices was read", "muted"),)
    if unknown:
        text = f"   {unknown} of {len(found)} links do not report their width"
        rest = "; the others are as wide as can be" if unknown < len(found) else ""
        return ((text + rest, "muted"),)
    return ((f"   all {len(found)} links are as wide as both ends support", "muted"),)


def _gpus(graph: Graph) -> list[str]:
    return [node for node, kind in graph.nodes(data="kind") if str(kind) == "gpu"]


def _joined(report: Report, found: Sequence[MapLink]) -> str:
    """One sentence on what joins the GPUs; rates are payload, one way."""
    graph = report.graph
    gpus = _gpus(graph)
    if not gpus:
        return "no GPU was read"
    count = f"{len(gpus)} GPU{'s' * (len(gpus) > 1)}"
    spokes = [link for link in found if link.role == "GPU–NVSwitch"]
    pairs = [link for link in found if link.role == "GPU–GPU"]
    if spokes:
        rate = _range([link.wire.payload_gbs for link in spokes])
        on = (
            f"{count} on {NVSWITCH}"
            if len(spokes) == len(gpus)
            else (f"{len(spokes)} of {count} on {NVSWITCH}")
        )
        return f"{on}: {rate} each" if rate else on
    if pairs:
        words = report.words
        link = words.link
        rate = _range([link_.wire.payload_gbs for link_ in pairs])
        each = f", {rate} per pair" if rate else ""
        total = len(gpus) * (len(gpus) - 1) // 2
        some = "every pair" if len(pairs) == total else f"{len(pairs)} of {total} pairs"
        return f"{count}: {link} joins {some}{each}"
    slots = [link.wire.payload_gbs for link in found if link.role == "GPU–PCIe"]
    rate = _range(slots)
    return f"{count} joined by PCIe alone" + (f", {rate} each" if rate else "")


def _range(rates: Iterable[float | None]) -> str:
    known = [rate for rate in rates if rate is not None]
    if not known:
        return ""
    low, high = short(min(known)), short(max(known))
    return f"{low} GB/s" if low == high else f"{low} to {high} GB/s"


def _busiest(report: Report, group: Sequence[MapLink]) -> str:
    """The liveliest of these links: traffic out of and into its GPU, GB/s."""
    if group[0].role == "NIC–PCIe":
        paces = [report.snapshot.readings.nic(link.device) for link in group]
        return ways(max(paces, key=lambda pace: (pace[0] or 0.0) + (pace[1] or 0.0))) or UNKNOWN
    if group[0].role not in ("GPU–NVSwitch", "GPU–PCIe", "GPU–GPU"):
        return UNKNOWN
    known = [
        (out + into, out, into)
        for link in group
        if (reading := report.node.reading(link.device.partition("/")[0])) is not None
        for out, into in (pace(reading, link.wire.kind),)
        if out is not None and into is not None
    ]
    if not known:
        return UNKNOWN
    if group[0].role == "GPU–GPU":
        return NOT_PER_LINK
    _, out, into = max(known)
    return f"↑{short(out / 1e9)} ↓{short(into / 1e9)}"
