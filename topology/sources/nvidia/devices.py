"""The GPUs that NVML shows to this process, and which of them are gone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ...model.part import Raw
from ...model.source import SourceAbsent
from .library import GpuLost, NvmlLibrary, words_of

T = TypeVar("T")

_MOST_DEVICES = 4096
"""Far more than any node has: a driver that counts more than these is not plausible."""
_RETRY_CALLS = 30
"""A lost GPU that the driver still counts is opened again after so many calls (after a reset)."""


class NvmlDevice:
    """One GPU: its handle and what it answered last."""

    def __init__(self, index: int, handle: object) -> None:
        self.index = index
        self.handle = handle
        self.pci: Raw = None
        self.lasting: dict[str, Raw] | None = None
        self.answers: dict[str, Raw] = {}
        self.lost: str | None = None
        self.refused: str | None = None

    def guarded(self, ask: Callable[[], T]) -> T | None:
        """Run `ask` unless the GPU is gone; a GPU that disappears meanwhile is marked lost."""
        if self.lost is not None or self.refused is not None:
            return None
        try:
            return ask()
        except GpuLost as lost:
            self.lost = str(lost)
            return None

    def raw(self) -> dict[str, Raw]:
        """Its last answers, with "lost" or "refused" where the driver no longer gives it."""
        state = {"index": self.index, "nvmlDeviceGetPciInfo": self.pci}
        if self.lost is not None:
            state["lost"] = self.lost
        if self.refused is not None:
            state["refused"] = self.refused
        return state | (self.lasting or {}) | self.answers


class NvmlDevices:
    """Starts NVML when needed and keeps the list of GPUs; leaves NVML running at the end."""

    def __init__(self, start: Callable[[], NvmlLibrary]) -> None:
        self._start = start
        self._library: NvmlLibrary | None = None
        self._devices: list[NvmlDevice] = []
        self._opened: list[NvmlDevice] = []
        self._calls = 0
        self._count = 0

    @property
    def known(self) -> list[NvmlDevice]:
        """The GPUs that are open by now, also while the driver is still asked for the others."""
        return list(self._devices or self._opened)

    def _counted(self, library: NvmlLibrary) -> int:
        """How many GPUs NVML counts. Raises SourceAbsent and RuntimeError."""
        try:
            count = library.ask("nvmlDeviceGetCount")
        except GpuLost as lost:
            raise SourceAbsent(f"NVML does not count the GPUs: {lost}", "lost") from lost
        if not isinstance(count, int):
            raise RuntimeError(f"NVML does not count the GPUs: {_error(count)}")
        if not 0 <= count <= _MOST_DEVICES:
            raise RuntimeError(f"NVML counts {count} GPUs, which no node has")
        if count == 0 and not self._devices:
            raise SourceAbsent("NVML works but shows no GPU to this process")
        return count

    def current(self) -> tuple[NvmlLibrary, list[NvmlDevice]]:
        """The library and all GPUs seen so far.

        Raises SourceAbsent when NVML cannot start or shows no GPU. When NVML stops counting GPUs,
        the next call starts it again.
        """
        if self._library is None:
            self._library = self._start()
            self._calls = 0
        library = self._library
        try:
            count = self._counted(library)
        except (SourceAbsent, RuntimeError):
            self._restart_later()
            raise
        self._calls += 1
        self._count = count
        known = sum(device.lost is None for device in self._devices)
        if count != known and (known == 0 or count < known or self._calls % _RETRY_CALLS == 1):
            self._recount(library, count)
        return library, self._devices

    def confirmed(self) -> list[NvmlDevice]:
        """Count once more behind a single reading: GPUs can come and go while it asks."""
        counted: Raw = None
        if self._library is not None:
            with suppress(GpuLost):
                counted = self._library.ask("nvmlDeviceGetCount")
        if counted != self._count:
            self._calls = 0  # a recount is due then, also where there are more
            self.current()
        return self._devices

    def _recount(self, library: NvmlLibrary, count: int) -> None:
        """Open all handles again; GPUs that have disappeared are lost."""
        before = {_bus_id(device.pci): device for device in self._devices if _bus_id(device.pci)}
        opened: list[NvmlDevice] = []
        self._opened = opened
        opened.extend(_open(library, index) for index in range(count))
        for device in opened:
            last = before.pop(_bus_id(device.pci), None)
            if last is not None and device.lost is not None:
                device.lasting, device.answers = last.lasting, last.answers
        for device in before.values():
            device.lost = device.lost or "the driver does not list this GPU any more"
        self._devices = opened + list(before.values())

    def _restart_later(self) -> None:
        library, self._library = self._library, None
        if library is not None:
            try:
                library.ask("nvmlShutdown")
            except GpuLost:
                return


def _open(library: NvmlLibrary, index: int) -> NvmlDevice:
    try:
        handle = library.binding.nvmlDeviceGetHandleByIndex(index)
    except library.binding.NVMLError as error:
        device = NvmlDevice(index, None)
        if getattr(error, "value", None) == library.LOST:
            device.lost = words_of(error)
        else:
            device.refused = f"{type(error).__name__}: {words_of(error)}"
        return device
    device = NvmlDevice(index, handle)
    device.pci = device.guarded(
        lambda: library.first(("nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo"), handle)
    )
    return device


def _bus_id(pci: Raw) -> str:
    return str(pci.get("busId", "")) if isinstance(pci, dict) else ""


def _error(answer: Raw) -> str:
    return str(answer.get("error")) if isinstance(answer, dict) else str(answer)
