"""Finds and reads the dumps that the processes of a job write, or that somebody names."""

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from ...model.budget import Budget
from ...model.units import seconds
from .comparing import LIMIT_GROUPS
from .dump import Dump, DumpError, is_pickle, looks_like, parse
from .pickled import MOST_BYTES

NAMES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
"""Variables that say how a dump's name begins, in the order in which PyTorch asks."""
DEFAULTS = ("/tmp/nccl_trace_rank_", "/tmp/comm_lib_trace_rank_")
CACHED = "torch/comm_lib_trace_rank_"
"""Below the cache folder of the user, in PyTorch since 2.9."""
HEAD_BYTES = 64 * 1024
MOST_FILES = 4096
FRESH_SECONDS = 60.0
"""From here on a dump says where its ranks were, not where they are."""


class FoundDumps(msgspec.Struct, frozen=True, kw_only=True):
    """Dumps, and the files that could not be read as one."""

    dumps: tuple[Dump, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    """File and why."""


def expected(rank: int, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Where PyTorch writes the dump of a rank, by the variables that its process was started with.

    Where none names a place, all places that versions of PyTorch use by default.
    """
    named = next((variables[name] for name in NAMES if variables.get(name)), None)
    if named is not None:
        return (f"{named}{rank}",)
    home = variables.get("XDG_CACHE_HOME") or (
        f"{variables['HOME']}/.cache" if variables.get("HOME") else None
    )
    cached = (f"{home}/{CACHED}{rank}",) if home else ()
    return (*(f"{start}{rank}" for start in DEFAULTS), *cached)


def read(paths: Iterable[str], since: float | None = None, *, follow: bool = False) -> FoundDumps:
    """Read the files that exist; those older than `since` (seconds since the epoch) are refused.

    `follow`: links too, as of files that the user names; in a folder for all, anybody may make one.
    """
    dumps: list[Dump] = []
    refused: list[tuple[str, str]] = []
    budget = Budget("jobs")
    for path in dict.fromkeys(paths):
        if budget.over:
            refused.append((path, budget.why))
            continue
        try:
            data, written_at = octets(path, follow=follow)
        except FileNotFoundError:
            continue
        except OSError as error:
            refused.append((path, error.strerror or type(error).__name__))
            continue
        try:
            if since is not None and written_at < since:
                raise DumpError("written before the job started, so not by it")
            dumps.append(parse(data, path, written_at))
        except DumpError as error:
            refused.append((path, str(error)))
    groups = len({entry.group for dump in dumps for entry in dump.entries})
    if groups > LIMIT_GROUPS:
        compared = f"of {groups:,} groups gputop compares {LIMIT_GROUPS} at most"
        refused.append((f"{len(dumps)} dumps", compared))
    return FoundDumps(dumps=tuple(dumps), refused=tuple(refused))


def age(dumps: Iterable[Dump], now: float | None) -> str | None:
    """How long ago the newest dump was written; None where it speaks of this moment."""
    written = [dump.written_at for dump in dumps if dump.written_at is not None]
    passed = 0.0 if now is None or not written else now - max(written)
    return seconds(passed) if passed > FRESH_SECONDS else None


def listed(folder: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The files of a folder that are looked at, and why there are no more of them."""
    names = sorted(os.listdir(folder))
    more = f"of {len(names)} files gputop reads {MOST_FILES} at most"
    cut = [(folder, more)] if len(names) > MOST_FILES else []
    return [str(Path(folder, name)) for name in names[:MOST_FILES]], cut


def named(
    sources: Iterable[str],
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Split files and folders into those that hold dumps and all others: (dumps, others, cut).

    Of a folder with dumps the other files right in it are others, each for itself. A pickle that
    is named itself counts as one in any case: nothing else that is read here is a pickle. `cut`:
    folders of dumps with more files than are looked at, and that.
    """
    dumps: list[str] = []
    others: list[str] = []
    cut: list[tuple[str, str]] = []
    for source in sources:
        if source and os.path.isdir(source):
            inside, more = listed(source)
            found = [path for path in inside if _is_dump(path)]
            dumps += found
            others += beside(inside, found) if found else [source]
            cut += more if found else ()
        else:
            (dumps if _is_dump(source, chosen=True) else others).append(source)
    return tuple(dumps), tuple(others), tuple(cut)


def beside(inside: Iterable[str], found: Sequence[str]) -> list[str]:
    """The other files of a folder: no links and pipes, as nobody named these."""
    rest = (path for path in inside if path not in found)
    return [path for path in rest if os.path.isfile(path) and not os.path.islink(path)]


def _is_dump(path: str, *, chosen: bool = False) -> bool:
    try:
        head = octets(path, HEAD_BYTES, follow=chosen)[0] if path else b""
    except OSError:
        return False
    return looks_like(head) or (chosen and is_pickle(head))


def octets(
    path: str, limit: int = MOST_BYTES + 1, *, follow: bool = False, last: bool = False
) -> tuple[bytes, float]:
    """Content of a plain file and when it was written; never a pipe, a link only with `follow`.

    Of a file that is longer than `limit` its first bytes, or its `last` ones. Raises OSError.
    """
    try:
        # Opening a device may already do something, whatever it then says that it is.
        if not stat.S_ISREG(os.stat(path, follow_symlinks=follow).st_mode):
            raise OSError(0, "not a regular file")
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        handle = os.open(path, flags | (0 if follow else os.O_NOFOLLOW))
    except ValueError as error:
        raise OSError(0, "not a file name") from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "not a regular file")
        if last and status.st_size > limit:
            os.lseek(handle, -limit, os.SEEK_END)
        parts: list[bytes] = []
        while limit > 0 and (part := os.read(handle, min(limit, 2**20))):
            parts.append(part)
            limit -= len(part)
        return b"".join(parts), status.st_mtime
    finally:
        os.close(handle)
