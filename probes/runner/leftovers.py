"""Removes what the processes of a probe leave in the file system.

These are the private folder of a run and NCCL's files in /dev/shm. NCCL creates those with mkstemp
as `nccl-XXXXXX` and removes each when the last peer has attached (misc/shmutils.cc), so a kill in
between leaves them. Their creator keeps them open or mapped as long as it lives. So a file of that
name and of this user, newer than the run and open in no process, is garbage. An attempt to lease
the file shows whether any process has it open, even in another container (fcntl(2), F_SETLEASE: a
write lease is refused while another process has the file open).

The keeper loads this file by its path: standard library only, no relative import.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
import time

SHARED_MEMORY = "/dev/shm"
_PREFIX = "nccl-"
_TRIES = 3
_PAUSE_SECONDS = 0.03
"""Pause before another try; a second probe that checks the file makes it look open."""
_FOLDER_PREFIX = "gputop-probe-"


def folder_path() -> str:
    """An unused path for a private folder; create it with mode 0700."""
    return os.path.join(tempfile.gettempdir(), _FOLDER_PREFIX + secrets.token_hex(8))


def shared_files(folder: str = SHARED_MEMORY) -> "frozenset[tuple[str, int]]":
    """Name and inode of this user's NCCL files; empty if the folder cannot be read."""
    found = set()
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(_PREFIX):
                continue
            with contextlib.suppress(OSError):
                state = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid():
                    found.add((entry.name, state.st_ino))
    return frozenset(found)


def remove_shared_files(
    before: "frozenset[tuple[str, int]]", folder: str = SHARED_MEMORY
) -> "list[str]":
    """Remove files that are newer than `before` and open nowhere; returns their names."""
    removed = []
    for attempt in range(_TRIES):
        found = sorted(shared_files(folder) - before)
        if attempt and found:
            time.sleep(_PAUSE_SECONDS * attempt)
        for name, inode in found:
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                if _is_open_nowhere(path, inode):
                    os.unlink(path)
                    removed.append(name)
    return sorted(removed)


def _is_open_nowhere(path: str, inode: int) -> bool:
    """Whether the kernel grants a write lease: no other process has the file open or mapped."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if os.fstat(descriptor).st_ino != inode:
            return False
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except (OSError, AttributeError):
        return False
    finally:
        os.close(descriptor)
    return True


def remove_folder(path: str) -> None:
    """Remove a private folder with its content; other paths are never touched."""
    if os.path.basename(path).startswith(_FOLDER_PREFIX):
        shutil.rmtree(path, ignore_errors=True)
