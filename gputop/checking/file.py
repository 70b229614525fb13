"""The file of a check or of a pair, `-o`, and the node that it names, as its engine calls it.

It is one JSON document, there whole or not at all.
"""

from __future__ import annotations

import gzip
import os
import re
import socket
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gputop.exits import USAGE, Exit
from gputop.terminal.clean import clean
from gputop.terminal.writing import code_of, write_whole
from gputop.topology.fleet.section import NodeOrigin
from gputop.topology.model.characters import harmless, json_text

# Two machines that take themselves for the same node: neither may overwrite the other's file.
#
# The file there is another machine's where it was written while this machine was up and tells of
# another boot (/proc/sys/kernel/random/boot_id): a machine has one boot at a time. Then this one's
# file gets a name beside it, so that `gputop fleet` sees both.
SAME_RUN_SECONDS = 1800.0
"""An older file is of an earlier run, perhaps of the machine that had the name before."""
_MOST_BYTES = 8 * 1024 * 1024
_MOST_NAMESAKES = 9
NAMED = "GPUTOP_NODE"
"""The variable by which a site names the node itself: in a pod of Kubernetes the host name is the
pod's, unless the pod uses the host's network."""
_NODES = (NAMED, "SLURMD_NODENAME")
_JOBS = (
    ("SLURM_JOB_ID", "Slurm"),
    ("PBS_JOBID", "PBS"),
    ("LSB_JOBID", "LSF"),
    ("FLUX_JOB_ID", "Flux"),
    ("COBALT_JOBID", "Cobalt"),
    ("JOB_ID", "Grid Engine"),
    ("TORCHELASTIC_RUN_ID", "torchrun"),
)
_RANKS = (
    ("SLURM_PROCID", "Slurm"),
    ("OMPI_COMM_WORLD_RANK", "Open MPI"),
    ("PMIX_RANK", "PMIx"),
    ("PMI_RANK", "MPI"),
    ("FLUX_TASK_RANK", "Flux"),
    ("JSM_NAMESPACE_RANK", "LSF"),
    ("RANK", "torchrun"),
    ("JOB_COMPLETION_INDEX", "Kubernetes"),
)
NO_JOB = "none"
_LONGEST = 100
_OUTSIDE = re.compile(r"[^A-Za-z0-9._-]")
_PATTERN = re.compile(r"%(.?)", re.DOTALL)


class _Section(msgspec.Struct):
    boot_id: str | None = None


class _Check(msgspec.Struct):
    fleet: _Section | None = None


def apart(path: Path, boot_id: str | None) -> Path:
    """The path, or "g7~2.json.gz" beside "g7.json.gz" where that is another machine's.

    `boot_id`: this machine's, as its own file has it; where it is unknown, nothing is proven.
    """
    if boot_id is None:
        return path
    up_since = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    stem, dot, suffixes = path.name.partition(".json")
    if not dot:
        stem, suffixes = path.stem, path.suffix
    for number in range(1, _MOST_NAMESAKES + 1):
        place = path if number == 1 else path.with_name(f"{stem}~{number}{dot}{suffixes}")
        if not _other_machine(place, boot_id, up_since):
            return place
    return path


def _other_machine(path: Path, boot_id: str, up_since: float) -> bool:
    """Whether a machine of another boot wrote this file while this machine was up."""
    try:
        status = path.lstat()
        age = time.time() - status.st_mtime
        if age > SAME_RUN_SECONDS or status.st_mtime <= up_since or status.st_size > _MOST_BYTES:
            return False
        with (gzip.open if path.name.endswith(".gz") else open)(path, "rb") as file:
            found = msgspec.json.decode(file.read(_MOST_BYTES), type=_Check).fleet
    except (OSError, EOFError, ValueError, zlib.error):
        return False
    return found is not None and found.boot_id not in (None, boot_id)


def target(pattern: str, origin: NodeOrigin, boot_id: str | None = None) -> Path:
    """The path of the file; with %n never that of another machine (`boot_id`: this one's).

    Raises Exit for a pattern that names none.
    """
    path = Path(file_name(pattern, origin))
    # Not of pathlib, which fails where this user may not look.
    if not path.name or os.path.isdir(path):
        raise Exit(f"-o {clean(pattern, 200)}: that is a folder; add %n.json.gz", 64)
    return apart(path, boot_id) if "%n" in pattern else path


def write(path: Path, document: str) -> None:
    """Write the document, packed where the name ends in .gz; raises Exit where that fails.

    The folder is made where it is missing, the folder above it never: a share that is not mounted
    would otherwise become a folder of this node.
    """
    text = harmless(document).encode()
    # Without name and time equal answers are equal files.
    data = gzip.compress(text, mtime=0) if path.name.endswith(".gz") else text
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(exist_ok=True)
        write_whole(path, data, shared=True, durable=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Exit(f"-o {clean(path, 200)}: not written: {why}", code_of(error)) from error


def packed(document: dict[str, Any] | msgspec.Struct, path: Path) -> str:
    """The document as text: on one line where it is packed, else indented for people."""
    if path.name.endswith(".gz"):
        return harmless(msgspec.json.encode(document).decode(errors="replace")) + "\n"
    return json_text(document) + "\n"


def origin(
    environment: Mapping[str, str] | None = None, host_name: str | None = None
) -> NodeOrigin:
    """The node, the job and the rank of this process.

    The name is $GPUTOP_NODE, else $SLURMD_NODENAME, else the host name; up to its first dot.
    """
    values = os.environ if environment is None else environment
    said = next((values[name] for name in _NODES if values.get(name)), None)
    full = said or (socket.gethostname() if host_name is None else host_name)
    job = next(((values[name], engine) for name, engine in _JOBS if values.get(name)), None)
    rank = next(
        ((values[name], engine) for name, engine in _RANKS if values.get(name, "").isdecimal()),
        None,
    )
    return NodeOrigin(
        named=bool(values.get(NAMED)),
        host=plain(full.split(".")[0]) or "unknown",
        job=None if job is None else plain(job[0]) or None,
        engine=job[1] if job is not None else rank[1] if rank is not None else None,
        rank=None if rank is None or len(rank[0]) > 9 else int(rank[0]),
    )


def file_name(pattern: str, of: NodeOrigin) -> str:
    """Put the names into a path: %n the node, %j the job ("none" outside of one), %% a percent.

    A name cannot lead out of its folder: what is no letter, digit, ".", "-" or "_" becomes "_", and
    so does a leading dot. Raises Exit for another letter behind a percent.
    """
    known: dict[str, Callable[[], str]] = {
        "n": lambda: plain(of.host),
        "j": lambda: plain(of.job or NO_JOB),
        "%": lambda: "%",
    }

    def put(found: re.Match[str]) -> str:
        if found[1] not in known:
            text = clean(found[0], 10)
            raise Exit(f"-o: {text!r}: there are %n (node), %j (job) and %%", USAGE)
        return known[found[1]]()

    return _PATTERN.sub(put, pattern)


def plain(name: str) -> str:
    """A name with which no file can lie outside its folder."""
    safe = _OUTSIDE.sub("_", name.strip())[:_LONGEST]
    return re.sub(r"^[.-]+", lambda found: "_" * len(found[0]), safe)
