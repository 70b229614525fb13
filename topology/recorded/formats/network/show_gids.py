"""Text of `show_gids`: the GIDs of each RDMA port, which of them are RoCE v2, and the interface."""

from __future__ import annotations

import re

from ....model.format import text_format
from .devices import NAME, read_ports

TOOL = "show_gids"
_LINE = re.compile(
    rf"\s*(?P<device>{NAME})\s+(?P<port>\d{{1,3}})\s+(?P<index>\d{{1,4}})\s+"
    r"(?P<gid>[0-9a-fA-FxX:]{4,39}(?:\.{2,4})?)\s+"
    r"(?:(?P<ip>\d{1,3}(?:\.\d{1,3}){3}|-{2,3})\s+)?"
    rf"(?P<version>v1|v2)(?:\s+(?P<netdev>{NAME}))?\s*\Z"
)
FORMAT = text_format(
    TOOL,
    lambda lines: read_ports(TOOL, lines, _LINE),
    re.compile(r"(?m)^[ \t]*DEV[ \t]+PORT[ \t]+INDEX[ \t]+GID\b"),
    needs=("INDEX",),
    goes_on=re.compile(rf"{_LINE.pattern}|[ \t]*DEV[ \t]+PORT|[ \t-]+\Z|n_gids_found"),
    repeats=True,
)
