"""Pairs and xGMI links of `amd-smi topology` and `amd-smi xgmi --json`.

What the tool prints and what it means (amdsmi_cli and the kernel's amdkfd):
- `num_hops` is 1 for every pair that xGMI joins, however many wires lie between. The weight counts
  them: 15 for each.
- `bandwidth` is "least-most" in MB/s of all links of the pair; the least is that of one link, so
  their quotient is the number of links. Older kernels take 25 Gb/s a lane for every model: it is
  no measure of the rate.
- `bit_rate` of `xgmi` is that of one lane, `max_bandwidth` that of one link. Until ROCm 6.3 both
  were the PCIe link's, and the counter of link N stood at GPU N. A list of that form has no
  "xgmi_metric" around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from .....model.machine import GpuPair, XgmiLink
from .....model.readings import XgmiReading
from .....model.record import Gap, gaps_of
from .....sources.amd.smi_values import AMD_SMI, GIGATRANSFERS, KILOBYTES, plain
from .....sources.files.printed import Printed
from .....sources.pci.address import pci_address
from .documents import MAX_GPUS, index

HOP_WEIGHT = 15
"""Weight of one xGMI hop (amdkfd kfd_crat.c: 15 * hops)."""
MOST_LINKS = 16
_RANGE = re.compile(r"\A(\d{1,9})-(\d{1,9})\Z")
_WHOLE = re.compile(r"\A\d{1,9}\Z")
_TYPES = {"XGMI": "xgmi", "PCIE": "pcie"}
_GRANTS = {"ENABLED": "ok", "TRUE": "ok", "DISABLED": "not supported", "FALSE": "not supported"}
_DMA = {"T": "ok", "F": "not supported"}
_NOT_HERE = "not in this output"


class MatrixCell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of each matrix that a tool prints; None where it prints none."""

    src: str
    dst: str
    access: str | None = None
    weight: str | None = None
    """As rocm-smi or amdsmi prints it."""
    hops: str | None = None
    type: str | None = None
    bandwidth: str | None = None
    atomics: str | None = None
    dma: str | None = None


Names = Mapping[int, str]
"""Address of each GPU by its number in the output; a number alone has "topo:AMD3"."""


def name(number: int) -> str:
    """The name of a GPU whose PCI address is not in the output."""
    return f"topo:AMD{number}"


def cells(entry: Mapping[str, Any], own: str, names: Names) -> Iterator[MatrixCell]:
    """The pairs of one GPU of `amd-smi topology --json`, in the form of 6.1.0 or a later one."""
    links = entry.get("links")
    if isinstance(links, list):
        for link in links[:MAX_GPUS]:
            if isinstance(link, Mapping) and (far := _far(link, names)) not in (None, own):
                texts = {key: plain(link.get(theirs)) for key, theirs in _KEYS.items()}
                yield MatrixCell(src=own, dst=str(far), **texts)
        return
    rows: dict[int, dict[str, str | None]] = {}
    for key, number, text in _columns(entry):
        rows.setdefault(number, {})[key] = text
    for number, row in sorted(rows.items())[:MAX_GPUS]:
        far = names.get(number, name(number))
        if far != own:
            yield MatrixCell(src=own, dst=far, **row)


_KEYS = {
    "access": "link_status",
    "weight": "weight",
    "hops": "num_hops",
    "type": "link_type",
    "bandwidth": "bandwidth",
    "atomics": "atomics",
    "dma": "dma",
}
_TABLES = {
    "link_accessibility": "access",
    "weight": "weight",
    "hops": "hops",
    "link_type": "type",
    "numa_bandwidth": "bandwidth",
}
_COLUMN = re.compile(r"\Agpu_(\d{1,4})\Z")


def _columns(entry: Mapping[str, Any]) -> Iterator[tuple[str, int, str | None]]:
    for theirs, ours in _TABLES.items():
        row = entry.get(theirs)
        if isinstance(row, Mapping):
            for column, value in list(row.items())[:MAX_GPUS]:
                if match := _COLUMN.match(column):
                    yield ours, int(match[1]), plain(value)


def _far(link: Mapping[str, Any], names: Names) -> str | None:
    number = index(link.get("gpu"))
    address = pci_address(link.get("bdf"))
    if address is not None or number is None:
        return address
    return names.get(number, name(number))


def pair_of(cell: MatrixCell, tool: str) -> GpuPair:
    """What the tool says about one ordered pair."""
    gaps: list[Gap] = []

    def known(field: str, text: str | None, value: Any) -> Any:
        if value is None:
            gaps.append(Gap(field, _why(text, tool)))
        return value

    kind = known("link_type", cell.type, _TYPES.get((cell.type or "").upper()))
    access = _GRANTS.get((cell.access or "").upper())
    return GpuPair(
        src=cell.src,
        dst=cell.dst,
        link_type=kind,
        hops=known("hops", cell.hops, _whole(cell.hops)),
        weight=known("weight", cell.weight, _whole(cell.weight)),
        p2p_read=known("p2p_read", cell.access, access),
        p2p_write=known("p2p_write", cell.access, access),
        p2p_atomics=known("p2p_atomics", cell.atomics, _atomics(cell.atomics)),
        p2p_dma=known("p2p_dma", cell.dma, _DMA.get(cell.dma or "")),
        gaps=tuple(gaps),
    )


