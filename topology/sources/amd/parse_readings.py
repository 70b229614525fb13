"""amdsmi's raw answers as readings. The layout is that of amdsmi_readings.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from operator import itemgetter, le
from typing import Any

import msgspec

from ...model.part import PartialNode, Raw
from ...model.readings import EccBlock, EccCounts, GpuProcess, GpuReading, GpuUse, XgmiReading
from ...model.record import gaps_of
from ..files.answers import under
from ..files.fields import Fields, by, made, whole
from ..files.library_answers import Answers, dicts, is_whole, wrong_shape
from .answers import AMDSMI, is_count, refusal
from .failures import failed
from .links import MAX_LINKS, link_ends
from .parse_machine import MAX_DEVICES, address, generation
from .possible import plausible
from .words import ECC_BLOCKS, PAGE_PENDING, THROTTLED, THROTTLES

_METRICS = "amdsmi_get_gpu_metrics_info"
_ACTIVITY = "amdsmi_get_gpu_activity"
_POWER = "amdsmi_get_power_info"
_PCIE = "amdsmi_get_pcie_info"
_USED = "amdsmi_get_gpu_memory_usage(VRAM)"
_TOTAL = "amdsmi_get_gpu_memory_total(VRAM)"
_VIOLATIONS = "amdsmi_get_violation_status"
_PROCESSES = "amdsmi_get_gpu_process_list"
_PAGES = "amdsmi_get_gpu_bad_page_info"
_TOTAL_ECC = "amdsmi_get_gpu_total_ecc_count"
_ERRORS = ("correctable_count", "uncorrectable_count", "deferred_count")
_MAX_PROCESSES = 4096

_LINKS = "amdsmi_get_link_metrics"
_KB = 1024
_FIELDS = ("bdf", "write", "read")
_taken: Callable[[Raw], Any] = itemgetter(*_FIELDS)
_Row = tuple[Any, ...]
XGMI_KILOBYTE = "xGMI counters: the driver's kilobyte is taken for 1024 bytes"


def parse(raw: Raw) -> PartialNode:
    """Parse what the reader of `amdsmi_readings` (or a recording) holds."""
    top = raw if isinstance(raw, dict) else {}
    devices = [plausible(device) for device in dicts(top.get("devices"))[:MAX_DEVICES]]
    addresses = [address(device) for device in devices]
    peers = _peers(tuple(addresses))
    readings: dict[str, GpuReading] = {}
    for device, own in zip(devices, addresses, strict=True):
        if own is not None and own not in readings:  # `amdsmi` reports GPUs without an address
            readings[own] = _reading(device, own, peers[own])
    counted = any(
        reading.xgmi or reading.xgmi_tx_bytes_per_second is not None
        for reading in readings.values()
    )
    return PartialNode(
        gpu_readings=tuple(readings.values()),
        problems=failed("amdsmi_readings", None, zip(addresses, devices, strict=True)),
        assumptions=(XGMI_KILOBYTE,) if counted else (),
    )


@lru_cache(2)
def _peers(addresses: tuple[str | None, ...]) -> dict[str, frozenset[str]]:
    """The other GPUs of each one; the same each second, and nobody changes them."""
    known = frozenset(own for own in addresses if own is not None)
    return {own: known - {own} for own in known}


class _DeviceAnswers(Answers):
    """The answers of one GPU, and which others there are."""

    def __init__(self, raw: Raw, peers: frozenset[str]) -> None:
        super().__init__(raw, AMDSMI)
        self.peers = peers


def _reading(device: dict[str, Raw], own: str, peers: frozenset[str]) -> GpuReading:
    answers = _DeviceAnswers(device, peers)
    used = answers.whole("memory_used_bytes", _USED)
    total = answers.whole("memory_free_bytes", _TOTAL)
    free = None if used is None or not total else max(0, total - used)
    if free is None:
        answers.gap("memory_free_bytes", "needs the memory's size and what is used of it")
    return READING.read(answers, address=own, memory_used_bytes=used, memory_free_bytes=free)


def _percent(a: Answers, field: str, what: str) -> int | None:
    value = a.whole(field, (_ACTIVITY, f"{what}_activity"), (_METRICS, f"average_{what}_activity"))
    if value is not None and value > 100:
        a.gap(field, f"the driver says {value} %")
        return None
    return value


def _power(a: Answers) -> float | None:
    """Watts right now (MI300), else the mean of a moment, which is all that MI200 gives."""
    field = "power_watts"
    names = ("current_socket_power", "average_socket_power", "socket_power")
    found = [a.look((_POWER, name)) for name in names]
    watts = [value for value, why in found if why is None and is_whole(value)]
    stated = [value for value in watts if 0 < value < 10_000]
    if stated:
        return float(stated[0])
    number: int | None = 0
    if watts[:1] != [0]:
        number = a.whole(field, *((_METRICS, name) for name in names[:2]))
    if number == 0:
        a.gap(field, "the driver says 0")
    return float(number) if number else None


def _degrees(a: Answers, field: str, *sensors: tuple[str, str]) -> int | None:
    """Degrees of the first sensor that answers; 0 is how a missing one answers."""
    for sensor, metric in sensors:
        paths = ((f"amdsmi_get_temp_metric({sensor},CURRENT)",), (_METRICS, metric))
        if degrees := a.whole(field, *paths):
            return degrees
        if degrees == 0:
            a.gap(field, "the driver says 0")
    a.gap(field, "the driver says 0")
    return None


def _clock(a: Answers, field: str, kind: str) -> int | None:
    # ROCm 6.0 and 6.1 call it cur_clk.
    name = f"amdsmi_get_clock_info({kind})"
    return a.whole(field, (name, "clk"), (name, "cur_clk"))


def _generation(a: Answers) -> int | None:
    rate = a.whole("pcie_gen", (_PCIE, "pcie_metric", "pcie_speed"))
    return None if rate is None else generation(a, "pcie_gen", rate)


def _throttle(a: Answers) -> tuple[str, ...] | None:
    """What held the clocks down since the previous reading, else in the library's own 100 ms."""
    field = "throttle_reasons"
    change = a.raw.get("residencies")
    samples = _change(change, "accumulation_counter")
    if samples:
        grown = [(_change(change, name), word) for name, _, word in THROTTLES]
        if any(count is not None for count, _ in grown):
            return tuple(word for count, word in grown if count)
    flags = [(a.look((_VIOLATIONS, flag))[0], word) for _, flag, word in THROTTLES]
    if any(isinstance(active, bool) for active, _ in flags):
        return tuple(word for active, word in flags if active is True)
    throttled, why = a.look((_METRICS, "throttle_status"))
    if isinstance(throttled, bool):
        return (THROTTLED,) if throttled else ()
    first = refusal(change) if isinstance(change, dict) else None
    a.gap(field, first or why or wrong_shape(throttled))
    return None


