"""Events since the first snapshot: counters that ticked, states that began or ended.

A counter's total says nothing, because it may be years old; a tick between two snapshots is news.
So are new lines of the kernel's log about a fault. Nothing here asks the machine.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ..hardware.counters import meaning, of_driver
from ..hardware.faults.catalogue import fault_of
from ..model.kernel_event import KernelEvent
from ..model.machine import Gpu, Machine
from ..model.readings import CounterKind, DeviceCounters, EccCounts, GpuReading, NvLinkReading
from ..model.record import by_address
from ..model.severity import BROKEN, NOTICE, SLOW, Severity
from ..model.snapshot import NodeSnapshot
from ..sources.nvidia.recovery import NONE
from ..wiring.gpu_names import gpu_label

THROTTLES = ("hw slowdown", "hw thermal", "hw power brake", "sw thermal")
"""Reasons for lower clocks that are news. Idle GPUs and power caps are an everyday sight."""
NVLINK_COUNTERS = (
    ("replay_errors", "NVLink replays", SLOW),
    ("recovery_errors", "NVLink recoveries", BROKEN),
    ("crc_errors", "NVLink CRC errors", SLOW),
)
ECC_COUNTERS = (
    ("corrected_volatile", "corrected ECC errors", NOTICE),
    ("uncorrected_volatile", "uncorrected ECC errors", BROKEN),
    ("rows_remapped_corrected", "rows remapped after corrected errors", NOTICE),
    ("rows_remapped_uncorrected", "rows remapped after uncorrected errors", BROKEN),
    ("pages_retired_single", "pages retired after single-bit errors", NOTICE),
    ("pages_retired_double", "pages retired after double-bit errors", BROKEN),
)
ECC_STATES = (
    ("remap_pending", "row remapping waits for a reset", SLOW),
    ("remap_failed", "row remapping failed", BROKEN),
    ("retirement_pending", "page retirement waits for a reset", SLOW),
)
RECOVERY = "waits for what the driver asks for"
_Counter = tuple[str, str, str, Severity, int | None, int]
"""Device, name, what, harm, link number and value."""
_Place = tuple[str, str, int | None, bool]
"""Kind, device and port of counters of the kernel, and whether its driver's are among them."""
_Key = tuple[str, str, str]
"""Device, its name and what happens to it: two ports of one PCI function differ by name alone."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of thing that happened to one device, however often."""

    device: str
    """PCI address; the name of a network device where it has none."""
    name: str
    """The device as people call it."""
    what: str
    """"NVLink replays", "throttled: hw thermal", "lost"."""
    harm: Severity
    """"broken", "slow" or "notice", as of a finding."""
    first_at: float
    """Seconds since the epoch, as `last_at`; a counter ticked between this reading and the one
    before."""
    last_at: float
    amount: int | None = None
    """By how much a counter has grown since the start; None for a state."""
    parts: tuple[int, ...] = ()
    """Numbers of the links that ticked."""
    times: int = 1
    """In how many readings it ticked, or how often the state began."""
    lasting: bool = False
    """Whether the state still holds."""

    @property
    def text(self) -> str:
        """What happened, without the time: "GPU3, links 4 and 7: +12 NVLink replays"."""
        who = self.name
        if self.parts:
            numbers = [str(part) for part in self.parts]
            listed = " and ".join(filter(None, (", ".join(numbers[:-1]), numbers[-1])))
            who += f", link{'s' if len(numbers) > 1 else ''} {listed}"
        if self.amount is not None:
            return f"{who}: +{self.amount} {self.what}"
        often = f", {self.times} times" if self.times > 1 else ""
        return f"{who}: {self.what}{often}{'' if self.lasting else ', over'}"


