"""CUDA's driver interface: libcuda.so.1, which every NVIDIA driver brings, from CUDA 11.4 on."""

import contextlib
import ctypes
import uuid
from typing import Any, Optional

from .library import DriverLibrary, EngineError
from .memory import Memory
from .runtime import Runtime

_MULTIPROCESSORS, _COMPUTE_MODE, _L2_CACHE_SIZE, _MAJOR, _MINOR = 16, 20, 38, 75, 76
"""Numbers of cuDeviceGetAttribute, from cuda.h."""
_REMARKS = {
    2: "; its compute mode is Prohibited: no process may use it",
    3: "; its compute mode is Exclusive_Process: one process at a time may use it",
}
"""By compute mode."""
_STUB = 34
"""What every call of the toolkit's stub answers, also those that would say it in words."""
_OLDEST = 11040
"""Version that cuDriverGetVersion answers for CUDA 11.4."""


class Cuda(Runtime):
    """The devices of one libcuda."""

    is_hip = False
    names = {  # noqa: RUF012
        "count": "cuDeviceGetCount",
        "device": "cuDeviceGet",
        "name": "cuDeviceGetName",
        "address": "cuDeviceGetPCIBusId",
        "total": "cuDeviceTotalMem_v2",
        "synchronize": "cuCtxSynchronize",
        "peer": "cuDeviceCanAccessPeer",
        "memory_info": "cuMemGetInfo_v2",
        "allocate": "cuMemAlloc_v2",
        "free": "cuMemFree_v2",
        "allocate_host": "cuMemHostAlloc",
        "free_host": "cuMemFreeHost",
        "pin": "cuMemHostRegister_v2",
        "unpin": "cuMemHostUnregister",
        "stream": "cuStreamCreate",
        "drop_stream": "cuStreamDestroy_v2",
        "event": "cuEventCreate",
        "record": "cuEventRecord",
        "drop_event": "cuEventDestroy_v2",
        "wait": "cuStreamWaitEvent",
        "await": "cuEventSynchronize",
        "elapsed": "cuEventElapsedTime",
        "load": "cuModuleLoadData",
        "unload": "cuModuleUnload",
        "function": "cuModuleGetFunction",
        "copy": "cuMemcpyAsync",
        "clear": "cuMemsetD8_v2",
        "launch": "cuLaunchKernel",
    }

    def __init__(self, handle: Any) -> None:
        """Initialise the driver, which takes up to a second; EngineError if it refuses."""
        names = ("cuGetErrorName", "cuGetErrorString")
        super().__init__(DriverLibrary(handle, names, errors_by_value=False))
        try:
            self._library.call("cuInit", ctypes.c_uint(0))
        except EngineError as error:
            stub = "libcuda.so.1 is the toolkit's stub for linking, not the driver's"
            raise EngineError(stub) if error.code == _STUB else error from None
        if self.version() < _OLDEST:
            raise EngineError(f"the driver is of CUDA {self.version_text()}: 11.4 is needed")
        self._contexts: dict[int, Any] = {}

    def version(self) -> int:
        """The newest CUDA that the driver serves, as 12040 for 12.4."""
        number = ctypes.c_int()
        self._library.call("cuDriverGetVersion", ctypes.byref(number))
        return number.value

    def version_text(self) -> str:
        """The same as text: 12.4."""
        return f"{self.version() // 1000}.{self.version() % 1000 // 10}"

    def uuid(self, index: int) -> Optional[str]:
        """See Runtime."""
        raw = ctypes.create_string_buffer(16)
        for name in ("cuDeviceGetUuid_v2", "cuDeviceGetUuid"):  # the first knows MIG, since 11.4
            with contextlib.suppress(EngineError):
                self._library.call(name, raw, self.handle(index))
                prefix = "MIG-" if " MIG " in self.name(index) else "GPU-"
                return prefix + str(uuid.UUID(bytes=raw.raw))
        return None

    def architecture(self, index: int) -> str:
        """See Runtime."""
        return f"{self._attribute(_MAJOR, index)}.{self._attribute(_MINOR, index)}"

    def multiprocessors(self, index: int) -> int:
        """See Runtime."""
        return self._attribute(_MULTIPROCESSORS, index)

    def l2_bytes(self, index: int) -> Optional[int]:
        """See Runtime."""
        with contextlib.suppress(EngineError):
            return self._attribute(_L2_CACHE_SIZE, index) or None
        return None

    def _attribute(self, number: int, index: int) -> int:
        value = ctypes.c_int()
        place = ctypes.byref(value)
        self._library.call("cuDeviceGetAttribute", place, number, self.handle(index))
        return value.value

    def _open(self, index: int) -> None:
        # Never released: the process needs its contexts until it ends.
        context = ctypes.c_void_p()
        self._library.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.handle(index))
        self._contexts[index] = context

    def _remark(self, index: int) -> str:
        with contextlib.suppress(EngineError):
            return _REMARKS.get(self._attribute(_COMPUTE_MODE, index), "")
        return ""

    def _use(self, index: int) -> None:
        self._library.call("cuCtxSetCurrent", self._contexts[index])

    def _reach(self, dst: int) -> None:
        self._library.call("cuCtxEnablePeerAccess", self._contexts[dst], ctypes.c_uint(0))

    def copy(self, to: int, source: int, size_bytes: int, stream: Any) -> None:
        """See Runtime."""
        ends = ctypes.c_void_p(to), ctypes.c_void_p(source)
        self._here("copy", *ends, ctypes.c_size_t(size_bytes), stream)

    def _clear(self, memory: Memory) -> None:
        address, size = ctypes.c_void_p(memory.address), ctypes.c_size_t(memory.size_bytes)
        self._here("clear", address, ctypes.c_ubyte(0), size)
