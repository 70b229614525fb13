"""What a worker of a run in several processes says to the process that counts."""

from __future__ import annotations

import socket
from typing import Any

import pytest


def ask_at_once(config: pytest.Config) -> None:
    """Let no short test wait 30 ms for the count of its reruns.

    `--reruns` tells a count in two small messages; Nagle's algorithm holds the second one back
    until the first is acknowledged.
    """
    counts = getattr(config, "failures_db", None)
    if counts is not None:
        counts.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def send_less(config: pytest.Config) -> None:
    """Leave messages that change no dot and no count: four of the six of a test that passes.

    They are what it begins and ends with, and that its fixtures came and went well.
    """
    plugins = config.pluginmanager.get_plugins()
    (worker,) = (plugin for plugin in plugins if hasattr(plugin, "sendevent"))
    send = worker.sendevent

    def send_what_is_read(name: str, **given: Any) -> None:
        told = given.get("data", {})
        well = told.get("outcome") == "passed" and told.get("when") in ("setup", "teardown")
        if name not in ("logstart", "logfinish") and (not well or told["sections"]):
            send(name, **given)

    worker.sendevent = send_what_is_read
