"""The snapshot inside the file of a check, which `gputop check --json --snapshot -o FILE` wrote."""

from __future__ import annotations

import re
import zlib

import msgspec

from ..model.errors import GputopError

SIGN = re.compile(rb'"schema"\s*:\s*"gputop\.check/')
GZIP = b"\x1f\x8b"
NONE_INSIDE = (
    "a check without the snapshot of its node; `gputop check --json --snapshot -o FILE` keeps it"
)
IN_FOLDER = "the check of a node; name the file itself, or see `gputop fleet DIR`"
_TAR_AT, _TAR = 257, b"ustar"


class CheckFileError(GputopError, ValueError):
    """A file that cannot be used, as a clause."""


class _Section(msgspec.Struct):
    snapshot: msgspec.Raw = msgspec.Raw(b"null")


class _Check(msgspec.Struct):
    schema: str = ""
    fleet: _Section | None = None


def snapshot_in(data: bytes) -> bytes | None:
    """The snapshot of a check, as JSON; None for a document that is no check.

    Raises CheckFileError for a check that has none, or that is not whole.
    """
    try:
        found = msgspec.json.decode(data, type=_Check)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CheckFileError(f"a check that is cut off or damaged: {error}") from error
    if not found.schema.startswith("gputop.check/"):
        return None
    raw = b"null" if found.fleet is None else bytes(found.fleet.snapshot)
    if raw == b"null":
        raise CheckFileError(NONE_INSIDE)
    return raw


def unpacked(data: bytes, limit_bytes: int) -> bytes:
    """What gzip packed, where it is a document and no tar; everything else as it is.

    Raises CheckFileError for more than `limit_bytes`, and for a file that ends too early.
    """
    if not data.startswith(GZIP):
        return data
    try:
        start = zlib.decompressobj(wbits=31).decompress(data, _TAR_AT + len(_TAR))
        if not start or start.startswith(GZIP) or start[_TAR_AT:] == _TAR:
            return data
        unpacker = zlib.decompressobj(wbits=31)
        text = unpacker.decompress(data, limit_bytes + 1)
    except zlib.error as error:
        raise CheckFileError(f"gzip that is damaged: {error}") from error
    if len(text) > limit_bytes:
        raise CheckFileError(f"longer than the limit of {limit_bytes} bytes when unpacked")
    if not unpacker.eof:
        raise CheckFileError("gzip that ends in the middle")
    return text