def _change(raw: Raw, name: str) -> int | None:
    """How far a counter advanced between two readings; None where it is not known."""
    values = under(raw, name)
    if isinstance(values, list) and len(values) == 2:
        before, now = values
        if is_whole(before) and is_whole(now) and 0 <= before <= now < 2**64 - 1:
            return now - before
    return None


def _ecc(answers: Answers) -> EccCounts | None:
    if all(answers.raw.get(name) is None for name in (_TOTAL_ECC, _PAGES)):
        answers.gap("ecc", "not asked")
        return None
    own = Answers(answers.raw, AMDSMI)
    pages, pending = _pages(own)
    counts = ECC.read(own, pages_retired_double=pages, retirement_pending=pending)
    since = "amdsmi counts since the driver was loaded"
    gaps = gaps_of(("corrected_aggregate", "uncorrected_aggregate"), since)
    return msgspec.structs.replace(counts, gaps=counts.gaps + gaps)


def _pages(a: Answers) -> tuple[int | None, bool | None]:
    """Bad pages and whether one is waiting to be retired; older bindings say "none" in words."""
    pages, why = a.look((_PAGES,))
    if isinstance(pages, str) and "no bad pages" in pages.lower():
        return 0, False
    if isinstance(pages, list):
        return len(pages), any(page.get("status") == PAGE_PENDING for page in dicts(pages))
    for field in ("pages_retired_double", "retirement_pending"):
        a.gap(field, why or wrong_shape(pages))
    return None, None


def _blocks(answers: Answers) -> tuple[EccBlock, ...]:
    """Counts of each block that the driver counts; other blocks are left out."""
    raw: Raw = answers.raw.get("ecc")
    found = []
    if not isinstance(raw, dict):
        return ()
    for block in ECC_BLOCKS:
        answer = raw.get(block)
        if not isinstance(answer, dict) or "error" in answer:
            continue
        try:
            counted = _counted(block, *map(answer.get, _ERRORS))
        except TypeError:  # a list where a number should be
            counted = None
        if counted is not None:
            found.append(counted)
            continue
        a = Answers({"it": answer}, AMDSMI)
        found.append(
            EccBlock(
                block=block,
                corrected=a.whole("corrected", ("it", "correctable_count")),
                uncorrected=a.whole("uncorrected", ("it", "uncorrectable_count")),
                deferred=a.whole("deferred", ("it", "deferred_count")),
                gaps=a.gaps,
            )
        )
    return tuple(found)


