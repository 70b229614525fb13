"""Error counters of PCIe links, AMD GPUs and network ports, as the kernel keeps them in /sys.

The raw answer: {"absent": why, "aer": {address: {file: text}}, "ras": {address: {file: text}},
"rdma": {name: {"path", "ports": {"1": {counter: text}}}}, "net": {name: {"path", counter: text,
"driver": {statistic: number}}},
"rates": {"rdma": {name: {"1": [bytes a second sent, received]}}, "net": {name: [sent, received]}}}.
All of it is readable without root. Sources: the kernel's Documentation/ABI/testing/
sysfs-bus-pci-devices-aer, sysfs-class-infiniband, sysfs-class-net and sysfs-class-net-statistics;
Documentation/gpu/amdgpu/ras.rst.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...model.part import PartialNode, Raw
from ...model.readings import CounterKind, DeviceCounters
from ...model.source import Source
from ..files.answers import LEFT_OUT, cut_off, left_out, part, whole
from ..files.tree import Tree, answers, live_tree
from ..pci.devices import ADDRESS

PCI, RDMA, NET = "sys/bus/pci/devices", "sys/class/infiniband", "sys/class/net"
AER = ("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal")
NET_DIR = "statistics"
NET_FILES = ("carrier_changes", "carrier_down_count", "carrier_up_count")
NET_STATISTICS = ("rx_crc_errors", "rx_errors", "tx_errors", "rx_bytes", "tx_bytes")
CLASSES = ("0x0302", "0x0300", "0x0380", "0x02", "0x0604", "0x12", "0x0680")
"""PCI classes of GPUs, network adapters, bridges and NVSwitches."""
MOST_DEVICES, MOST_PORTS, MOST_COUNTERS = 512, 64, 128
WHOLE_READS, FULL_READS = 8, 240
"""In so many reads all counters are read once, and devices and files are listed once; what ports
send and receive is read each time."""
LEAST_SECONDS = 0.5
"""Between two looks at a counter that give a rate."""
MOST_RATE = 1e13
BYTES = (f"{NET_DIR}/tx_bytes", f"{NET_DIR}/rx_bytes")


def parse(raw: Raw) -> PartialNode:
    """The counters that are not 0, of all that was asked; of what a driver was asked all."""
    found = [
        *_of_pci(CounterKind.AER, part(raw, "aer"), _aer),
        *_of_pci(CounterKind.RAS, part(raw, "ras"), _ras),
        *_of_rdma(part(raw, "rdma"), part(part(raw, "rates"), "rdma")),
        *_of_net(part(raw, "net"), part(part(raw, "rates"), "net")),
    ]
    return PartialNode(counters=tuple(found), problems=cut_off(raw, "counters"))


Counts = Iterator[tuple[str, int]]
Statistics = Callable[[Sequence[tuple[str, str]]], dict[str, dict[str, int]]]
"""Asks the drivers of interfaces, each given with its driver's name."""


def _of_pci(
    kind: CounterKind, devices: dict[str, Raw], read: Callable[[str, str], Counts]
) -> Iterator[DeviceCounters]:
    for address, files in devices.items():
        texts = [(name, text) for name, text in part({"": files}, "").items() if _told(text)]
        if texts and ADDRESS.fullmatch(address):
            counts = (pair for name, text in texts for pair in read(name, text))
            yield DeviceCounters(kind=kind, device=address, counts=tuple(counts))


def _told(text: Raw) -> bool:
    return isinstance(text, str)


def _aer(name: str, text: str) -> Counts:
    """Lines "BadTLP 3"; the sum, "TOTAL_ERR_COR 3", counts where no line tells what they were."""
    level = name.rpartition("_")[2]
    found: list[tuple[str, int]] = []
    total = 0
    for line in text.splitlines()[:MOST_COUNTERS]:
        word, _, number = line.strip().rpartition(" ")
        count = whole(number)
        if not word or count is None or count <= 0:
            continue
        if word.startswith("TOTAL_"):
            total = count
        else:
            found.append((f"{level} {word[:40]}", count))
    yield from found or ([(f"{level} errors", total)] if total else [])


def _ras(name: str, text: str) -> Counts:
    """Lines "ue: 0" and "ce: 3" of a block: uncorrected and corrected errors."""
    block = name.removesuffix("_err_count")
    for line in text.splitlines()[:MOST_COUNTERS]:
        word, _, number = line.partition(":")
        count = whole(number.strip())
        if count is not None and count > 0 and word.strip() in ("ue", "ce", "de"):
            yield f"{block} {word.strip()}", count


def _counts(raw: dict[str, Raw]) -> tuple[tuple[str, int], ...]:
    pairs = ((name, whole(text)) for name, text in raw.items() if isinstance(text, str))
    return tuple((name, count) for name, count in pairs if count is not None and count > 0)


