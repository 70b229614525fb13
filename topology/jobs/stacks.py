"""Where each rank is in its Python program, by py-spy: only where somebody asks for it.

py-spy reads the memory of another process and stops nothing with --nonblocking; it needs the right
to trace the process, as a debugger does.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from ..model.english import listing
from ..sources.files.tree import clean
from .flight.comparing import LIBRARY_FILES, ranks_text
from .flight.dump import Frame

TOOL = "py-spy"
NOT_THERE = "py-spy is not installed where gputop runs: `pip install py-spy`"
DENIED = (
    "py-spy may not look at it: run gputop as the same user where kernel.yama.ptrace_scope is 0, "
    "else as root"
)
ENDED = "the process has ended"
ODD = "py-spy says nothing of it that gputop reads"
SECONDS, ALL_SECONDS = 5.0, 10.0
"""For one process, and for all."""
AT_ONCE, MOST_RANKS = 8, 64
MOST_BYTES, MOST_FRAMES = 256 * 1024, 64
MOST_NAMED = 8

_FRAME = re.compile(
    r"^ {4}(?P<name>\S.{0,200}?) \((?P<file>[^()]{1,300}?)(?::(?P<line>\d{1,7}))?\)$"
)
_THREAD = re.compile(r'^Thread (?P<id>\S{1,40}) \([^)]{0,40}\)(?:: "(?P<name>.{0,200})")?$')
MAIN = "MainThread"
AUTOGRAD, BOOTSTRAP = "/torch/autograd/", "_bootstrap"
"""Where a backward pass waits for its threads; the outermost call of a thread of Python's."""


class RankStack(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's main thread, the innermost call first."""

    rank: int | None
    pid: int
    frames: tuple[Frame, ...] = ()
    trouble: str | None = None
    """Why there are no frames."""


class StackGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks whose innermost call is the same."""

    ranks: tuple[int | None, ...]
    pids: tuple[int, ...]
    at: Frame | None
    own: Frame | None = None
    trouble: str | None = None


Run = Callable[[Sequence[str], float], tuple[int, str, str]]
"""Runs a command with a deadline in seconds: exit code, stdout, stderr. Raises TimeoutExpired."""


def run(command: Sequence[str], seconds: float) -> tuple[int, str, str]:
    """Run it without a shell; what it prints is cut at MOST_BYTES."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=seconds,
        check=False,
    )
    out, error = (text[:MOST_BYTES].decode(errors="replace") for text in (done.stdout, done.stderr))
    return done.returncode, out, error


def stacks(
    ranks: Iterable[tuple[int | None, int]],
    run: Run = run,
    tool: str | None = None,
) -> tuple[RankStack, ...]:
    """Ask py-spy for the stack of each rank, given with its process; those that it refuses too."""
    asked = list(ranks)[:MOST_RANKS]
    path = tool or shutil.which(TOOL)
    if path is None:
        return tuple(RankStack(rank=rank, pid=pid, trouble=NOT_THERE) for rank, pid in asked)
    until = time.monotonic() + ALL_SECONDS

    def one(each: tuple[int | None, int]) -> RankStack:
        rank, pid = each
        left = min(SECONDS, until - time.monotonic())
        if left <= 0:
            return RankStack(rank=rank, pid=pid, trouble="no time was left to ask for it")
        command = [path, "dump", "--nonblocking", "--pid", str(pid)]
        try:
            code, out, error = run(command, left)
        except subprocess.TimeoutExpired:
            return RankStack(rank=rank, pid=pid, trouble=f"py-spy took longer than {left:.0f} s")
        except OSError as refused:
            why = refused.strerror or type(refused).__name__
            return RankStack(rank=rank, pid=pid, trouble=f"py-spy cannot be started: {why}")
        frames = frames_of(out, pid) if code == 0 else ()
        trouble = None if frames else _why(error) if code else ODD
        return RankStack(rank=rank, pid=pid, frames=frames, trouble=trouble)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return tuple(pool.map(one, asked))


