"""Files that somebody asked for: there whole, or not at all; for nobody else to read."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from gputop.exits import CANNOT_TELL, USAGE
from gputop.topology.model.characters import harmless

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)
LINK = "it is a symbolic link; name the file to which it leads"
_DESCRIPTOR = re.compile(r"/dev/(?:(stdin|stdout|stderr)|fd/(\d{1,6}))|/proc/self/fd/(\d{1,6})")
_STREAMS = ("stdin", "stdout", "stderr")
_FLAGS = os.O_WRONLY | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
STDOUT = "-"
"""What an option that names a file takes for stdout."""
NO_FILE = "stdout has the answer already; name a file"
READER_SECONDS = 10.0
"""For so long a named pipe is waited for; without a reader the kernel would wait for ever."""


def write_whole(
    path: Path,
    text: str | bytes | Iterable[bytes],
    *,
    fresh: bool = False,
    shared: bool = False,
    durable: bool = False,
) -> None:
    """Write beside the place and put it there in one step; a failure leaves what was there.

    A new file is for its owner alone, or with `shared` for whom the umask lets read it; one that is
    there keeps its mode. `fresh`: never over a file that is there (FileExistsError). A pipe or
    device is written to as it is. `durable`: on the disk before this returns. Bytes are written as
    they are, pieces as they come. A symbolic link is refused: in a folder that others may write to
    it would lead to a file of their choice. Raises OSError, and ValueError for a path with a null
    byte and for "-": who takes that for stdout does not write a file.
    """
    if str(path) == STDOUT:
        raise ValueError(NO_FILE)
    data = _pieces(text)
    number = _descriptor(path)
    if number is not None:
        with os.fdopen(os.dup(number), "wb") as file:
            file.writelines(data)
        return
    before = _found(path)
    if before is not None and fresh:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    if before is not None and stat.S_ISLNK(before.st_mode):
        raise OSError(errno.ELOOP, LINK, str(path))
    if before is not None and not stat.S_ISREG(before.st_mode):
        _write_into(path, data, before)
        return
    if before is not None and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    beside = path.with_name(f".gputop-{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        handle = os.open(beside, flags, 0o644 if shared else 0o600)
    except PermissionError:
        if before is None:
            raise
        # A file that may be written in a folder that may not.
        _write_into(path, data, before)
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(data)
            if before is not None:
                with contextlib.suppress(OSError):
                    os.fchmod(handle, stat.S_IMODE(before.st_mode))
            if durable:
                file.flush()
                os.fsync(handle)
        if fresh and _found(path) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        os.replace(beside, path)
        if durable:
            _keep_name(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _keep_name(folder: Path) -> None:
    """Put the new name in a folder onto the disk too, where its file system can do that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def code_of(error: Exception) -> int:
    """The exit code of a file that could not be written: a full disk is no wrong usage."""
    return CANNOT_TELL if isinstance(error, OSError) and error.errno in FULL else USAGE


def _descriptor(path: Path) -> int | None:
    """The open file of this process that a path such as /dev/stdout stands for."""
    found = _DESCRIPTOR.fullmatch(str(path))
    if found is None:
        return None
    number = _STREAMS.index(found[1]) if found[1] else int(found[2] or found[3])
    # What is our own stdout is no longer C's: see output.py.
    return sys.__stdout__.fileno() if number == 1 and sys.__stdout__ is not None else number


def _pieces(text: str | bytes | Iterable[bytes]) -> Iterable[bytes]:
    if isinstance(text, str):
        return (harmless(text).encode(),)
    return (text,) if isinstance(text, bytes) else text


def _write_into(path: Path, data: Iterable[bytes], before: os.stat_result) -> None:
    """Write to what is there, if it still is what was looked at."""
    open_ = _open_pipe if stat.S_ISFIFO(before.st_mode) else os.open
    with os.fdopen(open_(path, _FLAGS), "wb") as file:
        now = os.fstat(file.fileno())
        if (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino):
            raise FileExistsError(errno.EEXIST, "another file came into its place", str(path))
        if stat.S_ISREG(now.st_mode):
            os.ftruncate(file.fileno(), 0)
        file.writelines(data)


def _open_pipe(path: Path, flags: int) -> int:
    """Open a named pipe, to which somebody has to listen within READER_SECONDS."""
    give_up = time.monotonic() + READER_SECONDS
    while True:
        try:
            handle = os.open(path, flags | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > give_up:
                raise OSError(errno.ENXIO, "nobody reads this pipe", str(path)) from error
            time.sleep(0.05)
        else:
            os.set_blocking(handle, True)
            return handle


def _found(path: Path) -> os.stat_result | None:
    """What is at this path, a link itself included; None for nothing."""
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None
