"""A RAS service as NCCL speaks it (src/ras/client_support.cc), and others on its port."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

FUNCTIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
Handler = Callable[[socket.socket], None]


def rank(
    number: int, pid: int, all_reduces: int, *, abort: bool = False, asynchronous: int = 0
) -> dict[str, Any]:
    """One rank as jsonWriteRankData writes it."""
    return {
        "rank": number,
        "host": "127.0.0.1",
        "pid": pid,
        "cuda_dev": number,
        "nvml_dev": number,
        "status": {
            "init_state": 0,
            "async_error": asynchronous,
            "finalize_called": False,
            "destroy_flag": False,
            "abort_flag": abort,
        },
        "collective_counts": dict.fromkeys(FUNCTIONS, 0) | {"AllReduce": all_reduces},
    }


def missing(
    number: int, pid: int, *, unresponsive: bool = True, dead: bool = False
) -> dict[str, Any]:
    """One rank without data as jsonWriteMissingRank writes it."""
    return {
        "rank": number,
        "host": "127.0.0.1",
        "pid": pid,
        "cuda_dev": number,
        "nvml_dev": number,
        "status": {"unresponsive": unresponsive, "considered_dead": dead},
    }


def document(
    ranks: Sequence[dict[str, Any]], lost: Sequence[dict[str, Any]] = (), name: str = "0xa1b2"
) -> bytes:
    """An answer with one communicator."""
    communicator = {
        "hash": name,
        "secondary_hash": "0x1:0x2",
        "size": len(ranks) + len(lost),
        "ranks_count": len(ranks),
        "missing_ranks_count": len(lost),
        "ranks": list(ranks),
        "missing_ranks": list(lost),
    }
    return json.dumps(
        {
            "nccl_version": "2.28.9+cuda13.0",
            "cuda_runtime_version": 13000,
            "cuda_driver_version": 13000,
            "timestamp": "2026-11-23 15:00:00",
            "communicators_count": 1,
            "communicators": [communicator],
            "ras": {"collection_time_sec": 0.004, "timeouts_count": len(lost)},
        },
        indent=2,
    ).encode()


def speaking(answers: Sequence[bytes], *, json_known: bool = True) -> Handler:
    """A service that gives these answers, one a connection, in turn."""
    turn = iter(range(1 << 30))

    def handle(peer: socket.socket) -> None:
        with peer, peer.makefile("rb") as lines:
            for line in lines:
                word = line.strip().lower()
                if word.startswith(b"client protocol"):
                    peer.sendall(b"SERVER PROTOCOL 2\n")
                elif word.startswith(b"timeout") or (json_known and word == b"set format json"):
                    peer.sendall(b"OK\n")
                elif word == b"verbose status":
                    peer.sendall(answers[next(turn) % len(answers)])
                    return
                else:
                    peer.sendall(b"ERROR: Unknown command " + line)

    return handle


@contextmanager
def serving(handler: Handler) -> Iterator[int]:
    """Listen on a port of the loopback address while the block runs; gives the port."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        listener.settimeout(20)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    threading.Thread(target=quiet, args=(peer,), daemon=True).start()

        def quiet(peer: socket.socket) -> None:
            with peer, suppress(OSError):
                handler(peer)

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
