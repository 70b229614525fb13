"""The GPUs that amdsmi shows to this process."""

from __future__ import annotations

from collections.abc import Callable

from ...model.part import Raw
from ...model.source import SourceAbsent
from .library import AmdsmiLibrary, refusal_text

_BDF = "amdsmi_get_gpu_device_bdf"
_MOST_DEVICES = 1024
"""Far more parts of GPUs than any node has: a library that lists more than these is not plausible.
"""
_ALL_REFUSED_CALLS = 30
"""Where no GPU gives its address, the library is started again after so many calls."""


class AmdsmiDevice:
    """One GPU: its handle and what it answered last."""

    def __init__(self, index: int, handle: object, bdf: Raw) -> None:
        self.index = index
        self.handle = handle
        self.bdf = bdf
        self.lasting: dict[str, Raw] = {}
        self.answers: dict[str, Raw] = {}

    def raw(self) -> dict[str, Raw]:
        """Its last answers."""
        return {"index": self.index, _BDF: self.bdf} | self.lasting | self.answers


class AmdsmiDevices:
    """Starts amdsmi when needed and keeps the list of GPUs; never shuts it down to leave."""

    def __init__(self, start: Callable[[], AmdsmiLibrary]) -> None:
        self._start = start
        self._library: AmdsmiLibrary | None = None
        self._devices: list[AmdsmiDevice] = []
        self._calls = 0

    @property
    def known(self) -> list[AmdsmiDevice]:
        """The GPUs whose handles are known by now."""
        return list(self._devices)

    def current(self) -> tuple[AmdsmiLibrary, list[AmdsmiDevice]]:
        """The library and all GPUs.

        Raises SourceAbsent when amdsmi cannot start or shows no GPU, and RuntimeError when it does
        not list them; both make the next call start it again. The library lists the GPUs only once,
        when it starts, so a GPU that is added later needs a restart too.
        """
        if self._library is None:
            self._library = self._start()
            self._devices = []
        library = self._library
        if not self._devices:
            try:
                handles = library.handles()
            except Exception as error:
                self._restart_later()
                raise RuntimeError(
                    f"amdsmi does not list the GPUs: {refusal_text(error)}"
                ) from error
            if not handles:
                self._restart_later()
                raise SourceAbsent("amdsmi works but shows no GPU to this process")
            if len(handles) > _MOST_DEVICES:
                self._restart_later()
                raise RuntimeError(f"amdsmi lists {len(handles)} GPUs, which no node has")
            self._devices = [
                AmdsmiDevice(index, handle, library.ask(_BDF, handle))
                for index, handle in enumerate(handles)
            ]
        self._calls += 1
        blind = all(isinstance(device.bdf, dict) for device in self._devices)
        if blind and self._calls % _ALL_REFUSED_CALLS == 0:
            self._restart_later()
        return library, self._devices

    def confirm(self, library: AmdsmiLibrary) -> None:
        """List the GPUs once more behind a single reading.

        Raises RuntimeError where they are not as many as they were when it began.
        """
        try:
            count = len(library.handles())
        except Exception as error:
            raise RuntimeError(f"amdsmi no longer lists the GPUs: {refusal_text(error)}") from error
        if count != len(self._devices):
            raise RuntimeError(f"amdsmi lists {count} GPUs, after {len(self._devices)} before")

    def _restart_later(self) -> None:
        library, self._library = self._library, None
        self._devices = []
        if library is not None:
            library.close()
