"""Host memory for copies with GPUs: pinned by the driver, pinned afterwards, or pageable.

"Pinned" memory comes from the driver (cuMemHostAlloc, portable), as in nvbandwidth. If the node of
the pages must be known, the calling thread touches ordinary pages first and then pins them
(cuMemHostRegister), because Linux puts a page on the node of the CPU that touches it first.
"""

import contextlib
import ctypes
import mmap
from typing import Any, Optional

from .numa import page_node

_PORTABLE = 1
_HIP_FOLLOW_THE_CALLER = 0x20000000
"""hipHostMallocNumaUser; without it HIP takes the node next to the current GPU."""
KINDS = ("pinned", "registered", "pageable")


class HostBuffer:
    """Host memory that a driver can copy from and to; `close` frees it.

    The CPUs of the creating thread decide on the node; CUDA needs a current context. RuntimeError
    if the driver refuses, MemoryError or OSError if the system does.
    """

    def __init__(self, torch: Any, library: Any, kind: str, size_bytes: int) -> None:
        """`library`: driver_library(...), None in the self-test. `kind`: one of KINDS."""
        self.kind = kind if library is not None else "pageable"
        self.size_bytes = size_bytes
        self._library = library
        self._prefix = "hip" if getattr(torch.version, "hip", None) else "cu"
        self._pages: Optional[mmap.mmap] = None
        self.address = self._from_driver() if self.kind == "pinned" else self._touched()
        self.node = page_node(self.address + size_bytes // 2)
        """The NUMA node of the page in the middle; None where the kernel does not say."""
        if self.kind == "registered":
            try:
                self._ask("MemHostRegister_v2", "HostRegister", size_bytes, _PORTABLE)
            except RuntimeError:
                self.kind = "pageable"
                self.close()
                raise
        memory = (ctypes.c_uint8 * size_bytes).from_address(self.address)
        self.tensor: Any = torch.frombuffer(memory, dtype=torch.uint8)

    def close(self) -> None:
        """Free the memory; all copies must be done."""
        self.tensor = None
        if self.address and self.kind == "pinned":
            self._ask("MemFreeHost", "HostFree")
        elif self.address and self.kind == "registered":
            self._ask("MemHostUnregister", "HostUnregister")
        self.address = 0
        if self._pages is not None:
            self._pages.close()
            self._pages = None

    def _from_driver(self) -> int:
        pointer = ctypes.c_void_p()
        if self._prefix == "hip":
            name, flags = "hipHostMalloc", _PORTABLE | _HIP_FOLLOW_THE_CALLER
        else:
            name, flags = "cuMemHostAlloc", _PORTABLE
        size = ctypes.c_size_t(self.size_bytes)
        _check(name, self._library[name](ctypes.byref(pointer), size, ctypes.c_uint(flags)))
        return int(pointer.value or 0)

    def _touched(self) -> int:
        self._pages = mmap.mmap(-1, self.size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(AttributeError, OSError):
            self._pages.madvise(mmap.MADV_HUGEPAGE)  # touched pages are pinned faster
        # The map can only be closed without views of it.
        address = ctypes.addressof(ctypes.c_uint8.from_buffer(self._pages))
        ctypes.memset(address, 0, self.size_bytes)
        return address

    def _ask(self, cuda: str, hip: str, *arguments: int) -> None:
        name = self._prefix + (hip if self._prefix == "hip" else cuda)
        sizes = [ctypes.c_size_t(size) for size in arguments[:1]]
        flags = [ctypes.c_uint(flag) for flag in arguments[1:]]
        _check(name, self._library[name](ctypes.c_void_p(self.address), *sizes, *flags))


def _check(name: str, code: int) -> None:
    if code != 0:
        raise RuntimeError(f"{name} answered error {code}")
