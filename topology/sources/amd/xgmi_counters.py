"""What amdsmi counts of a GPU's xGMI links: 8192 of them in a mesh of 128 GPUs."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from operator import itemgetter, le
from typing import Any

from ...model.part import Raw
from ...model.readings import XgmiReading
from ..files.library_answers import Answers, is_whole, odd
from .answers import AMDSMI, is_count
from .links import MAX_LINKS, link_ends
from .machine import MAX_DEVICES

_LINKS = "amdsmi_get_link_metrics"
_KB = 1024
_FIELDS = ("bdf", "write", "read")
_taken: Callable[[Raw], Any] = itemgetter(*_FIELDS)
_Row = tuple[Any, ...]
XGMI_KILOBYTE = "xGMI counters: the driver's kilobyte is taken for 1024 bytes"


def bundles(a: Answers, peers: frozenset[str]) -> tuple[XgmiReading, ...]:
    """Bytes by peer, where this amdsmi reports which link leads where."""
    rows = _rows(a.items((_LINKS, "links"))[:MAX_LINKS])
    # The library is asked for them rarely, and the same answer is understood each second.
    usual = {*map(type, chain.from_iterable(rows))} <= {str, int}
    found = _as_before(rows, peers) if usual else _bundles(rows, peers)
    if not found:
        _, why = a.look((_LINKS, "links"))
        a.miss("xgmi", why or "the driver does not tell which link leads where")
    return found


def _rows(links: list[Raw]) -> tuple[_Row, ...]:
    """Far end, kilobytes sent and received of each link; None for what the answer lacks."""
    try:
        return tuple(map(_taken, links))
    except (KeyError, TypeError):
        whole = (link if isinstance(link, dict) else {} for link in links)
        return tuple([tuple([link.get(name) for name in _FIELDS]) for link in whole])


def _bundles(rows: tuple[_Row, ...], peers: frozenset[str]) -> tuple[XgmiReading, ...]:
    ends = link_ends([end for end, _, _ in rows], peers)
    return tuple([_bundle(peer, rows, numbers) for peer, numbers in ends.items()])


@lru_cache(MAX_DEVICES)
def _as_before(rows: tuple[_Row, ...], peers: frozenset[str]) -> tuple[XgmiReading, ...]:
    return _bundles(rows, peers)


def _bundle(peer: str, rows: tuple[_Row, ...], numbers: list[int]) -> XgmiReading:
    """The counters of the links to one peer; a sum is None where one of its parts is not known."""
    sent = received = 0
    for number in numbers:
        _, write, read = rows[number]
        if not (is_count(write) and is_count(read)):
            return _uncounted(peer, [rows[number] for number in numbers])
        sent += write
        received += read
    return XgmiReading(remote_address=peer, tx_bytes=_KB * sent, rx_bytes=_KB * received)


def _uncounted(peer: str, rows: list[_Row]) -> XgmiReading:
    """The same with the reasons for what is missing."""
    own = [Answers(dict(zip(_FIELDS, row, strict=True)), AMDSMI) for row in rows]
    sent = [link.number("tx_bytes", "write") for link in own]
    received = [link.number("rx_bytes", "read") for link in own]
    return XgmiReading(
        remote_address=peer,
        tx_bytes=_kilobytes(sent),
        rx_bytes=_kilobytes(received),
        gaps=next((link.gaps for link in own if link.gaps), ()),
    )


def _kilobytes(counts: list[int | None]) -> int | None:
    """Their sum in bytes; None where one of them is not known."""
    known = [count for count in counts if count is not None]
    return _KB * sum(known) if len(known) == len(counts) else None


def rate(a: Answers, way: str, name: str) -> float | None:
    """Bytes a second over all xGMI links of the GPU."""
    field = f"xgmi_{way}_bytes_per_second"
    change, why = a.look(("xgmi_kb",))
    if not isinstance(change, dict):
        a.miss(field, why or odd(change))
        return None
    seconds, values = change.get("seconds"), change.get(name)
    lists = values if isinstance(values, list) and len(values) == 2 else [None, None]
    before, now = (value if isinstance(value, list) else [] for value in lists)
    if not {*map(type, before), *map(type, now)} <= {int}:
        pairs = [(b, n) for b, n in zip(before, now, strict=False) if is_whole(b) and is_whole(n)]
        before, now = [b for b, _ in pairs], [n for _, n in pairs]
    length = min(len(before), len(now))
    before, now = before[:length], now[:length]
    if not isinstance(seconds, int | float) or not 0 < seconds < 1e6 or not length:
        a.miss(field, "the driver does not count the bytes of its xGMI links")
        return None
    if min(before) < 0 or max(now) >= 2**64 - 1 or not all(map(le, before, now)):
        a.miss(field, "a counter went back (the driver was reloaded?)")
        return None
    return _KB * (sum(now) - sum(before)) / seconds