def _rate(pair: Raw, place: int) -> float | None:
    """Bytes a second, in one of both directions."""
    found = pair[place] if isinstance(pair, list) and len(pair) == 2 else None
    if not isinstance(found, int | float) or isinstance(found, bool):
        return None
    return float(found) if 0 <= found < MOST_RATE else None


def _of_rdma(devices: dict[str, Raw], rates: dict[str, Raw]) -> Iterator[DeviceCounters]:
    for name, device in devices.items():
        for port, counters in part({"": part({"": device}, "").get("ports")}, "").items():
            number, rate = whole(port), part({"": rates.get(name)}, "").get(port)
            if number is not None and number >= 0:
                yield DeviceCounters(
                    kind=CounterKind.RDMA,
                    device=name,
                    port=number,
                    address=_behind(part({"": device}, "").get("path")),
                    counts=_counts(part({"": counters}, "")),
                    tx_bytes_per_second=_rate(rate, 0),
                    rx_bytes_per_second=_rate(rate, 1),
                )


def _of_net(interfaces: dict[str, Raw], rates: dict[str, Raw]) -> Iterator[DeviceCounters]:
    for name, files in interfaces.items():
        counters, rate = part({"": files}, ""), rates.get(name)
        driver = part(counters, "driver")
        numbers = ((one, value) for one, value in driver.items() if isinstance(value, int))
        texts = {one: text for one, text in counters.items() if one != "path"}
        yield DeviceCounters(
            kind=CounterKind.NET,
            device=name,
            address=_behind(counters.get("path")),
            counts=(*_counts(texts), *((one, value) for one, value in numbers if value >= 0)),
            tx_bytes_per_second=_rate(rate, 0),
            rx_bytes_per_second=_rate(rate, 1),
        )


def _behind(path: Raw) -> str | None:
    """The PCI function nearest to a device in its resolved path."""
    places = reversed(path.split("/")) if isinstance(path, str) else ()
    return next((place for place in places if ADDRESS.fullmatch(place)), None)


Port = tuple[str, str, str]
"""Kind, name and port; "" for an interface."""


