"""Where nodes leave texts for each other: files beside a named one, or the store of torchrun.

A node writes its own texts only, so that no file has two writers: appending from two clients loses
lines on NFS. Nothing that is read is trusted: a file that is no map of texts has no texts.
"""

import contextlib
import importlib
import json
import os
import secrets
import stat
import threading
from collections.abc import Mapping
from socket import gethostname
from typing import Any, Optional, Protocol

from ...protocol.spec import ProbeStopped
from ...protocol.status import Status

SCHEMA = "gputop.meeting/1"
_MOST_BYTES = 4 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Notices(Protocol):
    """Texts by node and topic."""

    def put(self, topic: str, text: str) -> None:
        """Leave a text of this node, in place of an earlier one of the topic."""

    def read(self, node: int, topic: str) -> Optional[str]:
        """The text of a node; None where there is none."""

    def has_left(self, node: int) -> bool:
        """Whether a node took all of its texts back."""

    def torch_store(self, name: str, ranks: int) -> Any:
        """A store of torch.distributed for so many ranks of all nodes."""


class FileNotices:
    """A file for each node beside the named one, on a file system that all of them see.

    A file is put in place whole. One of another user is not read: what is in it names addresses
    that the library connects to.
    """

    def __init__(self, path: str, node: int) -> None:
        self._path = path
        self._node = node
        # Who finds the file of a run that was killed sees whose it is.
        self._texts: dict[str, str] = {"schema": SCHEMA, "by": f"{gethostname()} {os.getpid()}"}
        self._owner = -1
        self._lock = threading.Lock()

    def put(self, topic: str, text: str) -> None:
        """See Notices; ProbeStopped where it cannot be written."""
        with self._lock:
            self._texts[topic] = text
            self._write()

    def _write(self) -> None:
        mine = file_of(self._path, self._node)
        beside = f"{mine}-{secrets.token_hex(8)}"
        try:
            with os.fdopen(os.open(beside, _NEW, 0o600), "wb") as file:
                file.write(json.dumps(self._texts).encode())
                self._owner = os.fstat(file.fileno()).st_uid
            os.replace(beside, mine)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            text = f"The nodes cannot meet: {mine} cannot be written: {error.strerror}."
            raise ProbeStopped(Status.REFUSED, text) from error

    def read(self, node: int, topic: str) -> Optional[str]:
        """See Notices. Opening a file asks an NFS server whether it is still the same."""
        try:
            descriptor = os.open(file_of(self._path, node), _OLD)
        except OSError:
            return None
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_uid != self._owner:
            os.close(descriptor)
            return None
        with os.fdopen(descriptor, "rb") as file:
            try:
                texts = json.loads(file.read(_MOST_BYTES))
            except (OSError, ValueError, RecursionError):
                return None
        text = texts.get(topic) if isinstance(texts, dict) else None
        return text if isinstance(text, str) else None

    def has_left(self, node: int) -> bool:
        """See Notices."""
        return not os.path.lexists(file_of(self._path, node))

    def torch_store(self, name: str, ranks: int) -> Any:
        """See Notices; a file too, which the first node takes away."""
        dist = importlib.import_module("torch.distributed")
        return dist.FileStore(f"{file_of(self._path, 0)}-{name}", ranks)


class StoreNotices:
    """The store of torchrun, or one of its kind that the first node serves while it measures."""

    def __init__(self, store: Any, prefix: str, node: int) -> None:
        """`store`: a TCPStore. `prefix`: tells this run apart from others in the store."""
        self._store = store
        self._prefix = prefix
        self._node = node

    def put(self, topic: str, text: str) -> None:
        """See Notices."""
        self._store.set(self._key(self._node, topic), text)

    def read(self, node: int, topic: str) -> Optional[str]:
        """See Notices; a store that is gone has no texts."""
        key = self._key(node, topic)
        try:
            return bytes(self._store.get(key)).decode() if self._store.check([key]) else None
        except RuntimeError:  # DistNetworkError and its like
            return None

    def has_left(self, node: int) -> bool:
        """See Notices: the store is gone."""
        try:
            self._store.check([self._prefix])
        except RuntimeError:
            return True
        return False

    def torch_store(self, name: str, ranks: int) -> Any:
        """See Notices; keys of their own in the same store."""
        dist = importlib.import_module("torch.distributed")
        return dist.PrefixStore(f"{self._prefix}/{name}", self._store)

    def _key(self, node: int, topic: str) -> str:
        return f"{self._prefix}/{node}/{topic}"


def file_of(path: str, node: int) -> str:
    """The file of a node beside the named one; what else it leaves begins so, with a hyphen."""
    return f"{path}.{node}"


def open_notices(place: Mapping[str, Any], node: int, *, serves: bool, seconds: float) -> Notices:
    """The notices of a request; ProbeStopped where there are none.

    `place`: {"file": path}, or {"host", "port", "prefix", "serve"} of a TCPStore, which needs
    torch. `serves`: whether this process may serve it. `seconds`: how long to wait for the store.
    """
    if isinstance(place.get("file"), str):
        return FileNotices(str(place["file"]), node)
    try:
        dist = importlib.import_module("torch.distributed")
        timeout = importlib.import_module("datetime").timedelta(seconds=seconds)
        host, port = str(place["host"]), int(place["port"])
        store = dist.TCPStore(
            host, port, is_master=bool(place["serve"]) and serves, timeout=timeout,
            wait_for_workers=False,
        )  # fmt: skip
    except ImportError as error:
        text = "The launcher's store takes torch, and this Python has none; --meet names a file."
        raise ProbeStopped(Status.NO_TORCH, text) from error
    except RuntimeError as error:
        text = f"The launcher's store at {place.get('host')}:{place.get('port')} does not answer."
        raise ProbeStopped(Status.FAILED, text) from error
    return StoreNotices(store, str(place["prefix"]), node)
