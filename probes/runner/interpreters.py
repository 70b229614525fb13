"""Finds a Python that has torch, without importing torch."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from ..protocol.errors import WorkerError
from ..protocol.plaintext import one_line

_LOOK_SECONDS = 10.0
_MOST_BYTES = 1 << 16
"""Limit for the answer, a few hundred bytes; a start-up file may print before it."""
_NO_ANSWER = {
    "late": f"gave no answer in {_LOOK_SECONDS:.0f} s",
    "too much": "is no Python that answers",
    "cancelled": "was not asked to the end",
}
_MOST_ON_PATH = 8

# The script for a candidate. Finding a package's spec does not import it; torch/version.py names
# the build. The alarm ends the process even if its parent is gone.
_QUESTION = r"""
import signal
signal.alarm(12)
import importlib.util, json, os, re, sys
answer = {"python": "%d.%d.%d" % sys.version_info[:3], "executable": sys.executable,
          "prefix": sys.prefix}
try:
    spec = importlib.util.find_spec("torch")
    origin = spec.origin if spec else None
except (ImportError, ValueError):
    origin = None
for path in sys.path:
    folder = os.path.join(path, "nvidia", "nccl", "lib")
    if os.path.isabs(path) and os.path.exists(os.path.join(folder, "libnccl.so.2")):
        answer["nccl_folder"] = folder
        break
if origin:
    answer["torch"] = ""
    answer["torch_folder"] = os.path.dirname(os.path.abspath(origin))
    try:
        with open(os.path.join(os.path.dirname(origin), "version.py")) as file:
            text = file.read(20000)
        for key, name in (("torch", "__version__"), ("cuda", "cuda"), ("hip", "hip")):
            found = re.search(r"^%s\b[^=\n]*=\s*['\"]([^'\"]+)['\"]" % name, text, re.M)
            answer[key] = found.group(1) if found else None
    except OSError:
        pass
os.write(1, (json.dumps(answer) + "\n").encode())
"""

# Runs a program for its output, with limits of time and size and a cancel.
_LOOK_EVERY_SECONDS = 0.05
_REAP_SECONDS = 0.5
_CHUNK_BYTES = 1 << 14


class NoAnswer(WorkerError):  # noqa: N818  (an outcome, not an error)
    """There is no answer: `reason` is "cancelled", "late" or "too much"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def ask(
    command: Sequence[str],
    seconds: float,
    most_bytes: int,
    cancel: Optional[threading.Event] = None,
) -> bytes:
    """The stdout of a program; raises NoAnswer or OSError.

    The program gets its own process group, which is always killed at the end, so that none of its
    children stays. `cancel` is checked twenty times a second.
    """
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    try:
        return _read(process, time.monotonic() + seconds, most_bytes, cancel)
    finally:
        # Not reaped yet, so the number of the group is still its own.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()  # type: ignore[union-attr]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_REAP_SECONDS)


def _read(
    process: "subprocess.Popen[bytes]",
    give_up: float,
    most_bytes: int,
    cancel: Optional[threading.Event],
) -> bytes:
    pipe = process.stdout.fileno()  # type: ignore[union-attr]
    said = bytearray()
    with selectors.DefaultSelector() as ready:
        ready.register(pipe, selectors.EVENT_READ)
        while True:
            if cancel is not None and cancel.is_set():
                raise NoAnswer("cancelled")
            if time.monotonic() >= give_up:
                raise NoAnswer("late")
            # Checked before the pipe: everything that an ended program wrote is then in it.
            ended = _has_ended(process.pid)
            if ready.select(0.0 if ended else _LOOK_EVERY_SECONDS):
                chunk = os.read(pipe, _CHUNK_BYTES)
                if not chunk:
                    return bytes(said)
                said += chunk
                if len(said) > most_bytes:
                    raise NoAnswer("too much")
            elif ended:
                return bytes(said)  # a child of the program holds the pipe


def _has_ended(pid: int) -> bool:
    """Whether the program has ended, without reaping it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


@dataclass(frozen=True)
class Interpreter:
    """A Python, and whether a probe can run under it."""

    path: str
    """The path as it was found, since the link selects a virtual environment."""
    how_found: str
    """Where it was found: --python, this Python, VIRTUAL_ENV, CONDA_PREFIX, PATH."""
    python_version: Optional[str] = None
    torch_version: Optional[str] = None
    cuda: Optional[str] = None
    hip: Optional[str] = None
    torch_folder: Optional[str] = None
    nccl_folder: Optional[str] = None
    """With the library of NVIDIA's package of NCCL."""
    library: str = ""
    """The NCCL or RCCL that a probe loads in it by itself, in words."""
    identity: Optional[tuple[str, ...]] = None
    """Real path, prefix and torch, equal for one Python under several names."""
    why_not: Optional[str] = None
    """Why it cannot run a probe; None if it can."""

    @property
    def has_gpu_build(self) -> bool:
        """Whether its torch was built for CUDA or HIP."""
        return self.why_not is None and (self.cuda or self.hip) is not None

    def sentence(self) -> str:
        """One line about it."""
        where = f"{one_line(self.path)} ({self.how_found})"
        if self.why_not is not None:
            return f"{where}: {self.why_not}"
        if self.torch_version is None:
            means = self.library or "by the driver alone"
            return f"{where}: Python {self.python_version}, {means}"
        build = f"CUDA {self.cuda}" if self.cuda else f"HIP {self.hip}" if self.hip else "CPU only"
        return f"{where}: Python {self.python_version}, torch {self.torch_version}, {build}"


