"""The variables with which a running program was started, read from /proc.

Only listed names leave this module. What the program changed later (os.environ, putenv, a
plugin) is not visible: /proc keeps the environment of the start.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from pathlib import Path

import msgspec

from ...model.errors import GputopError
from ...model.snapshot import EnvironmentVariable
from ...model.variable_names import listed
from ...model.versions import Library, LibraryName, RunningLibrary
from ...sources.files.tree import FolderTree
from ...sources.linux.configuration_files import DEFAULT, ConfFile, merged, paths, read_file
from ...sources.linux.nccl_files import version_inside

PROC = Path("/proc")
LIMIT_BYTES = 4 * 2**20
LIMIT_MAPS = 32 * 2**20
LIMIT_VARIABLES = 65_536
LIMIT_CHARACTERS = 512
LIBRARY = re.compile(r"/lib(nccl|rccl)\.so[.\d]*$")
VERSION = re.compile(r"\.so\.(\d+\.\d+\.\d+)$")
TORCH = re.compile(r"/libtorch(?:_cuda|_hip|_cpu)?\.so$")

AT_START = (
    "this is the environment at the program's start; what it changed later (os.environ, a plugin) "
    "is not visible"
)


class ProcessError(GputopError):
    """Raised when a process cannot be read; the text says why in one sentence."""

    def __init__(self, text: str, *, missing: bool) -> None:
        super().__init__(text)
        self.missing = missing
        """Whether there is no such process (rather than no permission)."""


class ProcessFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The variables and libraries of one process."""

    pid: int
    command: str | None = None
    """Short name that the kernel keeps."""
    user: str | None = None
    environment: tuple[EnvironmentVariable, ...] = ()
    library: str | None = None
    """Path of the loaded NCCL or RCCL; None when there is none or it cannot be read."""
    library_name: LibraryName | None = None
    library_version: str | None = None
    """The version in the file's name, else in its own text; None where neither says it."""
    torch: str | None = None
    """Path of the loaded torch library."""
    notes: tuple[str, ...] = ()
    """What could not be read and what to keep in mind, a sentence each."""

    @property
    def loaded(self) -> RunningLibrary | None:
        """The library whose rules hold; None where it does not say its version."""
        if not (self.library and self.library_version):
            return None
        return RunningLibrary(
            path=self.library, version=self.library_version, programs=(f"process {self.pid}",)
        )


def read(pid: int, proc: Path = PROC) -> ProcessFlags:
    """Read one process. Raises ProcessError when its environment cannot be read."""
    folder = proc / str(pid)
    environment = _environment(pid, folder)
    notes = [AT_START]
    loaded, torch = _loaded(folder, notes)
    found = LIBRARY.search(loaded) if loaded else None
    version = _version(folder, loaded) if loaded else None
    library = Library(
        name=LibraryName(found[1] if found else "nccl"), version=version or DEFAULT.version
    )
    home = environment.get("HOME")
    files = _files(folder, environment, home, library, notes)
    values, odd = merged({n: v for n, v in environment.items() if listed(n)}, files)
    return ProcessFlags(
        pid=pid,
        command=_first_line(folder / "comm"),
        user=_owner(folder),
        environment=tuple(
            EnvironmentVariable(name=name, value=_storable(value), origin=_storable(origin))
            for name, (value, origin) in sorted(values.items())
        ),
        library=loaded,
        library_name=library.name if found else None,
        library_version=version,
        torch=torch,
        notes=(*notes, *(_storable(note) for note in odd)),
    )


def _environment(pid: int, folder: Path) -> dict[str, str]:
    try:
        with (folder / "environ").open("rb") as file:
            data = file.read(LIMIT_BYTES)
    except FileNotFoundError:
        raise ProcessError(f"no process {pid} can be seen here", missing=True) from None
    except ProcessLookupError:
        raise ProcessError(f"process {pid} has ended", missing=True) from None
    except PermissionError:
        owner = _owner(folder)
        whose = f" (it belongs to {owner})" if owner else ""
        raise ProcessError(
            f"no permission to read the environment of process {pid}{whose}",
            missing=False,
        ) from None
    except OSError as error:
        raise ProcessError(f"process {pid}: {error.strerror}", missing=False) from None
    found: dict[str, str] = {}
    entries = data.split(b"\0")
    if len(data) >= LIMIT_BYTES or len(entries) > LIMIT_VARIABLES:
        raise ProcessError(f"process {pid} has more variables than gputop reads", missing=False)
    for entry in entries:
        name, sign, value = os.fsdecode(entry).partition("=")
        if sign and name:
            found.setdefault(name, value)
    return found


def _files(
    folder: Path,
    environment: dict[str, str],
    home: str | None,
    library: Library,
    notes: list[str],
) -> tuple[ConfFile, ...]:
    """Read the configuration files that the process sees below its own root, as in a container."""
    found: list[ConfFile] = []
    root = folder / "root"
    if not os.access(root / ".", os.R_OK | os.X_OK):
        notes.append("its root directory is not readable, so its nccl.conf files are not known")
        return ()
    other = not _same_root(root)
    for path in paths(environment, home, library):
        if not path.startswith("/"):
            notes.append(f"{path} is relative to the program's working directory; it is not read")
            continue
        if other and _leaves(root, path):
            notes.append(f"{path} is a link in its root directory; it is not followed")
            continue
        file = read_file(path, root=str(root), library=library)
        if file is None:
            continue
        if file.error:
            notes.append(f"{file.path} could not be read: {file.error}")
        found.append(file)
    return tuple(found)


def _same_root(root: Path) -> bool:
    """Whether the process sees the file system of this process."""
    try:
        return os.path.samestat(root.stat(), os.stat("/"))
    except OSError:
        return False


def _leaves(root: Path, path: str) -> bool:
    """Whether the path has a link: an absolute link leads out of a container to other files."""
    here = root
    for part in Path(path).parts[1:]:
        here = here / part
        try:
            if stat.S_ISLNK(os.lstat(here).st_mode):
                return True
        except OSError:
            return False
    return False


def _loaded(folder: Path, notes: list[str]) -> tuple[str | None, str | None]:
    """Find the paths of NCCL or RCCL and of the torch library in memory."""
    library = torch = None
    try:
        with (folder / "maps").open("rb") as file:
            lines = file.read(LIMIT_MAPS).splitlines()
    except OSError:
        notes.append("which NCCL it has loaded is not readable")
        return None, None
    for line in lines:
        parts = line.split(maxsplit=5)
        if len(parts) < 6:
            continue
        path = _storable(os.fsdecode(parts[5]).removesuffix(" (deleted)"))
        if library is None and LIBRARY.search(path):
            library = path
        elif torch is None and TORCH.search(path):
            torch = path
    if library is None:
        notes.append(
            "no NCCL library of its own is in its memory: not loaded yet, or linked into another"
        )
    return library, torch


def _version(folder: Path, library: str) -> str | None:
    named = VERSION.search(library)
    if named is not None:
        return named[1]
    return version_inside(FolderTree(folder / "root"), library.lstrip("/"))


def _owner(folder: Path) -> str | None:
    try:
        uid = folder.stat().st_uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _first_line(path: Path) -> str | None:
    try:
        return _storable(path.read_text(errors="replace").strip()) or None
    except OSError:
        return None


def _storable(text: str) -> str:
    return text[:LIMIT_CHARACTERS].encode("utf-8", "replace").decode()
