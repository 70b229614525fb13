"""Output of perftest (ib_write_bw, ib_read_bw, ib_send_bw, ib_write_lat, ...): RDMA of one port.

MB/sec are 2^20 bytes (its documentation); Gb/sec are 10^9 bits.
"""

from __future__ import annotations

import re

from ....model.format import ProvesNothingError, text_format
from ....model.part import PartialNode
from ....model.snapshot import Measurement
from .figures import figure

TOOL = "perftest"
_TITLE = re.compile(
    r"[ \t]*(?:RDMA_)?(Write|Read|Send|Atomic\w{0,12}) (?:Bidirectional )?(BW|Latency) Test"
)
_DEVICE = re.compile(r".*\bDevice\s*: (\w[\w.-]{0,62})\s*\Z")
_MTU = re.compile(r"\s*Mtu\s*: (\d{3,5})\[B\]")
_UNIT = re.compile(r"[ \t]*#bytes[ \t]+#iterations[ \t]+(?:BW peak\[(MB|Gb)/sec\]|t_min\[usec\])")
_ROW = re.compile(r"\s*(\d{1,12})\s+(\d{1,12})((?:\s+-?\d{1,9}(?:\.\d{1,6})?){2,8})\s*\Z")
_GBS = {"MB": (1 << 20) / 1e9, "Gb": 1 / 8}
MOST_ROWS = 64


def _parse(lines: list[str]) -> PartialNode:
    figures: list[Measurement] = []
    title, details, unit = "rdma", dict[str, object](), ""
    for line in lines:
        if found := _TITLE.match(line):
            title, details, unit = f"rdma_{found[1].lower()}", {}, ""
        elif found := _DEVICE.match(line):
            details["device"] = found[1]
        elif found := _MTU.match(line):
            details["mtu_bytes"] = int(found[1])
        elif found := _UNIT.match(line):
            unit = found[1] or "us"
        elif unit and (row := _ROW.match(line)) and len(figures) < MOST_ROWS:
            cells = row[3].split()
            # A latency has the least, the most and the typical one; a bandwidth peak and average.
            value = float(cells[2 if unit == "us" and len(cells) > 2 else 1])
            figures.append(
                figure(
                    TOOL,
                    "net",
                    f"{title}_latency" if unit == "us" else f"{title}_bandwidth",
                    value * _GBS.get(unit, 1.0),
                    unit="us" if unit == "us" else "GB/s",
                    bytes_per_copy=int(row[1]),
                    variant=str(details.get("device", "")) or None,
                    details=dict(details),
                )
            )
    if not figures:
        raise ProvesNothingError("no row of its table in it; paste its whole output")
    return PartialNode(measurements=tuple(figures))


FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=re.compile(rf"(?m)^{_TITLE.pattern}|^{_UNIT.pattern}"),
    needs=("BW Test", "Latency Test", "#bytes"),
    goes_on=re.compile(
        rf"{_UNIT.pattern}|{_ROW.pattern}|\s*(?:[A-Z][\w .#-]{{1,30}}\s*: |local address|remote|"
        r"GID: |Conflicting CPU|WARNING: |-{10})"
    ),
    repeats=True,
)
