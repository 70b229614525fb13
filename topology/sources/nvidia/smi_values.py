"""Values as nvidia-smi -q -x prints them: "143771 MiB", "79.81 W", "16x", "Enabled", "N/A"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..files.printed import PrintedDialect

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

CELSIUS = {"C": 1.0}
MEGAHERTZ = {"MHz": 1.0}
PERCENT = {"%": 1.0}
LANES = {"x": 1.0}
_SIZES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_TEXT_LIMIT = 512
MAX_ITEMS = 4096
"""Most entries of a list that are read."""


def _find(element: Element, path: str) -> str | None:
    found = element.findtext(path)
    return None if found is None else " ".join(found.split())[:_TEXT_LIMIT]


NVIDIA_SMI = PrintedDialect(
    tool="nvidia-smi",
    absent="not in this nvidia-smi -q -x",
    find=_find,
    nothing=re.compile(
        r"\A\[?(n/?a|not supported|unknown error|insufficient permissions|requested functionality "
        r"has been deprecated|gpu access blocked by the operating system|no data|error|err!|none|"
        r"gpu is lost)\]?\Z",
        re.IGNORECASE,
    ),
    number=re.compile(r"\A(-?\d{1,18}(?:\.\d{1,9})?)\s*(x|[A-Za-z%/]{0,12})\Z"),
    truth={
        "enabled": True,
        "disabled": False,
        "yes": True,
        "no": False,
        "active": True,
        "not active": False,
    },
    sizes=_SIZES,
    least=-(2**63),
)
