"""What probes need of a driver: devices, memory, streams, events and kernels.

CUDA's driver interface and HIP have functions of the same shapes under other names, so that most of
it is common; cuda.py and hip.py hold what differs. Indices are the driver's own, to which the
variables that hide devices already apply. Every error is an EngineError.
"""

import contextlib
import ctypes
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from .library import DriverLibrary, EngineError
from .memory import Memory

_PORTABLE = 1
"""Host memory is pinned for the contexts of all devices."""
_NOT_BLOCKING = 1
"""A stream that does not wait for the default stream."""


class Runtime(ABC):
    """One driver. Calls that name no index work on the device that `use` chose in this thread."""

    is_hip: bool
    names: Mapping[str, str]
    """Our name of a call -> the driver's."""
    _host_flags = _PORTABLE

    def __init__(self, library: DriverLibrary) -> None:
        self._library = library
        self._thread = threading.local()
        self._addresses: dict[int, Any] = {}
        self._reached: set[tuple[int, int]] = set()

    def _call(self, name: str, *arguments: Any) -> None:
        self._library.call(self.names[name], *arguments)

    def _here(self, name: str, *arguments: Any) -> None:
        """Call for the device that is current in this thread."""
        index = getattr(self._thread, "index", None)
        self._told(index, self._library.call, self.names[name], *arguments)

    def _told(self, index: Optional[int], call: Callable[..., None], *arguments: Any) -> None:
        """Call; an error names the device that it is about."""
        try:
            call(*arguments)
        except EngineError as error:
            if index is None or not error.code:  # a call that is missing is so for all
                raise
            place = self.pci_address(index) or f"GPU {index}"
            raise EngineError(f"{error} on {place}", error.code) from None

    def _number(self, name: str, *arguments: Any) -> int:
        number = ctypes.c_int()
        self._call(name, ctypes.byref(number), *arguments)
        return number.value

    # Devices

    def count(self) -> int:
        """The number of devices that this process may see."""
        return self._number("count")

    def handle(self, index: int) -> int:
        """The driver's handle of a device."""
        return self._number("device", index)

    def name(self, index: int) -> str:
        """The product's name."""
        text = ctypes.create_string_buffer(256)
        self._call("name", text, 255, self.handle(index))
        return text.value.decode("utf-8", "replace")

    def pci_address(self, index: int) -> Optional[str]:
        """PCI address as the driver writes it; None where it does not say."""
        text = self._addresses.setdefault(index, ctypes.create_string_buffer(64))
        if not text.value:  # asked once: after a fault a driver may answer nothing more
            with contextlib.suppress(EngineError):
                self._call("address", text, 63, self.handle(index))
        return text.value.decode("ascii", "replace").lower() or None

    def memory_bytes(self, index: int) -> int:
        """All memory of a device."""
        size = ctypes.c_size_t()
        self._call("total", ctypes.byref(size), self.handle(index))
        return size.value

    @abstractmethod
    def uuid(self, index: int) -> Optional[str]:
        """The UUID with its prefix, GPU- or MIG-; None where the driver does not say."""

    @abstractmethod
    def architecture(self, index: int) -> str:
        """The architecture as a compiler names it: 9.0, gfx942."""

    @abstractmethod
    def multiprocessors(self, index: int) -> int:
        """The number of multiprocessors or compute units."""

    @abstractmethod
    def l2_bytes(self, index: int) -> Optional[int]:
        """The size of its L2, of one of them where there are several; None where none is told."""

    # Contexts

    def open(self, indices: Sequence[int]) -> None:
        """Create the contexts of these devices, all at once: each takes a third of a second."""
        errors: list[EngineError] = []

        def open_one(index: int) -> None:
            try:
                self._told(index, self._open, index)
            except EngineError as error:
                errors.append(EngineError(f"{error}{self._remark(index)}", error.code))

        threads = [threading.Thread(target=open_one, args=(i,), daemon=True) for i in indices]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    @abstractmethod
    def _open(self, index: int) -> None:
        """Create the context of one device."""

    def _remark(self, index: int) -> str:
        """What may keep a device from being opened; "" if nothing is known."""
        return ""

    def use(self, index: int) -> None:
        """Make a device current in this thread; its context must be open."""
        if getattr(self._thread, "index", None) != index:
            self._told(index, self._use, index)
            self._thread.index = index

    @abstractmethod
    def _use(self, index: int) -> None:
        """Make it current."""

    def synchronize(self, index: int) -> None:
        """Wait until a device has done everything."""
        self.use(index)
        self._here("synchronize")

    # Peers

    def can_access(self, src: int, dst: int) -> bool:
        """Whether the driver grants `src` access to the memory of `dst`."""
        return bool(self._number("peer", self.handle(src), self.handle(dst)))

    def reach(self, src: int, dst: int) -> None:
        """Map the memory of `dst` for `src`, once."""
        if (src, dst) in self._reached:
            return
        self.use(src)
        try:
            self._told(src, self._reach, dst)
        except EngineError as error:
            if error.code != 704:  # it is mapped already
                raise
        self._reached.add((src, dst))

    @abstractmethod
    def _reach(self, dst: int) -> None:
        """Map the memory of `dst` for the current device."""

    # Memory

    def free_bytes(self, index: int) -> int:
        """Free memory of a device, as the driver counts it."""
        self.use(index)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._here("memory_info", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def allocate(self, index: int, size_bytes: int) -> Memory:
        """Memory of a device."""
        self.use(index)
        pointer = ctypes.c_void_p()
        self._here("allocate", ctypes.byref(pointer), ctypes.c_size_t(size_bytes))
        return Memory(pointer.value or 0, size_bytes)

    def free(self, index: int, memory: Memory) -> None:
        """Give memory of a device back."""
        self.use(index)
        self._here("free", ctypes.c_void_p(memory.address))

    def allocate_host(self, index: int, size_bytes: int) -> Memory:
        """Pinned host memory near the calling thread."""
        self.use(index)
        pointer = ctypes.c_void_p()
        size, flags = ctypes.c_size_t(size_bytes), ctypes.c_uint(self._host_flags)
        self._here("allocate_host", ctypes.byref(pointer), size, flags)
        return Memory(pointer.value or 0, size_bytes)

    def free_host(self, memory: Memory) -> None:
        """Give pinned memory back."""
        self._call("free_host", ctypes.c_void_p(memory.address))

    def pin(self, index: int, memory: Memory) -> None:
        """Pin ordinary host memory."""
        self.use(index)
        size, flags = ctypes.c_size_t(memory.size_bytes), ctypes.c_uint(_PORTABLE)
        self._here("pin", ctypes.c_void_p(memory.address), size, flags)

    def unpin(self, memory: Memory) -> None:
        """Undo `pin`."""
        self._call("unpin", ctypes.c_void_p(memory.address))

    @abstractmethod
    def copy(self, to: int, source: int, size_bytes: int, stream: Any) -> None:
        """Queue a copy between two addresses on a stream of the current device."""

    def read(self, index: int, memory: Memory) -> bytes:
        """Bytes of a device, after everything queued before."""
        self.synchronize(index)
        found = ctypes.create_string_buffer(memory.size_bytes)
        self.copy(ctypes.addressof(found), memory.address, memory.size_bytes, None)
        self._here("synchronize")
        return found.raw

    def clear(self, index: int, memory: Memory) -> None:
        """Fill memory of a device with zeros, and wait."""
        self.use(index)
        self._clear(memory)
        self._here("synchronize")

    @abstractmethod
    def _clear(self, memory: Memory) -> None:
        """Fill with zeros."""

    # Streams and events

    def stream(self, index: int) -> Any:
        """A new stream of a device."""
        self.use(index)
        stream = ctypes.c_void_p()
        self._here("stream", ctypes.byref(stream), ctypes.c_uint(_NOT_BLOCKING))
        return stream

    def drop_stream(self, index: int, stream: Any) -> None:
        """Give a stream back."""
        self.use(index)
        self._here("drop_stream", stream)

    def event(self, stream: Any) -> Any:
        """A new event, recorded on a stream of the current device."""
        event = ctypes.c_void_p()
        self._here("event", ctypes.byref(event), ctypes.c_uint(0))
        self._here("record", event, stream)
        return event

    def drop_event(self, event: Any) -> None:
        """Give an event back."""
        self._call("drop_event", event)

    def wait(self, stream: Any, event: Any) -> None:
        """Let a stream wait for an event, also for one of another device."""
        self._here("wait", stream, event, ctypes.c_uint(0))

    def await_event(self, event: Any) -> None:
        """Wait for an event of the current device."""
        self._here("await", event)

    def seconds(self, start: Any, end: Any) -> float:
        """Seconds between two events of one device, in steps of half a microsecond."""
        elapsed = ctypes.c_float()
        self._call("elapsed", ctypes.byref(elapsed), start, end)
        return elapsed.value / 1000

    # Kernels

    def load(self, index: int, image: bytes) -> Any:
        """Load code on a device; the driver compiles PTX."""
        self.use(index)
        module = ctypes.c_void_p()
        self._here("load", ctypes.byref(module), image)
        return module

    def unload(self, index: int, module: Any) -> None:
        """Give code back."""
        self.use(index)
        self._here("unload", module)

    def function(self, module: Any, name: str) -> Any:
        """A kernel by name."""
        function = ctypes.c_void_p()
        self._call("function", ctypes.byref(function), module, name.encode("ascii"))
        return function

    def launch(
        self, index: int, function: Any, blocks: int, threads: int, arguments: "tuple[Any, ...]",
        stream: Any,
    ) -> None:  # fmt: skip
        """Queue a kernel; `arguments` are ctypes values in the kernel's own types."""
        self.use(index)
        pointers = [ctypes.cast(ctypes.pointer(each), ctypes.c_void_p) for each in arguments]
        places = (ctypes.c_void_p * len(arguments))(*pointers)
        self._here("launch", function, blocks, 1, 1, threads, 1, 1, 0, stream, places, None)
