"""Nodes that are made up: a driver in this process, and a bare Python that answers beside one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from gputop.probes.protocol.messages import (
    Failure,
    MeasuredValue,
    Message,
    Note,
    WorkerRequest,
    decode,
    encode,
)
from gputop.probes.runner.client import WORKER
from tests.device_kernels.built import HERE, NAMES

NOTHING = dict.fromkeys(("memory", "pinned", "streams", "events", "modules"), 0)
"""What a driver holds that was given everything back."""


class MadeUpDriver:
    """A driver in this process. What it is like is said in words: see on_the_host.cpp."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    def becomes(self, *words: str) -> None:
        """Be another node, with nothing on it."""
        self.handle.made_up(";".join(words).encode())

    def counted(self, name: str) -> int:
        """How many there are now, or how often a call was made ("calls.NAME")."""
        return int(self.handle.counted(name.encode()))

    def holds(self) -> dict[str, int]:
        """What was taken and not given back."""
        return {name: self.counted(name) for name in NOTHING}


@dataclass(frozen=True)
class Answered:
    """All messages of one request, and what the driver counted."""

    said: list[Message]
    counted: dict[str, int]

    def figures(self, name: str) -> dict[tuple[str, str], MeasuredValue]:
        """The last figure of a name by source and destination, each by the digit of its bus."""
        return {
            (m.src[6:7], m.dst[6:7]): m
            for m in self.said
            if isinstance(m, MeasuredValue) and m.name == name
        }

    def notes(self, topic: str) -> list[str]:
        return [m.text for m in self.said if isinstance(m, Note) and m.topic == topic]

    @property
    def failure(self) -> Failure:
        last = self.said[-1]
        assert isinstance(last, Failure), last
        return last

    @property
    def held(self) -> dict[str, int]:
        """What was taken and not given back."""
        return {name: self.counted[name] for name in NOTHING}


class MadeUpNode:
    """A Python without any package, beside a driver that its loader finds."""

    def __init__(self, folder: str, vendor: str) -> None:
        self.folder = folder
        self._python = subprocess.Popen(
            [sys.executable, "-S", "-E", str(HERE / "answering.py"), str(WORKER), NAMES[vendor][0]],
            env={**os.environ, "LD_LIBRARY_PATH": folder},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
        )  # fmt: skip

    def answers(
        self, request: WorkerRequest, *words: str, counts: tuple[str, ...] = (), skips: str = ""
    ) -> Answered:
        """What a worker says to a request on a node of these words.

        `counts`: what to count. `skips`: a file that sets the clock forward once it is there.
        """
        asked = {
            "words": ";".join(words),
            "request": encode(request).decode().rstrip("\n"),
            "counts": counts,
            "skips": skips,
        }
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        self._python.stdin.write(json.dumps(asked) + "\n")
        self._python.stdin.flush()
        answer = json.loads(self._python.stdout.readline())
        return Answered([decode(line.encode()) for line in answer["said"]], answer["counted"])

    def close(self) -> None:
        self._python.communicate()
