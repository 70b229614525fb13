"""Text of `ibv_devinfo`: RDMA devices with firmware, and each port's state and link layer."""

from __future__ import annotations

import re

from ....model.format import text_format
from .devices import NAME, read_ports

TOOL = "ibv_devinfo"
_LINES = (
    re.compile(rf"\s*hca_id:\s*(?P<device>{NAME})\s*\Z"),
    re.compile(r"\s*port:\s*(?P<port>\d{1,3})\s*\Z"),
    re.compile(
        r"\s*(?P<key>fw_ver|node_guid|board_id|state|phys_state|link_layer|port_lid):"
        r"\s*(?P<value>\S.{0,60}?)(?: \(\d{1,3}\))?\s*\Z"
    ),
)
FORMAT = text_format(
    TOOL,
    lambda lines: read_ports(TOOL, lines, *_LINES),
    re.compile(
        rf"(?m)^[ \t]*hca_id:[ \t]*{NAME}[ \t]*\n[ \t]*(?:transport|fw_ver|node_guid|port):"
    ),
    needs=("hca_id",),
    goes_on=re.compile(
        r"[ \t]*(?:hca_id|transport|fw_ver|node_guid|sys_image_guid|vendor_id|vendor_part_id|hw_ver"
        r"|board_id|phys_port_cnt|max_mr_size|page_size_cap|port|state|max_mtu|active_mtu|sm_lid"
        r"|port_lid|port_lmc|link_layer|phys_state|active_width|active_speed|max_msg_sz"
        r"|port_cap_flags2?|[a-z_]{3,40}|(?i:GID)\[ *\d+\]):"
    ),
    repeats=True,
)
