"""The tables of `amd-smi topology` as text."""

from __future__ import annotations

import re

from ....model.format import text_format
from ....model.part import PartialNode
from .amd_smi import part_of
from .smi.tables import AMD_SIGN, AMD_TITLES, amd_document


def _parse(lines: list[str]) -> PartialNode:
    return part_of(amd_document(lines))


FORMAT = text_format(
    id="amd-smi topology",
    parse=_parse,
    starts=AMD_SIGN,
    needs=tuple(f"{title}:" for title in AMD_TITLES),
    goes_on=re.compile(
        r"[A-Z][A-Z -]{2,40}TABLE:|[ \t]*(?:GPU\d|[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:)|Legend:|"
        r"[ \t]+\S.{0,60} = |[ \t]+<BW from>"
    ),
)
