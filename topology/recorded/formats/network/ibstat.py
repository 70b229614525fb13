"""Text of `ibstat`: RDMA devices with firmware, and each port's state, rate and link layer."""

from __future__ import annotations

import re

from ....model.format import text_format
from .devices import NAME, read_ports

TOOL = "ibstat"
_LINES = (
    re.compile(rf"\s*CA '?(?P<device>{NAME})'?\s*\Z"),
    re.compile(r"\s*Port (?P<port>\d{1,3}):\s*\Z"),
    re.compile(
        r"\s*(?P<key>CA type|Firmware version|Node GUID|State|Physical state|Rate|Base lid|"
        r"Link layer):\s*(?P<value>\S.{0,80}?)\s*\Z"
    ),
)
FORMAT = text_format(
    TOOL,
    lambda lines: read_ports(TOOL, lines, *_LINES),
    re.compile(
        rf"(?m)^[ \t]*CA '?{NAME}'?[ \t]*\n(?:[ \t]*\n){{0,2}}"
        r"[ \t]*(?:CA type|Number of ports|Firmware|Hardware|Node GUID|Port \d)"
    ),
    needs=("CA ",),
    goes_on=re.compile(
        rf"[ \t]*(?:CA '?{NAME}'?[ \t]*\Z|Port \d{{1,3}}:|CA type:|Number of ports:|"
        r"Firmware version:|Hardware version:|Node GUID:|System image GUID:|State:|"
        r"Physical state:|Rate:|Base lid:|LMC:|SM lid:|Capability mask:|Port GUID:|Link layer:)"
    ),
    repeats=True,
)
