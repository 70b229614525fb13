"""Documents of checks and of pairs without names, with the same stand-ins in all files of a fleet.

A stand-in is made from the name and a secret key (HMAC-SHA256). Who has the files and not the key
cannot find the name by trying names; who has the key can. Without a key nothing would be hidden:
names of hosts are short and can be guessed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import platformdirs

from gputop.exits import CANNOT_TELL, Exit
from gputop.terminal.writing import write_whole
from gputop.topology.model.redact import Redactor, learn, replaced
from gputop.topology.model.snapshot import EnvironmentVariable, NodeSnapshot

KEY = "GPUTOP_REDACT_KEY"
KEY_FILE = "redact.key"
_LONGEST_KEY = 4096


def redacted_document(
    answer: dict[str, Any], node: NodeSnapshot, host: str
) -> tuple[dict[str, Any], str]:
    """A document of this node and host without names, and the stand-in of the host.

    Raises Exit without a key.
    """
    redactor = Redactor(_key())
    document: dict[str, Any] = msgspec.to_builtins(answer)
    host = host and redactor.stand_in("host", host)
    learn(msgspec.to_builtins(node), redactor)
    fleet = document.pop("fleet", None)
    made: dict[str, Any] = replaced(document, redactor)
    if isinstance(made.get("node"), str):
        made["node"] = redactor.stand_in("host", document["node"])
    if isinstance(fleet, dict):
        environment = fleet.get("facts", {}).get("environment", {})
        job, machine, boot = fleet.get("job"), fleet.get("machine"), fleet.get("boot_id")
        fleet = replaced({**fleet, "job": None}, redactor)
        fleet["host"], fleet["redacted"] = host, True
        for name, value in (("job", job), ("machine", machine), ("boot_id", boot)):
            fleet[name] = None if value is None else redactor.stand_in("stand-in", value)
        if "environment" in fleet["facts"]:
            fleet["facts"]["environment"] = {
                name: _value(name, value, redactor) for name, value in environment.items()
            }
        made["fleet"] = fleet
    return made, host


def redactor_of(*nodes: NodeSnapshot | None) -> Redactor:
    """What gives every name of these nodes its stand-in. Raises Exit without a key."""
    redactor = Redactor(_key())
    for node in nodes:
        if node is not None:
            learn(msgspec.to_builtins(node), redactor)
    return redactor


def hidden(document: dict[str, Any], *nodes: NodeSnapshot | None) -> dict[str, Any]:
    """A document without the names of these nodes, nor what looks like a name. Raises Exit."""
    made: dict[str, Any] = replaced(document, redactor_of(*nodes))
    return made


class HostNames:
    """Stand-ins for the hosts of a pair, the same as in the files of checks."""

    def __init__(self) -> None:
        """Raises Exit without a key."""
        self._redactor = Redactor(_key())

    def of(self, host: str) -> str:
        """The stand-in of a host."""
        return self._redactor.stand_in("host", host)

    def hide(self, document: dict[str, Any], hosts: Sequence[str]) -> dict[str, Any]:
        """The document of a pair without these names, addresses and paths, and without its job."""
        job = document.get("job")
        known = {host: self.of(host) for host in hosts}
        made: dict[str, Any] = replaced(_renamed(document, known), self._redactor)
        if job is not None:
            made["job"] = self._redactor.stand_in("stand-in", job)
        return {**made, "redacted": True}


def _renamed(value: Any, known: Mapping[str, str]) -> Any:
    """The same with other names; short ones too, which stand as whole words alone."""
    if isinstance(value, dict):
        return {name: _renamed(member, known) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_renamed(member, known) for member in value]
    if not isinstance(value, str):
        return value
    if value in known:
        return known[value]
    for name, stand_in in known.items():
        if name in value:
            value = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", stand_in, value)
    return value


def _value(name: str, value: str, redactor: Redactor) -> str:
    """The value of a variable, as in a snapshot."""
    variable = EnvironmentVariable(name=name, value=value, origin="environment")
    return str(replaced(msgspec.to_builtins(variable), redactor)["value"])


def _key() -> bytes:
    """$GPUTOP_REDACT_KEY, else the key in the user's configuration folder, made at first use."""
    given = os.environ.get(KEY)
    if given:
        return given.encode(errors="surrogateescape")
    try:
        path = platformdirs.user_config_path("gputop") / KEY_FILE
        if not path.is_absolute():
            raise RuntimeError
        return _kept(path)
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or "there is no home"
        raise Exit(
            f"--redact: no key can be kept in the configuration folder ({why}); set {KEY}",
            CANNOT_TELL,
        ) from error


def _kept(path: Path) -> bytes:
    """The key in a file; of several nodes that make it at once, one wins and all read its key."""
    with suppress(FileNotFoundError):
        return _read(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".gputop-{os.urandom(8).hex()}")
    try:
        write_whole(beside, os.urandom(32).hex() + "\n", durable=True)
        with suppress(FileExistsError):
            os.link(beside, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside)
    return _read(path)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        key = file.read(_LONGEST_KEY).strip()
    if not key:
        raise OSError(22, f"{path.name} is empty")
    return key