def _why(error: str) -> str:
    """The reason that py-spy gives, in our words where it is known."""
    low = error.lower()
    if "permission denied" in low or "operation not permitted" in low or "try running again" in low:
        return DENIED
    if "no such process" in low or "no such file" in low or "failed to open process" in low:
        return ENDED
    lines = [clean(line.strip()) for line in error.splitlines() if line.strip()]
    return f"py-spy: {lines[-1][:200]}" if lines else ODD


class _Thread(msgspec.Struct):
    """One thread in what py-spy prints."""

    id: str
    """Its number for the operating system, which of the first thread is that of the process."""
    name: str | None
    """None where the program knows no names of threads, or py-spy could not read them."""
    frames: list[Frame] = []


def frames_of(text: str, pid: int | None = None) -> tuple[Frame, ...]:
    """The calls of the main thread in what `py-spy dump` prints, the innermost first.

    It is the one of that name, else that of the process's own number, else the only one.
    """
    threads: list[_Thread] = []
    for line in text.splitlines():
        if (thread := _THREAD.match(line)) is not None:
            threads.append(_Thread(thread["id"], thread["name"]))
        elif threads and (frame := _FRAME.match(line)) is not None:
            number, frames = int(frame["line"] or 0), threads[-1].frames
            if len(frames) < MOST_FRAMES:
                frames.append(
                    Frame(name=clean(frame["name"]), file=clean(frame["file"]), line=number)
                )
    named = [one for one in threads if one.name == MAIN]
    nameless = [one for one in threads if one.name is None]
    first = [one for one in nameless if one.id == str(pid)]
    only = nameless if len(threads) == 1 else []
    main = next(iter((*named, *first, *only)), None)
    return () if main is None else (*_in_backward(main, threads), *main.frames)


def _in_backward(main: _Thread, threads: Sequence[_Thread]) -> list[Frame]:
    """What PyTorch runs in its own thread while the main one waits in a backward pass.

    Hooks of DDP, FSDP and DeepSpeed call collectives there. Python started no such thread.
    """
    inside = main.frames[:1]
    if not inside or AUTOGRAD not in f"/{inside[0].file}":
        return []
    own = [
        one.frames
        for one in threads
        if one is not main and one.frames and not one.frames[-1].name.endswith(BOOTSTRAP)
    ]
    return own[0] if len(own) == 1 else []


def grouped(found: Iterable[RankStack]) -> tuple[StackGroup, ...]:
    """Ranks with the same innermost call or the same trouble, the fewest first."""
    by: dict[object, list[RankStack]] = {}
    for stack in found:
        at = stack.frames[0] if stack.frames else None
        by.setdefault((at and (at.name, at.file), stack.trouble), []).append(stack)
    groups = [
        StackGroup(
            ranks=tuple(stack.rank for stack in members),
            pids=tuple(stack.pid for stack in members),
            at=members[0].frames[0] if members[0].frames else None,
            own=_own(members[0].frames),
            trouble=members[0].trouble,
        )
        for members in by.values()
    ]
    return tuple(sorted(groups, key=lambda group: (group.trouble is not None, len(group.pids))))


def _own(frames: Iterable[Frame]) -> Frame | None:
    """The innermost call of the program itself; py-spy leaves the folder of packages out."""
    own = (f for f in frames if not any(part in f"/{f.file}" for part in LIBRARY_FILES))
    return next(own, None)


def in_words(group: StackGroup) -> str:
    """The text "rank 3: __next__ (torch/utils/data/dataloader.py:701), called at train.py:88"."""
    known = sorted(rank for rank in group.ranks if rank is not None)
    all_known = len(known) == len(group.pids)
    who = ranks_text(known) if all_known else f"pid {listing([*map(str, group.pids)], MOST_NAMED)}"
    if group.at is None:
        return f"{who}: {group.trouble or ODD}"
    at, own = group.at, group.own
    where = f", called at {own.file}:{own.line} in {own.name}" if own not in (None, at) else ""
    return f"{who}: {at.name} ({at.file}:{at.line}){where}"
