"""What ranks ask of torch.distributed, through one file that all of them append to.

FAKE_RANK, which tests/probe_ranks reads too, says in `holds` at which call a rank stops for ever,
such as "connect", "all-reduce of 262144" or "send to 0"; and in `fails` what the library raises.
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

_asked = json.loads(os.environ.get("FAKE_RANK", "{}"))


class FileStore:
    """Keys and values, as lines of a file."""

    def __init__(self, path: str, ranks: int) -> None:
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.at = 0
        self.known: dict[str, str] = {}

    def set_timeout(self, timeout: object) -> None:
        """It waits for ever."""

    def set(self, key: str, value: str) -> None:
        os.write(self.file, json.dumps([key, value]).encode() + b"\n")

    def get(self, key: str) -> bytes:
        while key not in self.known:
            text = os.pread(self.file, 1 << 20, self.at)
            whole = text[: text.rfind(b"\n") + 1]
            self.at += len(whole)
            self.known.update(json.loads(line) for line in whole.splitlines())
            if not whole:
                time.sleep(0.001)
        return self.known[key].encode()


class PrefixStore:
    """Keys of another store that begin with a word."""

    def __init__(self, prefix: str, store: FileStore) -> None:
        self.prefix, self.store = prefix, store

    def set(self, key: str, value: str) -> None:
        self.store.set(f"{self.prefix}/{key}", value)

    def get(self, key: str) -> bytes:
        return self.store.get(f"{self.prefix}/{key}")


class Group:
    """The ranks that call together, and how often this one did."""

    store: PrefixStore
    rank: int
    ranks: int

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}

    def place(self, kind: str) -> str:
        """The key of the next call of a kind."""
        self.calls[kind] = self.calls.get(kind, 0) + 1
        return f"{kind}/{self.calls[kind]}"


_group = Group()
isend, irecv = "send to", "receive from"


def is_available() -> bool:
    return True


def _begin(what: str) -> None:
    if _asked.get("holds") == what:
        if "skips" in _asked:
            with open(_asked["skips"], "w"):
                pass
        while True:
            signal.pause()


def init_process_group(
    backend: str, *, store: PrefixStore, rank: int, world_size: int, timeout: object
) -> None:
    _group.store, _group.rank, _group.ranks = store, rank, world_size
    _begin("connect")
    if "fails" in _asked:
        raise RuntimeError(_asked["fails"])


def _of_all(tensor: Any, kind: str) -> list[int]:
    _begin(f"{kind} of {tensor.numel()}")
    place = _group.place(kind)
    _group.store.set(f"{place}/{_group.rank}", str(tensor.item()))
    return [int(_group.store.get(f"{place}/{rank}")) for rank in range(_group.ranks)]


def all_reduce(tensor: Any) -> None:
    tensor.fill_(sum(_of_all(tensor, "all-reduce")))


def broadcast(tensor: Any, root: int) -> None:
    tensor.fill_(_of_all(tensor, "broadcast")[root])


class P2POp:
    """One transfer, which is its own work to wait for."""

    def __init__(self, way: str, tensor: Any, peer: int) -> None:
        self.way, self.tensor, self.peer = way, tensor, peer

    def wait(self) -> None:
        _begin(f"{self.way} {self.peer}")
        ends = [_group.rank, self.peer] if self.way == isend else [self.peer, _group.rank]
        place = _group.place(f"transfer {ends}")
        if self.way == isend:
            _group.store.set(place, str(self.tensor.item()))
        else:
            self.tensor.fill_(int(_group.store.get(place)))


def batch_isend_irecv(operations: list[P2POp]) -> list[P2POp]:
    return operations
