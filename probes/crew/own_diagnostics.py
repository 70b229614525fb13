"""NCCL's own diagnostics in the ranks of a probe: switched on where the library has them, and kept.

NCCL prints them to its standard output (include/diagnostics_log.h), so a rank's goes to a file of
the private folder, whose lines follow its debug log.
"""

import ctypes
import os
import re
from collections.abc import Mapping, MutableMapping
from typing import Optional

from .environment import log_path

SINCE = (2, 31)
VARIABLES = {"NCCL_RUN_DIAGNOSTICS": "1", "NCCL_RUN_RAS_DIAGNOSTICS": "1"}
"""What this version and later ones read; a value of the job or of the request stays."""
_STDOUT = 1
_LINE_BUFFERED = 1
_TIME = re.compile(rb"NCCL DIAG NCCL diagnostics completed in (\d{1,9}(?:\.\d{1,3})?) ms")
_MOST_BYTES = 1 << 20


def printed_path(folder: str, rank: int) -> str:
    """Path of what a rank's library prints to the standard output."""
    return os.path.join(folder, f"rank{rank}.out")


def in_force(version: Optional[str], environment: Mapping[str, str]) -> "dict[str, str]":
    """The variables as the library will read them; {} where it has none, or all are off."""
    known = [int(part) for part in re.findall(r"\d+", version or "")[:2]]
    if tuple(known) < SINCE:
        return {}
    values = {name: environment.get(name, value) for name, value in VARIABLES.items()}
    return values if any(value != "0" for value in values.values()) else {}


def switch_on(
    version: Optional[str],
    folder: str,
    rank: int,
    environment: "MutableMapping[str, str]" = os.environ,
) -> "dict[str, str]":
    """Set the variables of this process, before the library reads them, and keep what it prints.

    `version`: the library's, "2.31.2"; None where it is not known. Returns `in_force`.
    """
    values = in_force(version, environment)
    if not values:
        return values
    environment.update(values)
    # The diagnostics compare the variables of all ranks: one name for all logs, by way of a link.
    os.symlink(log_path(folder, rank), _link(folder, os.getpid()))
    environment["NCCL_DEBUG_FILE"] = os.path.join(folder, "rank-%p.log")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
    file = os.open(printed_path(folder, rank), flags, 0o600)
    os.dup2(file, _STDOUT)
    os.close(file)
    libc = ctypes.CDLL(None)
    # A rank may be killed, so no line waits in a buffer.
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, _LINE_BUFFERED, 0)
    return values


def milliseconds(folder: str, rank: int) -> Optional[float]:
    """How long the diagnostics took that ran while the communicator was made; None if unknown."""
    try:
        with open(printed_path(folder, rank), "rb") as file:
            found = _TIME.search(file.read(_MOST_BYTES))
    except OSError:
        return None
    return float(found[1]) if found is not None else None


def forget_link(folder: str) -> None:
    """Take the link of this process away; the library has opened its log by then."""
    os.unlink(_link(folder, os.getpid()))


def _link(folder: str, pid: int) -> str:
    return os.path.join(folder, f"rank-{pid}.log")
