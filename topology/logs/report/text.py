"""Turn bytes of a log into short text on one line without control characters."""

import re
from functools import lru_cache

LIMIT = 400

# Codes of errors and states set lines apart; addresses and counts do not. Each alternative begins
# with a digit, which is found many times faster than what must not stand before one.
_NUMBERS = re.compile(
    rb"[0-9](?<!failure .)(?<!error .)(?<!state .)(?<!-> .)(?<![\w.].)"
    rb"(?:(?<=0)x[0-9a-fA-F]+|[0-9.]*)|[0-9](?<=\w.)[0-9]*"
)
_FILE = re.compile(rb"(?<=nccl-)\w{5,6}\b")
"""What a name of shared memory ends in: /dev/shm/nccl-4VnUPX."""


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
    named = _FILE.sub(b"#", data) if data.find(b"nccl-") >= 0 else data
    return _NUMBERS.sub(b"#", named)


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
