"""What the drivers of network interfaces count, as `ethtool -S` shows it: pauses, drops, symbols.

It is asked by ioctl and needs no root: net/ethtool/ioctl.c of the kernel lists ETHTOOL_GSSET_INFO,
ETHTOOL_GSTRINGS and ETHTOOL_GSTATS among what everybody may ask. Some drivers ask their firmware
for it, so it has a budget: an interface for which no time is left is told as it was before.
"""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
import time
from collections.abc import Callable, Iterable, Sequence

from ...hardware.driver_counters import wanted

SIOCETHTOOL = 0x8946
GSTRINGS, GSTATS, GSSET_INFO, OF_STATISTICS = 0x1B, 0x1D, 0x37, 1
"""include/uapi/linux/ethtool.h: the commands, and ETH_SS_STATS."""
NAME_BYTES = 32
MOST, SPARE = 32768, 4096
"""The kernel writes as many as the driver has then, which may be more than when it was asked."""
BUDGET_SECONDS = 0.3
Asks = Callable[[str, ctypes.Array[ctypes.c_char]], None]


def ask_kernel(interface: str, buffer: ctypes.Array[ctypes.c_char]) -> None:
    """Let the kernel fill a buffer that begins with a command. Raises OSError."""
    request = struct.pack("16sP16x", interface.encode()[:15], ctypes.addressof(buffer))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asked:
        fcntl.ioctl(asked, SIOCETHTOOL, request)


class DriverStatistics:
    """Asks for the statistics of interfaces that mean something, as long as the budget lasts."""

    def __init__(self, ask: Asks = ask_kernel, budget_seconds: float = BUDGET_SECONDS) -> None:
        self._ask, self._budget = ask, budget_seconds
        self._places: dict[str, tuple[int, dict[str, int]]] = {}
        """Of each interface, how many statistics it has and where those with a meaning stand."""
        self._last: dict[str, dict[str, int]] = {}
        self._turn = 0

    def __call__(self, interfaces: Sequence[tuple[str, str]]) -> dict[str, dict[str, int]]:
        """By interface, each given with its driver's name; what was not asked is as before."""
        asked = [one for one in interfaces if wanted(one[1])]
        start, until = self._turn, time.monotonic() + self._budget
        for at in range(len(asked)):
            if time.monotonic() > until:
                break
            name, driver = asked[(start + at) % len(asked)]
            self._turn = (start + at + 1) % len(asked)
            self._read(name, driver)
        names = {name for name, _ in asked}
        self._last = {name: counts for name, counts in self._last.items() if name in names}
        return self._last

    def _read(self, name: str, driver: str) -> None:
        try:
            count = self._count(name)
            if count != self._places.get(name, (-1, {}))[0]:
                self._places[name] = count, self._named(name, count, wanted(driver))
            places = self._places[name][1]
            self._last[name] = self._values(name, count, places) if places else {}
        except (OSError, ValueError):  # gone, or a driver without statistics
            self._last.pop(name, None)

    def _count(self, name: str) -> int:
        buffer = _buffer(struct.pack("=IIQI", GSSET_INFO, 0, 1 << OF_STATISTICS, 0), 0)
        self._ask(name, buffer)
        _, _, mask, count = struct.unpack_from("=IIQI", buffer)
        return int(count) if mask and count <= MOST else 0

    def _named(self, name: str, count: int, known: Iterable[str]) -> dict[str, int]:
        buffer = _buffer(struct.pack("=III", GSTRINGS, OF_STATISTICS, count), count * NAME_BYTES)
        self._ask(name, buffer)
        raw = buffer.raw[12 : 12 + count * NAME_BYTES]
        names = (
            raw[at : at + NAME_BYTES].split(b"\0", 1)[0].decode("ascii", "replace")
            for at in range(0, len(raw), NAME_BYTES)
        )
        known = frozenset(known)
        return {one: place for place, one in enumerate(names) if one in known}

    def _values(self, name: str, count: int, places: dict[str, int]) -> dict[str, int]:
        buffer = _buffer(struct.pack("=II", GSTATS, count), count * 8)
        self._ask(name, buffer)
        if struct.unpack_from("=II", buffer)[1] != count:  # a queue came or went meanwhile
            del self._places[name]
            return self._last.get(name, {})
        return {one: struct.unpack_from("=Q", buffer, 8 + 8 * at)[0] for one, at in places.items()}


def _buffer(head: bytes, size: int) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(head, len(head) + size + SPARE * NAME_BYTES)
