"""What amdsmi counts of a GPU's xGMI links: 8192 of them in a mesh of 128 GPUs."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from operator import itemgetter, le

from ...model.part import Raw
from ...model.readings import XgmiReading
from ..files.library_answers import Answers, is_whole, odd
from .answers import AMDSMI, is_count
from .links import MAX_LINKS, link_ends
from .machine import MAX_DEVICES

_LINKS = "amdsmi_get_link_metrics"
_KB = 1024
_FIELDS = ("bdf", "write", "read")
_taken = itemgetter(*_FIELDS)
XGMI_KILOBYTE = "xGMI counters: the driver's kilobyte is taken for 1024 bytes"


def bundles(a: Answers, peers: frozenset[str]) -> tuple[XgmiReading, ...]:
    """Bytes by peer, where this amdsmi reports which link leads where."""
    links = a.items((_LINKS, "links"))[:MAX_LINKS]
    found = _as_before(links, peers)
    if found is None:
        found = _counted(links, link_ends(links, peers))
    if not found:
        _, why = a.look((_LINKS, "links"))
        a.miss("xgmi", why or "the driver does not tell which link leads where")
    return found


def _as_before(links: list[Raw], peers: frozenset[str]) -> tuple[XgmiReading, ...] | None:
    """The same from a table of texts and numbers alone; None where there is anything else.

    The library is asked for the counters rarely, and the same answer is understood each second.
    """
    try:
        rows = tuple(map(_taken, links))
    except (KeyError, TypeError):
        return None
    if not {*map(type, chain.from_iterable(rows))} <= {str, int}:
        return None
    return _of_rows(rows, peers)


@lru_cache(MAX_DEVICES)
def _of_rows(
    rows: tuple[tuple[str | int, ...], ...], peers: frozenset[str]
) -> tuple[XgmiReading, ...]:
    links = [dict(zip(_FIELDS, row, strict=True)) for row in rows]
    return _counted(links, link_ends(links, peers))


def _counted(links: list[Raw], ends: dict[str, list[int]]) -> tuple[XgmiReading, ...]:
    return tuple([_bundle(peer, links, numbers) for peer, numbers in ends.items()])


def _bundle(peer: str, links: list[Raw], numbers: list[int]) -> XgmiReading:
    """The counters of the links to one peer; a sum is None where one of its parts is not known."""
    sent = received = 0
    for number in numbers:
        link = links[number]
        write, read = link.get("write"), link.get("read")
        if not (is_count(write) and is_count(read)):
            return _uncounted(peer, [links[number] for number in numbers])
        sent += write
        received += read
    return XgmiReading(remote_address=peer, tx_bytes=_KB * sent, rx_bytes=_KB * received)


def _uncounted(peer: str, links: list[Raw]) -> XgmiReading:
    """The same with the reasons for what is missing."""
    own = [Answers(link, AMDSMI) for link in links]
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
