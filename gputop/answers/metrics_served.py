"""Serves text over HTTP where somebody asked for it: read only, to few at a time, and briefly."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from gputop.exits import ANSWERED, USAGE, Exit
from gputop.terminal.clean import clean
from gputop.terminal.lines import warn

PATH = "/metrics"
FORMAT = "text/plain; version=0.0.4; charset=utf-8"
MOST_AT_ONCE = 8
"""Connections that are answered at a time; the next one is closed."""
PATIENCE_SECONDS = 5.0
"""How long a client may take to ask, and to take the answer."""
LOOPBACK = "127.0.0.1"


class ListenPlace(NamedTuple):
    """Where to listen."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address for a browser."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{PATH}"


def address_of(text: str) -> ListenPlace:
    """Understand a port of this machine alone, "9435", or "0.0.0.0:9435", "[::1]:9435".

    Raises Exit.
    """
    host, _, number = text.rpartition(":")
    host = host.strip("[]") or LOOPBACK
    port = int(number) if number.isdecimal() and len(number) < 6 else 0
    try:
        ipaddress.ip_address(host)
    except ValueError:
        port = 0
    if not 0 < port < 65536:
        what = f"--listen {clean(text, 60)!r}"
        raise Exit(f"{what}: it takes a port, or an IP address with a port: 127.0.0.1:9435", USAGE)
    return ListenPlace(host, port)


class TextServer(ThreadingHTTPServer):
    """One text for whoever asks for it. It starts to listen when it is made; raises OSError."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, place: ListenPlace, text: str) -> None:
        self.address_family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
        self.text = text
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)
        super().__init__((place.host, place.port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, unless too many are asking."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one, and let the next one come.

        A client that says a letter now and then would never run into the timeout of its socket.
        """
        late = threading.Timer(PATIENCE_SECONDS, _hang_up, (request,))
        late.daemon = True
        late.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            late.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes or is slow is no fault of ours."""


def _hang_up(connection: socket.socket) -> None:
    """Whoever waits for it goes on; it may be closed already."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """GET and HEAD of one path; anything else is refused."""

    timeout = PATIENCE_SECONDS
    server_version, sys_version = "gputop", ""
    server: TextServer

    def do_GET(self) -> None:
        """Send the text."""
        self._send(body=True)

    def do_HEAD(self) -> None:
        """Send its head alone."""
        self._send(body=False)

    def _send(self, *, body: bool) -> None:
        if self.path.partition("?")[0] != PATH:
            self.send_error(404, f"there is {PATH}")
            return
        data = self.server.text.encode()
        self.send_response(200)
        self.send_header("Content-Type", FORMAT)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing is said of who asks."""


def serve(
    place: ListenPlace,
    read: Callable[[], str],
    interval: float,
    stop: threading.Event | None = None,
) -> int:
    """Serve what `read` gives, read again every `interval` seconds, until Ctrl+C or `stop`.

    Who asks gets the last text at once, and never makes anything be read. Raises Exit where the
    place is taken.
    """
    stop = stop or threading.Event()
    try:
        server = TextServer(place, read())
    except OSError as error:
        why = error.strerror or error
        raise Exit(f"--listen {place.host}:{place.port}: {why}", USAGE) from error
    threading.Thread(target=server.serve_forever, daemon=True).start()
    warn(f"serving {place.url} until Ctrl+C")
    try:
        while not stop.wait(interval):
            server.text = read()
    finally:
        server.shutdown()
        server.server_close()
    return ANSWERED
