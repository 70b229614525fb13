"""Text of `ibdev2netdev`, with -v or without: which interface belongs to which RDMA port.

"(Up)" and "(Down)" are of the interface: InfiniBand carries data while its IPoIB interface is down.
"""

from __future__ import annotations

import re

from ....model.format import text_format
from .devices import NAME, read_ports

TOOL = "ibdev2netdev"
_LINE = re.compile(
    r"[ \t]*(?:(?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])[ \t]+)?"
    rf"(?P<device>{NAME})[ \t]+"
    r"(?:\((?P<model>[A-Z]{2}\d{3,6}) ?-[^)\n]{0,60}\)[^\n]{0,120}?"
    r"(?:fw (?P<firmware>\d[\d.]{1,20})[ \t]+)?)?"
    r"port[ \t]+(?P<port>\d{1,3})[ \t]+(?:\((?P<state>\w+)[ \t]*\)[ \t]+)?==>[ \t]+"
    rf"(?P<netdev>{NAME})[ \t]+\((?P<up>Up|Down)\)"
)
FORMAT = text_format(
    TOOL,
    lambda lines: read_ports(TOOL, lines, _LINE),
    re.compile(rf"(?m)^{_LINE.pattern}"),
    needs=("==>",),
    goes_on=_LINE,
    repeats=True,
)
