"""What each NVLink of a GPU has counted: errors and bytes.

A GPU has up to 18 links with six counters each, and the reader asks for them once in two minutes:
what was understood is kept as long as the answers stay equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...model.part import Raw
from ...model.readings import NvLinkReading
from ..files.failures import Unanswered
from ..files.library_answers import Answers, dicts, is_whole
from .answers import FIELDS, NVML, refusal
from .failures import of_links
from .possible import believed_links

_MAX_LINKS = 64


class LinkCounters(msgspec.Struct, frozen=True):
    """The answers of all links of one GPU, understood."""

    readings: tuple[NvLinkReading, ...]
    failures: tuple[Unanswered, ...]
    """What the driver failed to answer, without the address of the GPU."""


class LinkMemory:
    """Keeps what was understood of the GPUs of one call until the next call."""

    def __init__(self) -> None:
        self._last: dict[bytes, LinkCounters] = {}

    def understood(self, answers: Sequence[Raw]) -> list[LinkCounters]:
        """The "links" of each GPU; those equal to some of the last call are not read again."""
        last, found = self._last, []
        kept: dict[bytes, LinkCounters] = {}
        for links in answers:
            key = _key(links)
            counters = last.get(key) or kept.get(key) or _understood(links)
            if key:
                kept[key] = counters
            found.append(counters)
        self._last = kept
        return found


def _key(links: Raw) -> bytes:
    """The value of an answer, whatever becomes of the list itself; b"" where it has no short form.

    Comparing the lists would not notice a list that was changed in place.
    """
    try:
        return msgspec.msgpack.encode(links)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return b""  # a number beyond 64 bits, text that is not UTF-8


def _understood(links: Raw) -> LinkCounters:
    links = believed_links(links)
    readings: dict[int, NvLinkReading] = {}
    for raw in dicts(links)[:_MAX_LINKS]:
        number = raw.get("link")
        if is_whole(number) and 0 <= number < _MAX_LINKS and ("fields" in raw or "err0" in raw):
            readings[number] = _link(raw, number)
    listed = tuple(readings[number] for number in sorted(readings))
    return LinkCounters(listed, tuple(of_links(links)))


def _link(raw: dict[str, Raw], number: int) -> NvLinkReading:
    a = Answers(raw, NVML)
    dl = "NVML_FI_DEV_NVLINK_ERROR_DL_"
    # NVLink 5 has no such counter of recoveries but one of recovery events.
    events = "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS"
    values: dict[str, int | None] = {
        "replay_errors": _either(a, "replay_errors", (f"{dl}REPLAY",), "err0"),
        "recovery_errors": _either(a, "recovery_errors", (f"{dl}RECOVERY", events), "err1"),
        "crc_errors": _either(a, "crc_errors", (f"{dl}CRC",), "err2"),
        "tx_bytes": _kib(a, "tx_bytes", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX"),
        "rx_bytes": _kib(a, "rx_bytes", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX"),
    }
    return NvLinkReading(link=number, gaps=a.gaps, **values)


def _either(a: Answers, field: str, names: tuple[str, ...], counter: str) -> int | None:
    """Read a field value where there is one, else the older counter call."""
    fields = a.raw.get("fields")
    if not isinstance(fields, dict):
        return a.number(field, counter)
    known = [name for name in names if refusal(fields.get(name)) is None]
    return a.number(field, (FIELDS, (known or list(names))[0]))


def _kib(a: Answers, field: str, name: str) -> int | None:
    count = a.number(field, (FIELDS, name))
    return None if count is None else count * 1024
