"""The variables that change what NCCL, RCCL or CUDA does on this machine, and where they are set.

They are those of this process and of the configuration files that NCCL or RCCL would read.

The raw answer: {"variables": {name: value}, "files": [{"path", "values": [[name, value]],
"notes": [text], "error": text or null}], "unread": {name: why} for variables that name a file
which cannot be read}. It holds listed names only (`flags.names`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from ...model.part import PartialNode, Raw
from ...model.snapshot import EnvironmentVariable, Problem, ProblemKind
from ...model.source import Source
from ...model.variable_names import listed
from ...model.versions import Library, LibraryName
from .configuration_files import ConfFile, home_of, merged, paths, read_file

NAME_FILES = ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE")
"""Variables whose value names a file that the library reads."""
LIMIT_CHARACTERS = 512
LIMIT_FILES = 8
AMD, NVIDIA = "/dev/kfd", "/dev/nvidiactl"
NCCL = Library(name=LibraryName.NCCL, version="2.28.9")
RCCL = Library(name=LibraryName.RCCL, version="2.21.5")


def read(environment: Mapping[str, str] | None = None, *, root: str = "") -> Raw:
    """The listed variables of this process (or of the mapping given) and of the files."""
    values = os.environ if environment is None else environment
    found: list[Raw] = []
    for library in _libraries(root):
        home = home_of(library, values, os.getuid())
        for path in paths(values, home, library):
            file = read_file(path, root=root, library=library)
            if file is not None:
                found.append(file._asdict())
    return {
        "variables": {name: value for name, value in sorted(values.items()) if listed(name)},
        "files": found[:LIMIT_FILES],
        "unread": _unread(values, found[:LIMIT_FILES], root),
    }


def _unread(values: Mapping[str, str], files: list[Raw], root: str) -> dict[str, Raw]:
    """Variables in effect that name a file which cannot be opened, and why."""
    named = {name: value for file in reversed(files) for name, value in file["values"]}
    named.update(values)
    found: dict[str, Raw] = {}
    for name in NAME_FILES:
        path = named.get(name)
        if path:
            why = _cannot_open(root + path)
            if why:
                found[name] = f"{path}: {why}"
    return found


def _cannot_open(path: str) -> str:
    try:
        # A pipe must not stop us; a relative path counts from where the job starts, as from here.
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY))
    except OSError as error:
        return error.strerror or type(error).__name__
    except ValueError:
        return "not a path"
    return ""


def _problem(text: str, kind: ProblemKind) -> Problem:
    return Problem(source="environment", text=_storable(text), kind=kind)


def _unusable(file: ConfFile) -> Problem:
    denied = file.error == "Permission denied"
    text = f"{file.path}: {file.error}; what it sets for NCCL is not known"
    return _problem(text, ProblemKind.DENIED if denied else ProblemKind.FAILED)


def parse(raw: Raw) -> PartialNode:
    """Each variable with its origin, "environment" or the file; values cut at 512 characters."""
    if not isinstance(raw, dict):
        return PartialNode()
    variables = raw.get("variables", raw)
    files = tuple(_file(entry) for entry in raw.get("files", ()) if isinstance(entry, dict))
    environment = {
        str(name): str(value)
        for name, value in (variables.items() if isinstance(variables, dict) else ())
        if isinstance(name, str) and listed(name)
    }
    found, notes = merged(environment, files)
    unread = raw.get("unread")
    missing = unread.items() if isinstance(unread, dict) else ()
    return PartialNode(
        environment=tuple(
            EnvironmentVariable(name=name, value=_storable(value), origin=_storable(origin))
            for name, (value, origin) in sorted(found.items())
        ),
        problems=(
            *(_unusable(file) for file in files if file.error),
            *(
                _problem(f"{name}: {why}", ProblemKind.ABSENT)
                for name, why in missing
                if name in found and isinstance(why, str)
            ),
        ),
        assumptions=tuple(map(_storable, notes)),
    )


def _libraries(root: str) -> tuple[Library, ...]:
    """The library whose files are read: RCCL on a machine with only AMD GPUs, else NCCL."""
    amd, nvidia = (os.path.exists(root + node) for node in (AMD, NVIDIA))
    if amd and not nvidia:
        return (RCCL,)
    return (NCCL, RCCL) if amd else (NCCL,)


def _file(entry: dict[str, Any]) -> ConfFile:
    values = tuple(
        (str(pair[0]), str(pair[1]))
        for pair in entry.get("values", ())
        if isinstance(pair, (list, tuple)) and len(pair) == 2 and listed(str(pair[0]))
    )
    notes = tuple(str(note) for note in entry.get("notes", ()))
    error = entry.get("error")
    return ConfFile(str(entry.get("path")), values, notes, None if error is None else str(error))


def _storable(text: str) -> str:
    # Bytes that are no UTF-8 come as lone surrogates, which JSON cannot hold.
    return text[:LIMIT_CHARACTERS].encode("utf-8", "replace").decode()


def _reader() -> Callable[[], Raw]:
    return read


SOURCE = Source(
    id="environment", interval_seconds=60.0, deadline_seconds=1.0, reader=_reader, parse=parse
)
