"""Host memory for copies with GPUs: pinned by the driver, pinned afterwards, or pageable.

"Pinned" memory comes from the driver (cuMemHostAlloc, portable), as in nvbandwidth. If the node of
the pages must be known, the calling thread touches ordinary pages first and then pins them
(cuMemHostRegister), because Linux puts a page on the node of the CPU that touches it first.
"""

import contextlib
import ctypes
import mmap
from typing import Optional

from .library import EngineError
from .memory import Memory
from .runtime import Runtime

PINNED, REGISTERED, PAGEABLE = KINDS = ("pinned", "registered", "pageable")


class HostBuffer:
    """Host memory that a driver can copy from and to; `close` frees it.

    The CPUs of the creating thread decide on the node. EngineError if the driver refuses,
    MemoryError or OSError if the system does.
    """

    def __init__(self, runtime: Optional[Runtime], index: int, kind: str, size_bytes: int) -> None:
        """`runtime`: None in the self-test. `index`: an opened device. `kind`: one of KINDS."""
        self.kind = kind if runtime is not None else PAGEABLE
        self._runtime = runtime
        self._pages: Optional[mmap.mmap] = None
        if runtime is not None and self.kind == PINNED:
            self.memory = runtime.allocate_host(index, size_bytes)
            return
        self._pages = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(AttributeError, OSError):
            self._pages.madvise(mmap.MADV_HUGEPAGE)  # touched pages are pinned faster
        # The map can only be closed without views of it.
        self.memory = Memory(ctypes.addressof(ctypes.c_uint8.from_buffer(self._pages)), size_bytes)
        ctypes.memset(self.memory.address, 0, size_bytes)
        if runtime is not None and self.kind == REGISTERED:
            try:
                runtime.pin(index, self.memory)
            except EngineError:
                self.kind = PAGEABLE
                self.close()
                raise

    def close(self) -> None:
        """Free the memory; all copies must be done."""
        if self._runtime is not None and self.kind == PINNED:
            self._runtime.free_host(self.memory)
        elif self._runtime is not None and self.kind == REGISTERED:
            self._runtime.unpin(self.memory)
        self.kind = PAGEABLE
        if self._pages is not None:
            self._pages.close()
            self._pages = None
