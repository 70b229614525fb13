"""Turn bytes of a log into short text on one line without control characters."""

import re
from functools import lru_cache

LIMIT = 400

# Codes of errors and states set lines apart; addresses and counts do not.
_NUMBERS = re.compile(
    rb"(?<!failure )(?<!error )(?<!state )(?<!-> )(?<![\w.])(?:0x[0-9a-fA-F]+|[0-9][0-9.]*)"
    rb"|(?<=nccl-)\w{5,6}\b|(?<=\w)[0-9]+"
)


def plain(data: bytes, limit: int = LIMIT) -> str:
    """Decode; undecodable bytes and control characters become a replacement mark."""
    text = data[: 4 * limit].decode("utf-8", "replace")[:limit]
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "�" for character in text)


def shape(data: bytes) -> bytes:
    """Replace every number in the text: lines of one kind have one shape."""
    return _shape(data[:300])


@lru_cache(2048)
def _shape(data: bytes) -> bytes:
    return _NUMBERS.sub(b"#", data)


def bus_id(digits: str) -> str | None:
    """Turn NCCL's hexadecimal integer into a PCI address: "60" -> "0000:00:06.0".

    See utils.cc:int64ToBusId. None where the digits are no such integer.
    """
    try:
        value = int(digits, 16)
    except ValueError:
        return None
    if not 0 <= value < 1 << 52:
        return None
    return f"{value >> 20:04x}:{value >> 12 & 0xFF:02x}:{value >> 4 & 0xFF:02x}.{value & 0xF:x}"