class Watcher:
    """Compares each snapshot with the one before; `events` grows by devices, not by time."""

    def __init__(self) -> None:
        self.events: tuple[Event, ...] = ()
        """The newest first; the same object as long as nothing happens."""
        self.since: float | None = None
        """When the first snapshot was seen; None before."""
        self._found: dict[_Key, Event] = {}
        self._moved: dict[_Key, int] = {}
        """The number of the reading in which each event last changed."""
        self._readings = 0
        self._counters: dict[tuple[_Key, int | None], int] = {}
        self._links: dict[str, tuple[NvLinkReading, ...]] = {}
        """Of each GPU, as last compared: most readings have the links of the one before."""
        self._states: dict[_Key, bool] = {}
        self._known: dict[str, tuple[str, str | None]] = {}
        """By the address of each GPU that a driver named: its display name and its UUID."""
        self._asked: dict[_Place, set[_Key]] = {}
        """Whose counters the last snapshot has, and which of them were ever above 0."""
        self._last_counters: tuple[DeviceCounters, ...] = ()
        self._last: tuple[object, object, object] = (None, None, None)
        self._log_read = False
        """Whether a snapshot before the last one had the kernel's log: a fault that is not in it
        began after that."""

    def see(self, snapshot: NodeSnapshot) -> bool:
        """Compare a later snapshot with the last one; returns whether anything is new."""
        now = (snapshot.machine, snapshot.readings, snapshot.kernel_events)
        if all(one is before for one, before in zip(now, self._last, strict=True)):
            return False
        known, self._last = now[0] is self._last[0], now
        self._readings += 1
        if self.since is None:
            self.since = snapshot.taken_at
        # Lasting facts are compared only when they changed, not with each reading.
        news = not known and self._changed_gpus(snapshot.machine, snapshot.taken_at)
        news |= self._count(_counters(snapshot, self._links), None, snapshot.taken_at)
        news |= self._count_kernel(snapshot)
        told = snapshot.kernel_events or ()
        logged = [event for event in told if not event.heard]
        heard = [event for event in told if event.heard]
        start = 0 if self._log_read else None
        news |= self._count(_faults(snapshot, logged), start, snapshot.taken_at)
        news |= self._count(_faults(snapshot, heard), 0, snapshot.taken_at)
        self._log_read |= snapshot.has_answered("kernel_log")
        for device, name, what, harm, on in _states(snapshot, lasting=not known):
            news |= self._turn(device, name, what, harm, on, snapshot.taken_at)
        if news:
            # Not sorted by time: the clock of the host may have been set back in between.
            self.events = tuple(
                self._found[key]
                for key in sorted(self._found, key=self._moved.__getitem__, reverse=True)
            )
        return news

    def _count(self, counters: Iterable[_Counter], start: int | None, at: float) -> bool:
        """Note what ticked; `start`: the value before of those that were not there, if known."""
        news = False
        for device, name, what, harm, part, value in counters:
            key = (device, name, what)
            before = self._counters.get((key, part), start)
            self._counters[key, part] = value
            if before is not None and value > before:
                self._tick(device, name, what, harm, part, value - before, at)
                news = True
        return news

    def _count_kernel(self, snapshot: NodeSnapshot) -> bool:
        """Note what ticked of the kernel's counters: one that was not there before was 0."""
        devices = snapshot.readings.counters or ()
        if devices == self._last_counters:
            return False
        self._last_counters = devices
        news = False
        told: dict[_Place, set[_Key]] = {}
        for one in devices:
            # What a driver counts may be asked for the first time later than the files are read.
            more = one.kind is CounterKind.NET and any(of_driver(name) for name, _ in one.counts)
            place = (one.kind, one.device, one.port, more)
            before = self._asked.get(place)
            counters = tuple(_of_kernel(snapshot, one))
            now = {(device, name, what) for device, name, what, *_ in counters}
            for key in (before or now) - now:
                self._counters[key, None] = 0  # it was reset
            news |= self._count(counters, None if before is None else 0, snapshot.taken_at)
            told[place] = now | (before or set())
        self._asked = told
        return news

    def _changed_gpus(self, machine: Machine, at: float) -> bool:
        """Note GPUs that the driver no longer names, and start anew for a GPU in an old place."""
        here = by_address(machine.gpus)
        news = False
        for address, (name, uuid) in list(self._known.items()):
            gpu = here.get(address)
            if gpu is not None and gpu.uuid not in (None, uuid):
                self._counters = {
                    key: value for key, value in self._counters.items() if key[0][0] != address
                }
                self._links.pop(address, None)
            news |= self._turn(address, name, "gone from the node", BROKEN, gpu is None, at)
        for address, gpu in here.items():
            if gpu.uuid is not None:
                self._known[address] = gpu_label(gpu), gpu.uuid
                self._states.setdefault((address, gpu_label(gpu), "gone from the node"), False)
        return news

    def _tick(
        self,
        device: str,
        name: str,
        what: str,
        harm: Severity,
        part: int | None,
        by: int,
        at: float,
    ) -> None:
        before = self._found.get((device, name, what))
        parts = set(before.parts if before is not None else ())
        parts |= set() if part is None else {part}
        self._moved[device, name, what] = self._readings
        self._found[device, name, what] = Event(
            device=device,
            name=name,
            what=what,
            harm=harm,
            first_at=at if before is None else before.first_at,
            last_at=at,
            amount=by + (before.amount or 0 if before is not None else 0),
            parts=tuple(sorted(parts)),
            times=1 if before is None else before.times + (before.last_at != at),
        )

    def _turn(self, device: str, name: str, what: str, harm: Severity, on: bool, at: float) -> bool:
        before = self._states.get((device, name, what))
        self._states[device, name, what] = on
        # A state that held at the start is a finding, not news; its end is news.
        if before is None or before == on:
            return False
        known = self._found.get((device, name, what))
        self._moved[device, name, what] = self._readings
        self._found[device, name, what] = Event(
            device=device,
            name=name,
            what=what,
            harm=harm,
            first_at=at if known is None else known.first_at,
            last_at=at,
            times=1 if known is None else known.times + on,
            lasting=on,
        )
        return True


