"""The table of hl-smi: Gaudi accelerators, of a vendor without a record here."""

from __future__ import annotations

import re

from ...model.format import FormatError, text_format
from ...model.machine import Gpu
from ...model.part import PartialNode
from ...sources.pci.address import pci_address

TOOL = "hl-smi"
VENDOR = "Intel Gaudi"
_ROW = re.compile(
    r"\s*\|\s*(\d{1,3})\s+(HL-\w{2,20})\s+\S{1,8}\s*\|\s*([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
)


def _parse(lines: list[str]) -> PartialNode:
    rows = [row for line in lines if (row := _ROW.match(line)) is not None]
    if not rows or len(rows) > 128:
        raise FormatError("no usable row of a device in it")
    return PartialNode(
        gpus=tuple(
            Gpu(address=own, vendor=VENDOR, name=row[2], index=int(row[1]))
            for row in rows
            if (own := pci_address(row[3])) is not None
        )
    )


FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=re.compile(r"(?m)^[ \t|]*HL-SMI Version:"),
    needs=("HL-SMI Version",),
    goes_on=re.compile(r"\s*(?:\||\+[-=]{3})"),
)
