"""The few driver calls that torch lacks, by ctypes on the library that torch uses.

It uses CUDA's driver library instead of the runtime: libcuda is always a shared library that the
process has loaded, while torch may link the runtime statically. nvbandwidth also calls
`cuMemcpyAsync` on a stream of the source for its "memcpy write, CE" tests. torch's own `copy_`
between devices records and awaits an event on both sides of every copy, which takes about 1 % of a
512 MiB copy and most of a small one.
"""

import contextlib
import ctypes
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

CopyCall = Callable[[int, int, int, int], None]
"""(destination pointer, source pointer, bytes, stream) queues a copy; RuntimeError if refused."""

_HIP_MEMCPY_DEFAULT = 4


class Driver:
    """CUDA or HIP below torch; an answer is None where the driver gives none."""

    def __init__(self, is_hip: bool) -> None:
        self._is_hip = is_hip
        self._prefix = "hip" if is_hip else "cu"
        self._library: Any = driver_library(is_hip)

    def pci_address(self, index: int) -> Optional[str]:
        """PCI address of a device by index, as the driver writes it."""
        text = ctypes.create_string_buffer(64)
        if not self._ask("DeviceGetPCIBusId", text, 64, self._handle(index)):
            return None
        return text.value.decode("ascii", "replace").lower()

    def uuid(self, index: int) -> Optional[str]:
        """UUID of a device; NVIDIA only."""
        raw = ctypes.create_string_buffer(16)
        handle = self._handle(index)
        if self._is_hip or not (
            self._ask("DeviceGetUuid_v2", raw, handle) or self._ask("DeviceGetUuid", raw, handle)
        ):
            return None
        return str(uuid.UUID(bytes=raw.raw))

    def open_contexts(self, indices: Sequence[int]) -> None:
        """Create the contexts for torch in parallel, since each takes about half a second.

        Only on CUDA. A context that fails here is created later by torch, which says why.
        """
        if self._is_hip or len(indices) < 2:
            return
        # Never released, because the worker needs its contexts until it ends.
        contexts = [ctypes.c_void_p() for _ in indices]
        openers = [
            threading.Thread(
                target=self._ask,
                args=("DevicePrimaryCtxRetain", ctypes.byref(place), self._handle(index)),
                daemon=True,
            )
            for place, index in zip(contexts, indices)
        ]
        for opener in openers:
            opener.start()
        for opener in openers:
            opener.join()

    def copy_call(self) -> Optional[CopyCall]:
        """A function that queues a copy of the copy engine, or None."""
        name = self._prefix + "MemcpyAsync"
        try:
            function = self._library[name]
        except (AttributeError, TypeError):
            return None
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        if self._is_hip:
            function.argtypes = (pointer, pointer, size, ctypes.c_int, pointer)
        else:
            function.argtypes = (pointer, pointer, size, pointer)
        function.restype = ctypes.c_int
        is_hip = self._is_hip

        def copy(to: int, source: int, count: int, stream: int) -> None:
            if is_hip:
                code = function(to, source, count, _HIP_MEMCPY_DEFAULT, stream)
            else:
                code = function(to, source, count, stream)
            if code != 0:
                raise RuntimeError(f"{name} answered error {code}")

        return copy

    def _handle(self, index: int) -> int:
        handle = ctypes.c_int(index)
        self._ask("DeviceGet", ctypes.byref(handle), index)
        return handle.value

    def _ask(self, name: str, *arguments: Any) -> bool:
        try:
            return bool(self._library[self._prefix + name](*arguments) == 0)
        except (AttributeError, TypeError):
            return False


def driver_library(is_hip: bool) -> Any:
    """The initialised library that torch calls, or None."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(_loaded("libamdhip64.so") if is_hip else "libcuda.so.1")
        library["hipInit" if is_hip else "cuInit"](0)
        return library
    return None


def kernel_driver_version(is_hip: bool) -> Optional[str]:
    """Version of the loaded kernel driver, from /proc or /sys."""
    try:
        if is_hip:
            return Path("/sys/module/amdgpu/version").read_text().strip() or None
        first = Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except (OSError, IndexError):
        return None
    numbers = [word for word in first.split() if word.replace(".", "").isdigit() and "." in word]
    return numbers[0] if numbers else None


def _loaded(name: str) -> str:
    """Path of a library that this process has loaded, else its bare name."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if name in path:
            return "/" + path
    return name