@lru_cache(256, typed=True)
def _counted(block: str, corrected: Raw, uncorrected: Raw, deferred: Raw) -> EccBlock | None:
    # Most blocks have counted nothing, on all GPUs and every second.
    if not (is_count(corrected) and is_count(uncorrected) and is_count(deferred)):
        return None
    return EccBlock(block=block, corrected=corrected, uncorrected=uncorrected, deferred=deferred)


def _processes(a: Answers) -> tuple[GpuProcess, ...] | None:
    """All processes that the driver names; None when it does not say."""
    listed, why = a.look((_PROCESSES,))
    if not isinstance(listed, list):
        a.gap("processes", why or wrong_shape(listed))
        return None
    if listed and not dicts(listed):  # handles, as ROCm gives up to 6.1
        a.gap("processes", "this amdsmi gives no more than their number")
        return None
    found: dict[int, GpuProcess] = {}
    for raw in dicts(listed)[:_MAX_PROCESSES]:
        pid = raw.get("pid")
        if is_whole(pid) and 0 < pid < 2**32:
            own = Answers({"it": raw}, AMDSMI)
            memory = own.whole("memory_bytes", ("it", "memory_usage", "vram_mem"), ("it", "mem"))
            found[pid] = GpuProcess(
                pid=pid, kind=GpuUse.COMPUTE, memory_bytes=memory, gaps=own.gaps
            )
    return tuple(found.values())


def bundles(a: Answers, peers: frozenset[str]) -> tuple[XgmiReading, ...]:
    """Bytes by peer, where this amdsmi reports which link leads where."""
    rows = _rows(a.items((_LINKS, "links"))[:MAX_LINKS])
    # The library is asked for them rarely, and the same answer is understood each second.
    usual = {*map(type, chain.from_iterable(rows))} <= {str, int}
    found = _as_before(rows, peers) if usual else _bundles(rows, peers)
    if not found:
        _, why = a.look((_LINKS, "links"))
        a.gap("xgmi", why or "the driver does not tell which link leads where")
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
    sent = [link.whole("tx_bytes", "write") for link in own]
    received = [link.whole("rx_bytes", "read") for link in own]
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


def rate(answers: Answers, field: str, name: str) -> float | None:
    """Bytes a second over all xGMI links of the GPU."""
    change, why = answers.look(("xgmi_kb",))
    if not isinstance(change, dict):
        answers.gap(field, why or wrong_shape(change))
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
        answers.gap(field, "the driver does not count the bytes of its xGMI links")
        return None
    if min(before) < 0 or max(now) >= 2**64 - 1 or not all(map(le, before, now)):
        answers.gap(field, "a counter went back (the driver was reloaded?)")
        return None
    return _KB * (sum(now) - sum(before)) / seconds


ECC = Fields(
    EccCounts,
    corrected_volatile=whole((_TOTAL_ECC, "correctable_count")),
    uncorrected_volatile=whole((_TOTAL_ECC, "uncorrectable_count")),
)
READING = Fields(
    GpuReading,
    utilization_percent=by(_percent, "gfx"),
    memory_utilization_percent=by(_percent, "umc"),
    power_watts=made(_power),
    temperature_c=by(_degrees, ("HOTSPOT", "temperature_hotspot"), ("EDGE", "temperature_edge")),
    temperature_memory_c=by(_degrees, ("VRAM", "temperature_mem")),
    clock_graphics_mhz=by(_clock, "GFX"),
    clock_memory_mhz=by(_clock, "MEM"),
    clock_video_mhz=by(_clock, "VCLK0"),
    throttle_reasons=made(_throttle),
    pcie_gen=made(_generation),
    pcie_width=whole((_PCIE, "pcie_metric", "pcie_width")),
    pcie_replays=whole(
        (_PCIE, "pcie_metric", "pcie_replay_count"), "amdsmi_get_gpu_pci_replay_counter"
    ),
    xgmi=made(lambda answers: bundles(answers, answers.peers)),
    xgmi_rx_bytes_per_second=by(rate, "xgmi_read_data_acc"),
    xgmi_tx_bytes_per_second=by(rate, "xgmi_write_data_acc"),
    ecc=made(_ecc),
    ecc_blocks=made(_blocks),
    processes=made(_processes),
)