class CountersReader:
    """Reads what ports carry at each call, all counters and which there are once in many."""

    def __init__(
        self,
        tree: Tree,
        clock: Callable[[], float] = time.monotonic,
        begin: Callable[[], Statistics] | None = None,
    ) -> None:
        self._tree, self._clock, self._begin = tree, clock, begin
        self._statistics: Statistics | None = None
        self._reads = 0
        self._whole: dict[str, Raw] = {}
        self._carried: dict[Port, tuple[float, tuple[int, ...]]] = {}
        """When, and how many bytes each port had sent and received."""
        self._aer: tuple[str, ...] = ()
        self._ras: dict[str, tuple[str, ...]] = {}
        self._rdma: dict[str, dict[str, tuple[str, ...]]] = {}
        self._bytes: dict[str, dict[str, tuple[tuple[str, ...], int]]] = {}
        self._net: tuple[str, ...] = ()
        self._drivers: dict[str, str] = {}
        self._left_out: list[str] = []

    def __call__(self) -> Raw:
        """Ask once."""
        if self._reads % FULL_READS == 0:
            self._list()
        if self._reads % WHOLE_READS == 0:
            self._whole = self._all()
        self._reads += 1
        return {**self._whole, "rates": self._rates()}

    def _rates(self) -> dict[str, Raw]:
        """Bytes a second of each port since the look before."""
        found: dict[str, Any] = {"rdma": {}, "net": {}}
        for port, folder, scale, files in self._counting():
            texts = [self._tree.text(f"{folder}/{file}") for file in files]
            known = [whole(text) for text in texts if isinstance(text, str)]
            counts = tuple(count * scale for count in known if count is not None)
            if len(counts) != len(files):
                continue
            now, before = self._clock(), self._carried.get(port)
            if before is not None and now - before[0] < LEAST_SECONDS:
                continue
            self._carried[port] = now, counts
            # A counter that began anew, or was taken away for a while, tells nothing of this time.
            if before is None or any(a < b for a, b in zip(counts, before[1], strict=True)):
                continue
            seconds = now - before[0]
            rates = [
                float(f"{(a - b) / seconds:.4g}") for a, b in zip(counts, before[1], strict=True)
            ]
            kind, name, number = port
            if number:
                found[kind].setdefault(name, {})[number] = rates
            else:
                found[kind][name] = rates
        return found

    def _counting(self) -> Iterator[tuple[Port, str, int, tuple[str, ...]]]:
        """Each port with the folder and the files of its bytes, and the bytes in one count."""
        for name, ports in self._bytes.items():
            for number, (files, scale) in ports.items():
                yield ("rdma", name, number), f"{RDMA}/{name}/ports/{number}", scale, files
        for name in self._net:
            yield ("net", name, ""), f"{NET}/{name}", 1, BYTES

    def _all(self) -> dict[str, Raw]:
        tree = self._tree
        statistics = self._of_drivers()
        return {
            "absent": tree.absent,
            "aer": {one: answers(tree, f"{PCI}/{one}", AER) for one in self._aer},
            "ras": {one: answers(tree, f"{PCI}/{one}/ras", at) for one, at in self._ras.items()},
            "rdma": {
                name: {
                    "path": tree.resolved(f"{RDMA}/{name}"),
                    "ports": {port: self._port(name, port, at) for port, at in ports.items()},
                }
                for name, ports in self._rdma.items()
            },
            "net": {
                name: {"path": tree.resolved(f"{NET}/{name}")}
                | answers(tree, f"{NET}/{name}", NET_FILES)
                | answers(tree, f"{NET}/{name}/{NET_DIR}", NET_STATISTICS)
                | ({"driver": statistics[name]} if name in statistics else {})
                for name in self._net
            },
            LEFT_OUT: self._left_out,
        }

    def _list(self) -> None:
        tree = self._tree
        devices = [one for one in tree.names(PCI) if _counts_errors(tree, one)]
        kept = devices[:MOST_DEVICES]
        self._aer = tuple(one for one in kept if tree.exists(f"{PCI}/{one}/{AER[0]}"))
        self._ras = {one: blocks for one in kept if (blocks := _blocks(tree, one))}
        names = tree.names(RDMA)
        self._rdma = {name: _ports(tree, name) for name in names[:MOST_PORTS]}
        self._bytes = {
            name: {port: found for port, paths in ports.items() if (found := _carrying(paths))}
            for name, ports in self._rdma.items()
        }
        wired = [one for one in tree.names(NET) if tree.exists(f"{NET}/{one}/device")]
        self._net = tuple(wired[:MOST_PORTS])
        paths = ((name, tree.resolved(f"{NET}/{name}/device/driver")) for name in self._net)
        self._drivers = {name: path.rpartition("/")[2] for name, path in paths if path}
        self._left_out = [
            *left_out("devices with error counters", devices, MOST_DEVICES),
            *left_out("counters of RDMA devices", names, MOST_PORTS),
            *left_out("counters of network interfaces", wired, MOST_PORTS),
        ]

    def _of_drivers(self) -> dict[str, dict[str, int]]:
        """What `ethtool -S` shows, where the tree is this machine's own and has such adapters."""
        if self._begin is None or not self._drivers:
            return {}
        if self._statistics is None:
            self._statistics = self._begin()
        return self._statistics(tuple(self._drivers.items()))

    def _port(self, name: str, port: str, folders: Sequence[str]) -> dict[str, Raw]:
        found: dict[str, Raw] = {}
        for path in folders:
            folder, _, counter = path.rpartition("/")
            found |= answers(self._tree, f"{RDMA}/{name}/ports/{port}/{folder}", (counter,))
        return found


def _counts_errors(tree: Tree, address: str) -> bool:
    kind = tree.text(f"{PCI}/{address}/class")
    return isinstance(kind, str) and kind.startswith(CLASSES)


def _blocks(tree: Tree, address: str) -> tuple[str, ...]:
    names = tree.names(f"{PCI}/{address}/ras")
    return tuple(one for one in names if one.endswith("_err_count"))[:MOST_COUNTERS]


def _ports(tree: Tree, name: str) -> dict[str, tuple[str, ...]]:
    """The files of each port that are known to mean something."""
    from ...hardware.counters import known  # what they mean is needed where there are some

    wanted = known(CounterKind.RDMA)
    found = {}
    for port in tree.names(f"{RDMA}/{name}/ports")[:MOST_PORTS]:
        place = f"{RDMA}/{name}/ports/{port}"
        found[port] = tuple(
            f"{folder}/{one}"
            for folder in ("counters", "hw_counters")
            for one in tree.names(f"{place}/{folder}")
            if one in wanted
        )
    return found


def _carrying(paths: Sequence[str]) -> tuple[tuple[str, ...], int] | None:
    """The files of a port that count its bytes, and the bytes in one count of theirs."""
    from ...hardware.counters import meaning, traffic_files

    files = traffic_files(CounterKind.RDMA, paths)
    meant = None if files is None else meaning(CounterKind.RDMA, files[0].rpartition("/")[2])
    return None if files is None or meant is None else (files, meant.scale)


def _statistics() -> Statistics:
    from .driver_statistics import DriverStatistics  # only nodes with such adapters need it

    return DriverStatistics()


def _reader() -> Callable[[], Raw]:
    return CountersReader(live_tree(), begin=_statistics)


SOURCE = Source(
    id="counters", interval_seconds=2.0, deadline_seconds=5.0, reader=_reader, parse=parse
)
