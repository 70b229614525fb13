"""One command line in a child of this process: its answer, and what it took."""

from __future__ import annotations

import os
import resource
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path

from gputop.__main__ import run
from gputop.exits import OWN_ERROR

from .doors import DOORS

MOST_MEMORY_BYTES = 4 * 10**9
"""Of addresses beyond the parent's, which no sound command comes near: a runaway ends before the
machine suffers."""
MOST_CPU_SECONDS = 120
MOST_OUTPUT_BYTES = 500 * 10**6
_FOREIGN = ("NCCL_", "RCCL_", "CUDA_", "HIP_", "ROCR_", "TORCH_", "GPUTOP_", "XDG_")


@dataclass(frozen=True)
class Ended:
    """What a command line did."""

    code: int
    """Exit code; negative: the signal that ended it."""
    out: bytes
    err: bytes
    cpu_seconds: float
    memory_bytes: int
    """The most that was resident at once, beyond what the parent had, as which the child began."""


def ended(arguments: Sequence[str]) -> Ended:
    """Run the command line in a fork, which has imported everything before."""
    out, err = os.memfd_create("out"), os.memfd_create("err")
    sys.stdout.flush()
    sys.stderr.flush()
    pages = map(int, Path("/proc/self/statm").read_text().split()[:2])
    addresses, inherited = (number * resource.getpagesize() for number in pages)
    child = os.fork()
    if child == 0:
        _be_the_command(arguments, out, err, addresses + MOST_MEMORY_BYTES)
    _, status, used = os.wait4(child, 0)
    return Ended(
        code=os.waitstatus_to_exitcode(status),
        out=_content(out),
        err=_content(err),
        cpu_seconds=used.ru_utime + used.ru_stime,
        memory_bytes=max(0, used.ru_maxrss * 1024 - inherited),
    )


def _be_the_command(arguments: Sequence[str], out: int, err: int, most_bytes: int) -> None:
    """Become the command; never returns."""
    code = OWN_ERROR
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout = _stream(1, "strict")
        sys.stderr = _stream(2, "backslashreplace")
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_OUTPUT_BYTES, MOST_OUTPUT_BYTES))
        for name in list(os.environ):
            if name.startswith(_FOREIGN):
                del os.environ[name]
        os.environ.update(
            HOME="/nonexistent", XDG_CONFIG_HOME="/nonexistent", COLUMNS="100", GPUTOP_DEBUG="1"
        )
        door = DOORS.get(arguments[0])
        code = run(list(arguments)) if door is None else door(Path(arguments[1]))
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - whatever escapes is what is looked for
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stderr.flush()
        os._exit(code)


def _stream(handle: int, errors: str) -> TextIOWrapper:
    return TextIOWrapper(BufferedWriter(FileIO(handle, "w", closefd=False)), "utf-8", errors)


def _content(handle: int) -> bytes:
    with open(handle, "rb") as file:
        file.seek(0)
        return file.read()
