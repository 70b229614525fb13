"""Watches the GPUs and processes of jobs for some seconds, in a thread of its own."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ...model.source import SourceAbsent
from ...sources.files.tree import Tree
from ...sources.linux.process_files import wait_channel
from ...sources.nvidia.gpm import GpmMeter
from ...sources.nvidia.library import GpuLost, NvmlLibrary, open_library

SLICE_SECONDS = 0.25
"""Of one reading; longer where it is watched for longer, so that there are MOST_SLICES at most."""
MOST_SLICES = 12
DEADLINE_SECONDS = 0.5
"""How long the driver is waited for at the end."""
MOST_GPUS, MOST_PROCESSES = 64, 64
MIB_PER_GB = 1e9 / 2**20


class GpuSlice(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU over a fraction of a second."""

    busy: float
    """Share of the time in which a kernel ran, one of NCCL that waits too: 0 to 1."""
    sm: float
    """Share of the multiprocessors that were taken, over the same time."""
    tensor: float | None = None
    dram: float | None = None
    """Share of the memory's bandwidth."""
    nvlink_gbs: float | None = None
    """Payload, the mean of sent and received."""
    pcie_gbs: float | None = None


class JobLoads(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen while somebody watched."""

    gpus: Mapping[str, tuple[GpuSlice, ...]] = {}
    """By PCI address, oldest first; without GPUs that give no such figures."""
    sleeps: Mapping[int, Mapping[str, int]] = {}
    """By process: where its first thread was, as functions of the kernel, and how often; "" for
    one that runs or whose place is not told."""


class LoadWatch:
    """One watch: `begin`, something else for a while, then `end`."""

    def __init__(
        self,
        addresses: Sequence[str],
        pids: Sequence[int],
        tree: Tree,
        start: Callable[[], NvmlLibrary] = open_library,
        slice_seconds: float = SLICE_SECONDS,
    ) -> None:
        self._addresses, self._pids = addresses[:MOST_GPUS], pids[:MOST_PROCESSES]
        self._tree, self._start, self._every = tree, start, slice_seconds
        self._stop = threading.Event()
        self._slices: dict[str, list[GpuSlice]] = {}
        self._sleeps: dict[int, Counter[str]] = {}
        self._thread = threading.Thread(target=self._work, name="loads of jobs", daemon=True)

    def begin(self) -> None:
        """Watch from now on."""
        self._thread.start()

    def end(self) -> JobLoads:
        """What was seen; of a driver that hangs, what it said before."""
        self._stop.set()
        self._thread.join(DEADLINE_SECONDS)
        return JobLoads(
            gpus={address: tuple(found) for address, found in self._slices.copy().items()},
            sleeps={pid: dict(places) for pid, places in self._sleeps.copy().items()},
        )

    def _work(self) -> None:
        meters = self._meters()
        turn = 0
        while not self._stop.wait(self._every / 3):
            self._look_at_processes()
            turn += 1
            if turn % 3 == 0:
                self._read(meters)
        for meter in meters.values():
            meter.close()

    def _meters(self) -> dict[str, GpmMeter]:
        found: dict[str, GpmMeter] = {}
        try:
            library = self._start()
        except SourceAbsent:
            return found
        for address in self._addresses:
            try:
                handle = library.handle("nvmlDeviceGetHandleByPciBusId", address.encode())
                meter = None if handle is None else GpmMeter(library, handle)
            except GpuLost:
                continue
            if meter is not None and meter.supported:
                found[address] = meter
        return found

    def _read(self, meters: Mapping[str, GpmMeter]) -> None:
        for address, meter in meters.items():
            try:
                found = slice_of(meter.since_last())
            except GpuLost:
                continue
            if found is not None:
                self._slices.setdefault(address, []).append(found)

    def _look_at_processes(self) -> None:
        for pid in self._pids:
            text = wait_channel(self._tree, pid)
            place = text if isinstance(text, str) and text.replace("_", "").isalnum() else ""
            self._sleeps.setdefault(pid, Counter())["" if place == "0" else place[:60]] += 1


Watch = Callable[[Sequence[str], Sequence[int], Tree, float], LoadWatch]


def watch(addresses: Sequence[str], pids: Sequence[int], tree: Tree, seconds: float) -> LoadWatch:
    """Begin to watch for about so many seconds."""
    found = LoadWatch(
        addresses, pids, tree, slice_seconds=max(SLICE_SECONDS, seconds / MOST_SLICES)
    )
    found.begin()
    return found


def slice_of(metrics: Mapping[str, float]) -> GpuSlice | None:
    """What GPM gave over a moment; None without the two figures that all else rests on."""
    sane = {name: value for name, value in metrics.items() if math.isfinite(value) and value >= 0}
    busy, sm = _share(sane.get("busy")), _share(sane.get("sm"))
    if busy is None or sm is None:
        return None
    return GpuSlice(
        busy=busy,
        sm=sm,
        tensor=_share(sane.get("tensor")),
        dram=_share(sane.get("dram")),
        nvlink_gbs=_rate(sane, "nvlink"),
        pcie_gbs=_rate(sane, "pcie"),
    )


def _share(percent: float | None) -> float | None:
    return percent / 100 if percent is not None and percent <= 101 else None


def _rate(metrics: Mapping[str, float], kind: str) -> float | None:
    sent, received = metrics.get(f"{kind}_tx"), metrics.get(f"{kind}_rx")
    if sent is None or received is None:
        return None
    return (sent + received) / 2 / MIB_PER_GB
