"""A file that grows while it is written: what is in it is never lost, and one program writes it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

from gputop.terminal.writing import LINK, NO_FILE, STDOUT

BUSY = "another gputop records to it"
OTHER = "it is there and no recording of gputop; it stays as it is"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY


class GrowingFile:
    """Appends pieces, each whole or not at all; locked for as long as it is open."""

    def __init__(self, path: Path, head: bytes) -> None:
        """Begin a file with `head`, for its owner alone, or go on with one that begins so.

        Raises OSError where it cannot be written, is locked, or is another file; ValueError for "-"
        and for a path with a null byte.
        """
        if str(path) == STDOUT:
            raise ValueError(NO_FILE)
        with contextlib.suppress(FileNotFoundError):
            # Opening a device may do something, and a pipe would wait.
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                raise OSError(errno.ELOOP, LINK, str(path))
            if not stat.S_ISREG(mode):
                raise FileExistsError(errno.EEXIST, "not a regular file", str(path))
        self._path, self._empty = path, len(head)
        self._handle = os.open(path, _FLAGS, 0o600)
        try:
            self._lock(path)
            self.size = os.fstat(self._handle).st_size
            self._begun = self.size == 0
            if self._begun:
                self.append(head)
            elif os.pread(self._handle, len(head), 0) != head:
                raise FileExistsError(errno.EEXIST, OTHER, str(path))
        except BaseException:
            os.close(self._handle)
            raise

    def _lock(self, path: Path) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OSError(errno.EBUSY, BUSY, str(path)) from error
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
            # A file system without locks: nothing can be promised of two programs there.

    def append(self, data: bytes) -> None:
        """Write a piece. Raises OSError, and then nothing of it is in the file."""
        written = 0
        try:
            while written < len(data):
                written += os.write(self._handle, data[written:])
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self.size)
            raise
        self.size += written

    def close(self) -> None:
        """Put it on the disk and let it go; a new file in which nothing came to be goes again."""
        with contextlib.suppress(OSError):
            if self._begun and self.size <= self._empty:
                os.unlink(self._path)
            os.fsync(self._handle)
        with contextlib.suppress(OSError):
            os.close(self._handle)
