"""HIP's runtime interface, libamdhip64, in the same shape. Tried with a stand-in library only.

It has no call that names an architecture without a structure that changes between releases, so
that the kernel's own list of GPUs (/sys/class/kfd) tells it, matched by PCI address.
"""

import ctypes
from pathlib import Path
from typing import Any, Optional

from .library import DriverLibrary, EngineError
from .memory import Memory
from .runtime import Runtime

_DEFAULT = 4
"""hipMemcpyDefault: the runtime sees from the addresses where they are."""
_NUMA_USER = 0x20000000
"""hipHostMallocNumaUser; without it HIP takes the node next to the current GPU."""
_NODES = Path("/sys/class/kfd/kfd/topology/nodes")


class Hip(Runtime):
    """The devices of one libamdhip64."""

    is_hip = True
    names = {  # noqa: RUF012
        "count": "hipGetDeviceCount",
        "device": "hipDeviceGet",
        "name": "hipDeviceGetName",
        "address": "hipDeviceGetPCIBusId",
        "total": "hipDeviceTotalMem",
        "synchronize": "hipDeviceSynchronize",
        "peer": "hipDeviceCanAccessPeer",
        "memory_info": "hipMemGetInfo",
        "allocate": "hipMalloc",
        "free": "hipFree",
        "allocate_host": "hipHostMalloc",
        "free_host": "hipHostFree",
        "pin": "hipHostRegister",
        "unpin": "hipHostUnregister",
        "stream": "hipStreamCreateWithFlags",
        "drop_stream": "hipStreamDestroy",
        "event": "hipEventCreateWithFlags",
        "record": "hipEventRecord",
        "drop_event": "hipEventDestroy",
        "wait": "hipStreamWaitEvent",
        "await": "hipEventSynchronize",
        "elapsed": "hipEventElapsedTime",
        "load": "hipModuleLoadData",
        "unload": "hipModuleUnload",
        "function": "hipModuleGetFunction",
        "copy": "hipMemcpyAsync",
        "clear": "hipMemset",
        "launch": "hipModuleLaunchKernel",
    }
    _host_flags = Runtime._host_flags | _NUMA_USER

    def __init__(self, handle: Any, nodes: Path = _NODES) -> None:
        """Initialise the runtime; EngineError if it refuses. `nodes`: the kernel's list of GPUs."""
        names = ("hipGetErrorName", "hipGetErrorString")
        super().__init__(DriverLibrary(handle, names, errors_by_value=True))
        self._library.call("hipInit", ctypes.c_uint(0))
        self._nodes = nodes

    def uuid(self, index: int) -> Optional[str]:
        """Partitions of one GPU share it, so that none is told."""
        return None

    def architecture(self, index: int) -> str:
        """See Runtime; EngineError where the kernel does not list the GPU."""
        number = self._properties(index)["gfx_target_version"]
        major, minor, step = number // 10000, number // 100 % 100, number % 100
        return f"gfx{major}{minor:x}{step:x}"

    def multiprocessors(self, index: int) -> int:
        """See Runtime; EngineError where the kernel does not list the GPU."""
        found = self._properties(index)
        return found["simd_count"] // max(1, found["simd_per_cu"])

    def _properties(self, index: int) -> "dict[str, int]":
        """What the kernel says of a GPU, by name."""
        address = self.pci_address(index) or ""
        for path in sorted(self._nodes.glob("*/properties")):
            words = [line.split() for line in path.read_text().splitlines()]
            found = {each[0]: int(each[1]) for each in words if len(each) == 2}
            place = found.get("location_id", 0)
            here = (
                f"{found.get('domain', 0):04x}:{place >> 8:02x}:{place >> 3 & 31:02x}.{place & 7}"
            )
            if found.get("gfx_target_version") and address.startswith(here[:-2]):
                return found
        raise EngineError(f"/sys/class/kfd does not list {address or f'GPU {index}'}")

    def _open(self, index: int) -> None:
        self._use(index)
        self._library.call("hipFree", None)  # the usual way to create a context

    def _use(self, index: int) -> None:
        self._library.call("hipSetDevice", index)

    def _reach(self, dst: int) -> None:
        self._library.call("hipDeviceEnablePeerAccess", dst, ctypes.c_uint(0))

    def copy(self, to: int, source: int, size_bytes: int, stream: Any) -> None:
        """See Runtime."""
        ends = ctypes.c_void_p(to), ctypes.c_void_p(source)
        self._here("copy", *ends, ctypes.c_size_t(size_bytes), _DEFAULT, stream)

    def _clear(self, memory: Memory) -> None:
        size = ctypes.c_size_t(memory.size_bytes)
        self._here("clear", ctypes.c_void_p(memory.address), 0, size)
