"""Writes files that the user asked for: complete, or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

from gputop.exits import CANNOT_TELL, USAGE

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def write_whole(path: Path, data: bytes, *, fresh: bool = False) -> None:
    """Write a file beside the place and rename it; a failure leaves the old file.

    `fresh`: never over a file that is there (FileExistsError). A pipe or device is written to as it
    is. Raises OSError, and ValueError for a path with a null byte.
    """
    place = Path(os.path.realpath(path))
    before = _mode(place)
    if before is not None and fresh:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    if before is not None and not stat.S_ISREG(before):
        place.write_bytes(data)
        return
    if before is not None and not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    beside = place.with_name(f".gputop-{secrets.token_hex(8)}")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except PermissionError:
        if before is None:
            raise
        # The file may be written, its folder may not.
        place.write_bytes(data)
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if before is not None:
                with contextlib.suppress(OSError):
                    os.fchmod(handle, stat.S_IMODE(before))
        if fresh and _mode(place) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        os.replace(beside, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def code_of(error: Exception) -> int:
    """The exit code for a file that could not be written: a full disk is not wrong usage."""
    return CANNOT_TELL if isinstance(error, OSError) and error.errno in FULL else USAGE


def _mode(place: Path) -> int | None:
    try:
        return os.stat(place).st_mode
    except FileNotFoundError:
        return None
