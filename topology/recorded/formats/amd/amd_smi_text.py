"""The tables of `amd-smi topology` as text."""

from __future__ import annotations

import re
from pathlib import Path

from ....model.format import Format, FormatError
from ....model.part import Part
from .amd_smi import part_of
from .smi.tables import AMD_SIGN, AMD_TITLES, SmiTableError, amd_document, plain_text


def _recognises(head: bytes, path: Path) -> bool:
    return AMD_SIGN.search(head.decode("utf-8", "replace")) is not None


def _parse(data: bytes, path: Path) -> Part:
    try:
        return part_of(amd_document(plain_text(data)))
    except SmiTableError as error:
        raise FormatError(str(error), error.line) from error


FORMAT = Format(
    id="amd-smi topology",
    recognises=_recognises,
    parse=_parse,
    starts=AMD_SIGN,
    needs=tuple(f"{title}:" for title in AMD_TITLES),
    goes_on=re.compile(
        r"[A-Z][A-Z -]{2,40}TABLE:|[ \t]*(?:GPU\d|[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:)|Legend:|"
        r"[ \t]+\S.{0,60} = |[ \t]+<BW from>"
    ),
)