def link_of(cell: MatrixCell, tool: str) -> XgmiLink | None:
    """The wires of a pair that xGMI joins; None for a pair that it reaches through other GPUs."""
    if (cell.type or "").upper() != "XGMI":
        return None
    weight = _whole(cell.weight)
    hops = None if weight is None or weight % HOP_WEIGHT else weight // HOP_WEIGHT or None
    # A driver that fills in neither prints zeros for both (MI355X under amdgpu 6.16); for a pair
    # that xGMI reaches through other GPUs, the weight is known.
    if hops not in (None, 1) or (cell.bandwidth == "0-0" and weight != 0):
        return None
    values: dict[str, Any] = {"weight": weight or None, "hops": hops, **_bandwidths(cell)}
    gaps = [] if hops is not None else [Gap("hops", _why(cell.weight, tool))]
    gaps += [Gap("weight", _why(cell.weight, tool))] if weight == 0 else []
    ends = ("bandwidth_min_gbs", "bandwidth_max_gbs")
    gaps += gaps_of((end for end in ends if end not in values), _why(cell.bandwidth, tool))
    others = ("active", "links", "raw_gbs", "speed_gts", "width")
    gaps += gaps_of((f for f in others if f not in values), f"not in this output of {tool}")
    return XgmiLink(remote_address=cell.dst, gaps=tuple(gaps), **values)


def _bandwidths(cell: MatrixCell) -> dict[str, Any]:
    """The rates of one link and of all of a pair, and the number of links that they give."""
    match = _RANGE.match(cell.bandwidth or "") if cell.bandwidth != "0-0" else None
    if match is None:
        return {}
    least, most = int(match[1]), int(match[2])
    found: dict[str, Any] = {"bandwidth_min_gbs": least / 1000, "bandwidth_max_gbs": most / 1000}
    if least and most % least == 0 and 0 < most // least <= MOST_LINKS:
        found["links"] = most // least
    return found


def _why(text: str | None, tool: str) -> str:
    if text is None:
        return f"{_NOT_HERE} of {tool}"
    return f"{tool} prints {text[:40] or 'nothing'}"


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and _WHOLE.match(text) else None


def _atomics(text: str | None) -> str | None:
    """The grant for "64,32", both widths; programs do not count on a single one."""
    widths = set((text or "").replace(" ", "").split(","))
    if not widths <= {"32", "64"}:
        return None
    return "ok" if len(widths) == 2 else "not supported"


def metric_links(
    entry: Mapping[str, Any], own: str, names: Names
) -> tuple[list[XgmiLink], list[XgmiReading]]:
    """Links and counters of one GPU of `amd-smi xgmi --json`; a peer without counters has none."""
    metrics = entry.get("link_metrics")
    if not isinstance(metrics, Mapping) or not isinstance(metrics.get("links"), list):
        return [], []
    if (plain(metrics.get("link_type")) or "").upper() != "XGMI":
        return [], []
    v = Printed(metrics, AMD_SMI)
    speed, width = _lanes(v)
    links: list[XgmiLink] = []
    readings: list[XgmiReading] = []
    for link in metrics["links"][:MAX_GPUS]:
        far = _far(link, names) if isinstance(link, Mapping) else None
        if far is None or far == own:
            continue
        counted = Printed(link, AMD_SMI)
        received = counted.whole("rx_bytes", "read", units=KILOBYTES)
        sent = counted.whole("tx_bytes", "write", units=KILOBYTES)
        if received is None and sent is None:
            continue
        links.append(
            XgmiLink(remote_address=far, speed_gts=speed or None, width=width, gaps=v.gaps)
        )
        readings.append(
            XgmiReading(remote_address=far, rx_bytes=received, tx_bytes=sent, gaps=counted.gaps)
        )
    return links, readings


def _lanes(v: Printed) -> tuple[float | None, int | None]:
    """Rate and number of the lanes of a link."""
    speed = v.number("speed_gts", "bit_rate", units=GIGATRANSFERS)
    rate = v.number("width", "max_bandwidth", units=GIGATRANSFERS)
    width = round(rate / speed) if speed and rate and 0.5 < rate / speed <= 64 else None
    if speed and not width:
        v.gap("width", "not understood")
    if not speed:
        v.gap("speed_gts", "not understood")
    return speed, width


def status_links(entries: Sequence[tuple[Mapping[str, Any], str]]) -> dict[str, list[XgmiLink]]:
    """States of `amd-smi xgmi -l --json`, by the GPU they are of: "U", "D", "U/U", "SELF", "N/A".

    The list of a GPU has a state for each GPU of the output since ROCm 7; before, one for each
    port, which does not say where it leads. Only a list with SELF in its own place is the former.
    """
    addresses = [own for _, own in entries]
    found: dict[str, list[XgmiLink]] = {}
    for place, (entry, own) in enumerate(entries):
        states = [plain(state) or "" for state in entry["link_status"][: MAX_GPUS + 1]]
        if len(states) != len(addresses) or states[place] != "SELF":
            continue
        found[own] = [
            XgmiLink(remote_address=far, active=up > 0, links=up or None)
            for far, text in zip(addresses, states, strict=True)
            if far != own and (up := _up(text)) is not None
        ]
    return found


def _up(text: str) -> int | None:
    """How many of a pair's links are up; None where not all states are known."""
    states = text.split("/")
    if len(states) > MOST_LINKS or any(state not in ("U", "D", "X") for state in states):
        return None
    return None if all(state == "X" for state in states) else states.count("U")
