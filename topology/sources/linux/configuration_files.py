"""NCCL's and RCCL's configuration files, read line by line as the library reads them.

misc/param.cc: NCCL_CONF_FILE (since 2.23), else .nccl.conf in the home directory, then
/etc/nccl.conf. Each line is put into the environment unless the name is there already, so the
environment beats the files, an earlier file a later one, and the first line in a file the rest.
Blanks, quotes and "export" are not understood: they become part of the name or the value.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Mapping
from typing import NamedTuple

from ...model.variable_names import listed
from ...model.versions import Library, LibraryName, numbers
from ...model.waiting import read_now

LIMIT_BYTES = 256 * 1024
LIMIT_CHARACTERS = 1023
"""Lengths at which the library cuts a name and a value."""
LIMIT_NOTES = 20
DEFAULT = Library(name=LibraryName.NCCL, version="2.28.9")


class ConfFile(NamedTuple):
    """The settings of one file."""

    path: str
    values: tuple[tuple[str, str], ...] = ()
    """Names and values of the variables that may be shown; the first value of each name."""
    notes: tuple[str, ...] = ()
    """Lines that look like a setting and that the library ignores, a sentence each."""
    error: str | None = None
    """Why the file could not be read though it exists."""


def paths(environment: Mapping[str, str], home: str | None, library: Library) -> tuple[str, ...]:
    """The files that the library reads, in order of precedence."""
    stem = "rccl" if library.name == "rccl" else "nccl"
    named = environment.get("NCCL_CONF_FILE", "")
    # RCCL 2.21.5 has no NCCL_CONF_FILE; its documents name it for later releases.
    first = [named] if named and numbers(library.version) >= (2, 23) else []
    if not first and home:
        first = [f"{home}/.{stem}.conf"]
    return (*first, f"/etc/{stem}.conf")


def read_file(path: str, *, root: str = "", library: Library = DEFAULT) -> ConfFile | None:
    """Read one file; None when there is none.

    `root` is put in front to open it, not to name it. Only a plain file is opened: a pipe would
    wait for ever.
    """
    try:
        handle = os.open(root + path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return ConfFile(path, error=error.strerror or "not readable")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return ConfFile(path, error="not a regular file")
    with os.fdopen(handle, "rb") as file:
        try:
            data = read_now(file, LIMIT_BYTES + 1)
        except OSError as error:
            return ConfFile(path, error=error.strerror or "not readable")
    if len(data) > LIMIT_BYTES:
        return ConfFile(path, error=f"larger than {LIMIT_BYTES // 1024} KiB")
    return parse(path, data.decode("utf-8", "replace"), library)


def parse(path: str, text: str, library: Library = DEFAULT) -> ConfFile:
    """Parse the text of one file as this version of the library does."""
    version = numbers(library.version)
    strips_return = version >= (2, 30)
    values: dict[str, str] = {}
    notes: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        # A # in the first column starts a comment since 2.26; before, it began a name nobody reads.
        if line.startswith("#"):
            continue
        line = line.split("\0")[0]
        if strips_return:
            line = line.removesuffix("\r")
        name, sign, value = line.partition("=")
        if not sign or not name:
            continue
        name, value = name[:LIMIT_CHARACTERS], value[:LIMIT_CHARACTERS]
        note = _note(name, value, f"{path}:{number}")
        if note and len(notes) < LIMIT_NOTES:
            notes.append(note)
        if listed(name) and name == name.strip():
            values.setdefault(name, value)
    return ConfFile(path, tuple(values.items()), tuple(notes))


def _note(name: str, value: str, where: str) -> str | None:
    meant = name.strip().removeprefix("export").strip()
    if meant != name:
        if not listed(meant):
            return None
        return f"{where}: {meant} is not set, because blanks and export count as part of the name"
    if not listed(name):
        return None
    if value[:1] in ("'", '"'):
        return f"{where}: the quotes are part of the value of {name}"
    if value.endswith("\r"):
        return f"{where}: the line ends as on Windows, which is part of the value of {name}"
    if value != value.strip():
        return f"{where}: the blanks around it are part of the value of {name}"
    return None


def merged(
    environment: Mapping[str, str], files: tuple[ConfFile, ...]
) -> tuple[dict[str, tuple[str, str]], tuple[str, ...]]:
    """The values in effect, name -> (value, origin), and sentences on what is hidden or odd."""
    found = {name: (value, "environment") for name, value in environment.items()}
    notes: list[str] = []
    for file in files:
        for name, value in file.values:
            if name not in found:
                found[name] = value, file.path
            elif found[name][0] != value:
                first = found[name][1]
                who = "the environment" if first == "environment" else first
                notes.append(f"{name} in {file.path} has no effect: {who} sets it already")
        notes.extend(file.notes)
    return found, tuple(notes)


def home_of(library: Library, environment: Mapping[str, str], uid: int) -> str | None:
    """Where the library looks for the user's file: $HOME since 2.30, before that the accounts."""
    if library.name == "nccl" and numbers(library.version) >= (2, 30):
        return environment.get("HOME")
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return None
