"""Readers that no command is given a file for: they are called as the app calls them."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from gputop.agents.serving import AgentConversation
from gputop.measuring import history
from gputop.terminal.clean import clean
from gputop.terminal.preferences import Preferences
from gputop.theming import builtin, load_user
from gputop.topology.jobs.ras import client
from gputop.topology.jobs.ras.places import RasPlace
from gputop.topology.sources.linux import configuration_files

_MESSAGES = 300
_REPLIES = b"SERVER PROTOCOL 2\nOK\nOK\n"


def _theme(folder: Path) -> int:
    _, failed = load_user(folder, builtin(default_only=True)[0])
    print("\n".join(clean(line) for line in failed))
    return 3 if failed else 0


def _preferences(path: Path) -> int:
    print(len(Preferences(path).get("theme")))
    return 0


def _history(path: Path) -> int:
    found = history.runs(path.stem, path.parent)
    print(len(found))
    return 0 if found else 3


def _conf(path: Path) -> int:
    found = configuration_files.read_file(str(path))
    print(found is not None and len(found.values))
    return 3 if found is None or found.error else 0


def _ras(path: Path) -> int:
    """RAS over TCP: a job that answers with the bytes of the file."""
    data = path.read_bytes()
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server, data), daemon=True).start()
        port = server.getsockname()[1]
        reply = client.ask(RasPlace(address="there", hosts=("127.0.0.1",), port=port))
    print(len(reply.answers), clean(reply.trouble or ""))
    return 0 if reply.answers else 3


def _serve(server: socket.socket, data: bytes) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_answer, args=(connection, data), daemon=True).start()


def _answer(connection: socket.socket, data: bytes) -> None:
    with connection, suppress(OSError):
        connection.recv(4096)
        connection.sendall(_REPLIES)
        connection.recv(4096)
        connection.sendall(data)


def _agent(path: Path) -> int:
    """What a client says, line by line; each answer has to be a line of JSON.

    Each message is work of its own, for which the client asked: some hundred are enough.
    """
    heard = io.BytesIO()
    conversation = AgentConversation(heard)
    for line in path.read_bytes().splitlines(keepends=True)[:_MESSAGES]:
        if line.strip():
            conversation.take(line)
    conversation.leave()
    answers = [json.loads(line) for line in heard.getvalue().splitlines()]
    print(clean(json.dumps(answers), 10**6))
    return 0 if answers else 3


DOORS: Mapping[str, Callable[[Path], int]] = {
    "(theme)": _theme,
    "(preferences)": _preferences,
    "(history)": _history,
    "(nccl.conf)": _conf,
    "(ras)": _ras,
    "(agent)": _agent,
}
"""First word of a command line -> what is called with the path behind it; gives an exit code."""
