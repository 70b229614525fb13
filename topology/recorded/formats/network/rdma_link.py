"""Text of `rdma link`: state of each RDMA port and the interface that belongs to it."""

from __future__ import annotations

import re

from ....model.format import text_format
from .devices import NAME, read_ports

TOOL = "rdma link"
_LINE = re.compile(
    rf"\s*(?:\d{{1,4}}/\d{{1,3}}: |link )(?P<device>{NAME})/(?P<port>\d{{1,3}}):?\s+"
    r"(?:(?P<infiniband>subnet_prefix) \S+ )?(?:[a-z_]+ (?!ACTIVE|DOWN)\S+ ){0,6}"
    r"state (?P<state>\w{2,12}) physical_state (?P<physical_state>\w{2,20})"
    rf"(?: netdev (?P<netdev>{NAME}))?(?: netdev_index \d{{1,9}})?\s*\Z"
)
FORMAT = text_format(
    TOOL,
    lambda lines: read_ports(TOOL, lines, _LINE),
    re.compile(
        rf"(?m)^[ \t]*(?:\d{{1,4}}/\d{{1,3}}: |link ){NAME}/\d{{1,3}}:?[ \t]+"
        r"[^\n]{0,200}?state \w{2,12} physical_state "
    ),
    needs=("physical_state",),
    goes_on=_LINE,
    repeats=True,
)
