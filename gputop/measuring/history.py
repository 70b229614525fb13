"""The history of runs: one file for each node, one JSON object on each line, bounded in size.

Only the user can read the files. A digest of the machine id and the GPUs names the node; no host
name, serial number or UUID is stored. Unreadable lines are skipped, and a folder that cannot be
written is not an error.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import platformdirs

from gputop import __version__
from gputop.measuring.expected import Expecting
from gputop.probes.protocol.status import DeviceKind, ProbeLevel, Status
from gputop.topology.model.machine import Machine
from gputop.topology.model.snapshot import DataVerdict, NodeSnapshot

if TYPE_CHECKING:
    from gputop.measuring.state import ProbeRun
    from gputop.topology.model.snapshot import Measurement

SCHEMA = 1
MOST_RUNS = 200
MOST_BYTES = 20_000_000
LONGEST_LINE = 4_000_000
MOST_FIGURES = 20_000
_KEY_DIGITS = 24
LOCK_SECONDS = 2.0
"""How long to wait for another writer."""
_LOCK_AGAIN_SECONDS = 0.02
_MOST_COPIED = 1 << 50
"""gputop never measures larger copies; a line with one is not its own."""
NO_HOME = "this user has no home folder"
HELD = "another process holds the history and does not let go"


class SavedFigure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One figure of a kept run: a Measurement without samples and sentences."""

    quantity: str
    src: str | None = None
    dst: str | None = None
    variant: str | None = None
    bytes_per_copy: Annotated[int, msgspec.Meta(ge=0, le=_MOST_COPIED)] | None = None
    value: float | None = None
    unit: str | None = None
    method: str | None = None
    verdict: DataVerdict | None = None
    judgement: str | None = None
    """"healthy", "low", "high", "no reference"; None where nothing was judged."""


class SavedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One kept run of a probe."""

    schema: int = SCHEMA
    probe: str
    taken_at: float
    """Seconds since the epoch."""
    level: ProbeLevel = ProbeLevel.NORMAL
    gputop: str = ""
    versions: dict[str, str] = {}
    """Versions of driver, CUDA or HIP, torch, NCCL and Python."""
    environment: dict[str, str] = {}
    """Allowed variables from the environment of the run."""
    gpus: tuple[str, ...] = ()
    """PCI addresses that took part."""
    forced: bool = False
    figures: tuple[SavedFigure, ...] = ()


def folder() -> Path:
    """The folder of the history; OSError for a user without a home folder."""
    try:
        found = Path(platformdirs.user_state_path("gputop")) / "history"
    except RuntimeError as error:
        raise OSError(NO_HOME) from error
    if not found.is_absolute():
        # Older platformdirs keep a literal "~", which would be below the current folder.
        raise OSError(NO_HOME)
    return found


def node_key(machine: Machine) -> str:
    """A digest of machine id and GPUs; it changes when a GPU is replaced."""
    devices = sorted(f"{gpu.address} {gpu.uuid or ''} {gpu.name or ''}" for gpu in machine.gpus)
    text = "\n".join((_machine_id(), *devices))
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS]


def _machine_id() -> str:
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with contextlib.suppress(OSError):
            found = Path(path).read_text(encoding="utf-8", errors="replace").strip()
            if found:
                return found[:100]
    return ""


def keep_result(
    snapshot: NodeSnapshot | None,
    run: ProbeRun,
    judged: Sequence[str] | None = None,
) -> str:
    """Keep a finished run on real GPUs; returns "", or a note when that fails.

    What the self-test ran and what a demo simulated is never kept.

    `judged`: a verdict word for each measurement; None judges them here.
    """
    request = run.request
    if snapshot is None or request.selftest or run.status != Status.FINISHED:
        return ""
    figures = run.measurements
    if not figures or any(figure.device_kind != DeviceKind.GPU for figure in figures):
        return ""
    words = judged if judged is not None else _judge(snapshot, figures)
    saved = SavedRun(
        probe=request.probe,
        taken_at=run.taken_at or time.time(),
        level=request.level,
        gputop=__version__,
        versions=dict(figures[0].versions),
        environment={entry.name: entry.value for entry in snapshot.environment},
        gpus=request.addresses,
        forced=request.force,
        figures=tuple(
            SavedFigure(
                quantity=figure.quantity,
                src=figure.src,
                dst=figure.dst,
                variant=figure.variant,
                bytes_per_copy=figure.bytes_per_copy,
                value=figure.value,
                unit=figure.unit,
                method=figure.method,
                verdict=figure.verdict,
                judgement=word or None,
            )
            for figure, word in zip(figures[:MOST_FIGURES], words, strict=False)
        ),
    )
    return keep(saved, node_key(snapshot.machine))


def _judge(snapshot: NodeSnapshot, figures: Sequence[Measurement]) -> list[str]:
    return [judgement.verdict for judgement in Expecting(snapshot, {}).of(figures).judgements]


def keep(run: SavedRun, key: str, where: Path | None = None) -> str:
    """Append a run and drop the oldest; returns "", or a note when that fails."""
    try:
        line = msgspec.json.encode(run)
        if len(line) > LONGEST_LINE:
            raise OSError(f"it takes {len(line)} bytes, more than {LONGEST_LINE}")
        place = where or folder()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(place / f".{key}.lock"):
            path = place / f"{key}.jsonl"
            kept = list(_lines(path))
            kept.append(line)
            _write(path, _bounded(kept))
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return f"the run is not kept in the history: {why or error}"
    return ""


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a node's file; OSError when another writer does not let go.

    On a file system without locks two writers may overwrite each other.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    give_up = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up:
                raise OSError(HELD) from None
            time.sleep(_LOCK_AGAIN_SECONDS)
        except OSError:
            return
        else:
            return


def _bounded(lines: list[bytes]) -> list[bytes]:
    """The newest lines, as many as the bounds allow."""
    kept: list[bytes] = []
    size = 0
    for line in reversed(lines[-MOST_RUNS:]):
        size += len(line) + 1
        if size > MOST_BYTES:
            break
        kept.append(line)
    return kept[::-1]


def _write(path: Path, lines: Iterable[bytes]) -> None:
    """Replace the file in one step; mkstemp makes it mode 0600."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.stem}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for line in lines:
                file.write(line + b"\n")
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines that hold a run; none where there is no regular file."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        # gputop never writes more than the bound, so the rest is not its own.
        data = file.read(2 * MOST_BYTES)
    for line in data.split(b"\n"):
        if line.strip() and len(line) <= LONGEST_LINE and _run(line) is not None:
            yield line


def _run(line: bytes) -> SavedRun | None:
    try:
        run = msgspec.json.decode(line, type=SavedRun)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None
    return run if run.schema == SCHEMA else None


def runs(key: str, where: Path | None = None) -> tuple[SavedRun, ...]:
    """The kept runs of a node, oldest first; empty where the file cannot be read.

    They keep the order of the file, because the clock may have been wrong for some runs.
    """
    found: list[SavedRun] = []
    with contextlib.suppress(OSError):
        for line in _lines((where or folder()) / f"{key}.jsonl"):
            run = _run(line)
            if run is not None:
                found.append(run)
    return tuple(found)
