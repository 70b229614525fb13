"""What a probe's processes may leave in the file system, and its removal.

Two things: the private folder of a run, and NCCL's files in /dev/shm. NCCL makes the latter with
mkstemp as `nccl-XXXXXX` and removes each when the last peer has attached (misc/shmutils.cc), so a
kill in between leaves them. Its maker holds such a file open or mapped for as long as it lives. So
a file of that name, of this user, newer than the run and open in no process at all, is garbage.
Whether it is open anywhere, other containers included, is asked of the kernel by trying to lease it
(fcntl(2), F_SETLEASE: a write lease is refused while anybody else has the file open).

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
"""Another probe that looks at the same file at the same time makes it look open."""
_FOLDER_PREFIX = "gputop-probe-"


def folder_path() -> str:
    """The path of a private folder that does not exist yet; whoever makes it uses mode 0700."""
    return os.path.join(tempfile.gettempdir(), _FOLDER_PREFIX + secrets.token_hex(8))


def shared_files(folder: str = SHARED_MEMORY) -> "frozenset[tuple[str, int]]":
    """Name and inode of this user's NCCL files; none where the folder cannot be read."""
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
    """Remove those that are newer than `before` and open nowhere; the names that are gone."""
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
    """Whether the kernel grants a write lease, that is: nobody else has the file open or mapped."""
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
    """Remove a private folder and all in it; nothing is done to a path of another name."""
    if os.path.basename(path).startswith(_FOLDER_PREFIX):
        shutil.rmtree(path, ignore_errors=True)