def _counters(
    snapshot: NodeSnapshot, seen: dict[str, tuple[NvLinkReading, ...]]
) -> Iterator[_Counter]:
    """Every counter that was read.

    `seen`: the links of each GPU that were given last; the same ones are left out.
    """
    for gpu, reading in _read(snapshot):
        name = gpu_label(gpu)
        if reading.pcie_replays is not None:
            yield gpu.address, name, "PCIe replays", SLOW, None, reading.pcie_replays
        links = () if seen.get(gpu.address) is reading.nvlinks else reading.nvlinks
        seen[gpu.address] = reading.nvlinks
        for link in links:
            for field, what, harm in NVLINK_COUNTERS:
                value = getattr(link, field)
                if value is not None:
                    yield gpu.address, name, what, harm, link.link, value
        for field, what, harm in ECC_COUNTERS:
            value = getattr(reading.ecc or EccCounts(), field)
            if value is not None:
                yield gpu.address, name, what, harm, None, value


def _of_kernel(snapshot: NodeSnapshot, device: DeviceCounters) -> Iterator[_Counter]:
    """The counters of a device whose growth is news; one that is not there is 0."""
    place = device.address or device.device
    gpu = by_address(snapshot.machine.gpus).get(place)
    name = device.device if gpu is None else gpu_label(gpu)
    name += "" if device.port is None else f" port {device.port}"
    told: dict[tuple[str, Severity], int] = {}
    for counter, value in device.counts:
        meant = meaning(device.kind, counter)
        if meant is not None and meant.news:
            key = meant.what, meant.harm
            told[key] = told.get(key, 0) + value
    for (what, harm), value in told.items():
        yield place, name, what, harm, None, value


def _faults(snapshot: NodeSnapshot, events: Sequence[KernelEvent]) -> Iterator[_Counter]:
    """How many lines of the kernel's log tell of each fault."""
    lines: dict[tuple[str, str, str, int | None], int] = {}
    harms: dict[str, Severity] = {}
    gpus = by_address(snapshot.machine.gpus) if events else {}
    for event in events:
        fault = fault_of(msgspec.structs.replace(event, over=""))
        gpu = gpus.get(event.device or "")
        name = event.name or event.device or "host" if gpu is None else gpu_label(gpu)
        what = f"{fault.label}: {fault.told()}" if fault.label else fault.told(event.details)
        harms[what] = fault.severity if fault.severity.counts else NOTICE
        key = (event.device or name, name, what, event.link)
        lines[key] = lines.get(key, 0) + event.count
    for (device, name, what, link), count in lines.items():
        yield device, name, what, harms[what], link, count


def _states(
    snapshot: NodeSnapshot, *, lasting: bool
) -> Iterator[tuple[str, str, str, Severity, bool]]:
    """Device, name, what, harm and whether it holds; what was not read is left out.

    `lasting` adds the states of the machine to those of its readings.
    """
    for gpu, reading in _read(snapshot):
        name = gpu_label(gpu)
        yield gpu.address, name, "lost", BROKEN, reading.lost
        if reading.throttle_reasons is not None:
            for reason in THROTTLES:
                on = reason in reading.throttle_reasons
                yield gpu.address, name, f"throttled: {reason}", SLOW, on
        for field, what, harm in ECC_STATES:
            value = getattr(reading.ecc or EccCounts(), field)
            if value is not None:
                yield gpu.address, name, what, harm, value
        action = reading.recovery_action
        if action is not None:
            # One state for all actions: a drain is followed by what the GPU needs next.
            yield gpu.address, name, RECOVERY, BROKEN, action != NONE
    if lasting:
        yield from _links(snapshot.machine)
        yield from _ports(snapshot.machine)


def _links(machine: Machine) -> Iterator[tuple[str, str, str, Severity, bool]]:
    for gpu in machine.gpus:
        name = gpu_label(gpu)
        for link in gpu.nvlinks:
            if link.active is not None:
                yield gpu.address, name, f"NVLink {link.link} down", BROKEN, not link.active
        if gpu.fabric is not None and gpu.fabric.state is not None:
            well = gpu.fabric.joined or gpu.fabric.unsupported
            yield gpu.address, name, "not in the NVSwitch fabric", BROKEN, not well


def _ports(machine: Machine) -> Iterator[tuple[str, str, str, Severity, bool]]:
    for device in machine.rdma:
        for port in device.ports:
            if port.state is not None:
                what = f"port {port.port} not active"
                # The PCI address is the key of findings too; two ports share it.
                yield device.address or device.name, device.name, what, SLOW, not port.active
    for interface in machine.interfaces:
        if interface.up is not None and interface.address is not None:
            yield interface.address, interface.name, "link down", SLOW, not interface.up


def _read(snapshot: NodeSnapshot) -> Iterator[tuple[Gpu, GpuReading]]:
    gpus = by_address(snapshot.machine.gpus)
    for reading in snapshot.readings.gpus:
        gpu = gpus.get(reading.address)
        if gpu is not None:
            yield gpu, reading