@dataclass(frozen=True)
class InterpreterChoice:
    """The chosen interpreter, if any, and all that were tried, in order."""

    chosen: Optional[Interpreter]
    looked_at: tuple[Interpreter, ...]

    def sentences(self) -> tuple[str, ...]:
        """Sentences on the choice: the chosen one, then why those before it were not chosen."""
        if self.chosen is None:
            lines = ["No Python with torch was found; --python names one."]
        else:
            lines = [f"Probes run under {self.chosen.sentence()}"]
        for other in self.looked_at:
            if other is not self.chosen:
                lines.append("Not under " + other.sentence())
        return tuple(lines)


def own_interpreter(library: str = "") -> InterpreterChoice:
    """The Python at work here, for probes that need no torch; `library`: what it loads instead."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    own = Interpreter(sys.executable, "this Python", version, library=library)
    return InterpreterChoice(own, ())


def find_interpreter(
    explicit: Optional[str] = None, cancel: Optional[threading.Event] = None
) -> InterpreterChoice:
    """Use `explicit` if given, else the first Python with a GPU build of torch, or any torch.

    Setting `cancel` ends the search within a tenth of a second with the result so far.
    """
    looked_at: list[Interpreter] = []
    seen: set[object] = set()
    for path, how_found in [(explicit, "--python")] if explicit else candidates():
        if path in seen:
            continue
        if cancel is not None and cancel.is_set():
            break
        found = inspect(path, how_found, cancel)
        seen.add(path)
        if found.identity is not None:
            if found.identity in seen:
                continue
            seen.add(found.identity)
        looked_at.append(found)
        if found.has_gpu_build:
            break
    return choice_of(looked_at)


def choice_of(looked_at: Sequence[Interpreter]) -> InterpreterChoice:
    """The first with a GPU build of torch, or any torch."""
    usable = [i for i in looked_at if i.why_not is None]
    chosen = next((i for i in usable if i.has_gpu_build), usable[0] if usable else None)
    return InterpreterChoice(chosen, tuple(looked_at))


def candidates() -> Iterator[tuple[str, str]]:
    """Paths to try, with their origin: this Python, the active environment, PATH."""
    if sys.executable:
        yield sys.executable, "this Python"
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if os.environ.get(variable):
            yield str(Path(os.environ[variable]) / "bin" / "python"), variable
    left = _MOST_ON_PATH
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for name in ("python3", "python"):
            path = os.path.join(folder, name)
            if os.path.isabs(path) and os.access(path, os.X_OK) and left > 0:
                left -= 1
                yield path, "PATH"


def inspect(path: str, how_found: str, cancel: Optional[threading.Event] = None) -> Interpreter:
    """Ask one candidate about its torch; never raises, takes at most ten seconds.

    The candidate and its children are one process group, which is killed afterwards.
    """
    path = os.path.abspath(path)
    if not os.access(path, os.X_OK) or os.path.isdir(path):
        return Interpreter(path, how_found, why_not="is not a program that can be run")
    try:
        said = ask([path, "-c", _QUESTION], _LOOK_SECONDS, _MOST_BYTES, cancel)
    except NoAnswer as none:
        return Interpreter(path, how_found, why_not=_NO_ANSWER[none.reason])
    except OSError as error:
        return Interpreter(path, how_found, why_not=f"cannot be run: {error.strerror}")
    try:
        answer = json.loads(said.strip().splitlines()[-1])
        python = str(answer["python"])
        real = os.path.realpath(str(answer["executable"] or path))
        identity = (real, str(answer["prefix"]), str(answer.get("torch")))
    except (ValueError, IndexError, KeyError, TypeError, RecursionError):
        return Interpreter(path, how_found, why_not="is no Python that answers")
    torch = answer.get("torch")
    version = None if torch is None else one_line(str(torch), 40) or "of unknown version"
    return Interpreter(
        path=path,
        how_found=how_found,
        python_version=one_line(python, 20),
        torch_version=version,
        torch_folder=_path(answer.get("torch_folder")),
        nccl_folder=_path(answer.get("nccl_folder")),
        cuda=_text(answer.get("cuda")),
        hip=_text(answer.get("hip")),
        identity=identity,
        why_not=_why_not(python, version),
    )


def _text(value: object) -> Optional[str]:
    return one_line(str(value), 40) if value else None


def _path(value: object) -> Optional[str]:
    return value if isinstance(value, str) and os.path.isabs(value) else None


def _why_not(python: str, torch: Optional[str]) -> Optional[str]:
    numbers = [int(part) for part in python.split(".")[:2] if part.isdigit()]
    if numbers < [3, 9]:
        return f"Python {one_line(python, 20)} is older than 3.9"
    if torch is None:
        return "has no torch"
    parts = torch.split("+")[0].split(".")[:2]
    if len(parts) == 2 and all(p.isdigit() for p in parts) and [int(p) for p in parts] < [2, 1]:
        return f"torch {torch} is older than 2.1"
    return None
