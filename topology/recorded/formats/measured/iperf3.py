"""Output of iperf3: what TCP carries between two hosts, all streams together."""

from __future__ import annotations

import re

from ....model.format import ProvesNothingError, text_format
from ....model.part import PartialNode
from .figures import figure

TOOL = "iperf3"
_ROW = re.compile(
    r"\s*\[ *(\d{1,3}|SUM)\]\s+[\d.]{1,9}-([\d.]{1,9})\s+sec\s+[\d.]{1,9} [KMGT]?Bytes\s+"
    r"([\d.]{1,9}) ([KMGT])bits/sec\b.*?\b(sender|receiver)?\s*\Z"
)
_BITS = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def _parse(lines: list[str]) -> PartialNode:
    rows = [row for line in lines if (row := _ROW.match(line)) is not None]
    # What arrived counts; the longest interval is the whole run.
    best = max(
        rows,
        key=lambda row: (row[1] == "SUM", row[5] == "receiver", float(row[2])),
        default=None,
    )
    if best is None:
        raise ProvesNothingError("no interval in it; paste its last lines")
    gbs = float(best[3]) * _BITS[best[4]] / 8e9
    made = figure(TOOL, "net", "tcp_bandwidth", gbs, variant=best[5])
    return PartialNode(measurements=(made,))


FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=re.compile(
        r"(?m)^(?:Connecting to host [^\n]{1,80}, port \d|Accepted connection from |"
        r"\[ *(?:ID|\d{1,3}|SUM)\][ \t]+[\d.]{1,9}-[\d.]{1,9}[ \t]+sec[ \t])"
    ),
    needs=("bits/sec", "iperf"),
    goes_on=re.compile(r"\s*\[ *(?:ID|\d{1,3}|SUM)\]|[- ]{5,}|iperf Done|Accepted|Connecting"),
)
