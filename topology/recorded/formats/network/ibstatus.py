"""Text of `ibstatus`: state, rate and link layer of each port as sysfs words them."""

from __future__ import annotations

import re

from ....model.format import text_format
from .devices import NAME, read_ports

TOOL = "ibstatus"
_LINES = (
    re.compile(rf"\s*Infiniband device '(?P<device>{NAME})' port (?P<port>\d{{1,3}}) status:\s*\Z"),
    re.compile(
        r"\s*(?P<key>state|phys state|link_layer|base lid|"
        r"rate(?=:\s*(?:\d{1,2}: )?\d{1,6}(?:\.\d{1,3})? Gb/sec)):"
        r"\s*(?:\d{1,2}: )?(?P<value>\S.{0,60}?)\s*\Z"
    ),
)
FORMAT = text_format(
    TOOL,
    lambda lines: read_ports(TOOL, lines, *_LINES),
    re.compile(rf"(?m)^[ \t]*Infiniband device '{NAME}' port \d{{1,3}} status:"),
    needs=("Infiniband device",),
    goes_on=re.compile(
        r"[ \t]*(?:Infiniband device '|default gid:|base lid:|sm lid:|state:|phys state:|rate:|"
        r"link_layer:)"
    ),
    repeats=True,
)
