"""Our own GPU kernels: copy, read, fill, triad and pointer chase.

kernels.cu is compiled for the architecture of each GPU (kernel_compiler.py) and launched by
cuLaunchKernel or hipModuleLaunchKernel on streams of torch. Launching only queues. Pointers are
`tensor.data_ptr()`, streams are torch.cuda.Stream of the device `index`. The memory may belong to a
peer once peer access is on, which ATen enables at the first copy_ between two devices.

    kernels = Kernels.open(torch, indices)          # None: nothing here to compile or launch with
    if kernels is not None:
        with kernels:
            kernels.copy(index, to.data_ptr(), source.data_ptr(), size_bytes, stream)
"""

import contextlib
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Optional, Union

from .driver import driver_library
from .kernel_compiler import CompileError, Compiler, image_for

PIECE_BYTES = 16
"""Sizes are multiples of this."""
THREADS = 512
"""Threads of a block, as in nvbandwidth; there is one block for each multiprocessor."""
_NAMES = ("copy", "read", "fill", "triad", "chase")


@dataclass
class _Loaded:
    """The kernels on one GPU."""

    context: Any
    module: Any
    multiprocessors: int
    functions: dict[str, Any] = field(default_factory=dict)


class Kernels:
    """Kernels loaded on some GPUs. Launches raise RuntimeError if the driver refuses."""

    engine = "kernel"

    def __init__(
        self, torch: Any, library: Any = None, compiler: Optional[Compiler] = None
    ) -> None:
        self._torch = torch
        self._is_hip = getattr(torch.version, "hip", None) is not None
        self._library = library if library is not None else driver_library(self._is_hip)
        self._compiler = compiler
        self._loaded: dict[int, _Loaded] = {}

    @classmethod
    def open(cls, torch: Any, indices: Sequence[int] = ()) -> "Optional[Kernels]":
        """Load kernels on these GPUs (none named: the current one); None if that fails."""
        found = cls.open_or_why(torch, indices)
        return found if isinstance(found, cls) else None

    @classmethod
    def open_or_why(
        cls,
        torch: Any,
        indices: Sequence[int] = (),
        library: Any = None,
        compiler: Optional[Compiler] = None,
    ) -> "Union[Kernels, str]":
        """Load kernels on these GPUs, or return in a few words why that fails."""
        expected = (CompileError, RuntimeError, AttributeError, TypeError, OSError)
        kernels = cls(torch, library, compiler)
        try:
            for index in indices or (torch.cuda.current_device(),):
                kernels.prepare(index)
        except expected as error:
            with contextlib.suppress(*expected):
                kernels.close()  # unload it from the GPUs before this one
            return str(error) or type(error).__name__
        return kernels

    def __enter__(self) -> "Kernels":
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Unload the kernels; all queued work must be done."""
        for index, loaded in self._loaded.items():
            with self._torch.cuda.device(index), _Current(self, loaded.context):
                self._call("ModuleUnload", loaded.module)
            if not self._is_hip:
                self._call("DevicePrimaryCtxRelease_v2", self._device(index))
        self._loaded.clear()

    def prepare(self, index: int) -> None:
        """Compile and load for one GPU now, not at its first launch."""
        if index in self._loaded:
            return
        properties = self._torch.cuda.get_device_properties(index)
        if self._is_hip:
            architecture = str(properties.gcnArchName)
        else:
            architecture = f"{properties.major}.{properties.minor}"
        folder = Path(str(self._torch.__file__)).parent
        image = image_for(architecture, self._is_hip, folder, self._compiler)
        with self._torch.cuda.device(index):
            context = ctypes.c_void_p()
            if not self._is_hip:
                self._ask("DevicePrimaryCtxRetain", ctypes.byref(context), self._device(index))
            module = ctypes.c_void_p()
            with _Current(self, context):
                self._ask("ModuleLoadData", ctypes.byref(module), image)
                loaded = _Loaded(context, module, int(properties.multi_processor_count))
                for name in _NAMES:
                    function = ctypes.c_void_p()
                    symbol = b"gputop_" + name.encode("ascii")
                    self._ask("ModuleGetFunction", ctypes.byref(function), module, symbol)
                    loaded.functions[name] = function
        self._loaded[index] = loaded

    def copy(
        self, index: int, to: int, source: int, size_bytes: int, stream: Any,
        *, passes: int = 1, blocks_per_multiprocessor: int = 1,
    ) -> None:  # fmt: skip
        """Copy by the multiprocessors of `index`, `passes` times in one launch."""
        pieces = _pieces(size_bytes)
        arguments = (_pointer(to), _pointer(source), pieces, ctypes.c_uint(passes))
        self._spread("copy", index, stream, blocks_per_multiprocessor, arguments)

    def read(
        self, index: int, source: int, size_bytes: int, total: int, stream: Any,
        *, passes: int = 1, blocks_per_multiprocessor: int = 1,
    ) -> None:  # fmt: skip
        """Add all 32-bit words, `passes` times and modulo 2^32, to the word at `total`."""
        arguments = (
            _pointer(source), _pieces(size_bytes), ctypes.c_uint(passes), _pointer(total)
        )  # fmt: skip
        self._spread("read", index, stream, blocks_per_multiprocessor, arguments)

    def fill(
        self, index: int, to: int, size_bytes: int, word: int, stream: Any,
        *, passes: int = 1, blocks_per_multiprocessor: int = 4,
    ) -> None:  # fmt: skip
        """Write one 32-bit word everywhere (other words in all passes but the last)."""
        arguments = (
            _pointer(to), _pieces(size_bytes), ctypes.c_uint(passes), ctypes.c_uint(word)
        )  # fmt: skip
        self._spread("fill", index, stream, blocks_per_multiprocessor, arguments)

    def triad(
        self, index: int, to: int, left: int, right: int, scale: float, size_bytes: int,
        stream: Any, *, passes: int = 1, blocks_per_multiprocessor: int = 1,
    ) -> None:  # fmt: skip
        """Write left + scale * right to `to`, all float32 and `size_bytes` long."""
        arguments = (
            _pointer(to), _pointer(left), _pointer(right), _pieces(size_bytes),
            ctypes.c_uint(passes), ctypes.c_float(scale),
        )  # fmt: skip
        self._spread("triad", index, stream, blocks_per_multiprocessor, arguments)

    def chase(self, index: int, ring: int, hops: int, end: int, stream: Any) -> None:
        """One thread of `index` follows a ring of 64-bit word numbers; the last goes to `end`."""
        arguments = _pointer(ring), ctypes.c_ulonglong(hops), _pointer(end)
        self._launch("chase", index, stream, 1, 1, arguments)

    def _spread(
        self, name: str, index: int, stream: Any, blocks: int, arguments: tuple[Any, ...]
    ) -> None:
        self.prepare(index)
        count = blocks * self._loaded[index].multiprocessors
        self._launch(name, index, stream, count, THREADS, arguments)

    def _launch(
        self, name: str, index: int, stream: Any, blocks: int, threads: int,
        arguments: tuple[Any, ...],
    ) -> None:  # fmt: skip
        self.prepare(index)
        loaded = self._loaded[index]
        places = (ctypes.c_void_p * len(arguments))(
            *(ctypes.cast(ctypes.pointer(argument), ctypes.c_void_p) for argument in arguments)
        )
        with self._torch.cuda.device(index), _Current(self, loaded.context):
            self._ask(
                "ModuleLaunchKernel" if self._is_hip else "LaunchKernel",
                loaded.functions[name], blocks, 1, 1, threads, 1, 1, 0,
                ctypes.c_void_p(stream.cuda_stream), places, None,
            )  # fmt: skip

    def _device(self, index: int) -> Any:
        handle = ctypes.c_int()
        self._ask("DeviceGet", ctypes.byref(handle), index)
        return handle

    def _ask(self, name: str, *arguments: Any) -> None:
        code = self._call(name, *arguments)
        if code != 0:
            prefix = "hip" if self._is_hip else "cu"
            raise RuntimeError(f"{prefix}{name} answered error {code}")

    def _call(self, name: str, *arguments: Any) -> int:
        if self._library is None:
            raise RuntimeError("no driver library")
        return int(self._library[("hip" if self._is_hip else "cu") + name](*arguments))


class _Current:
    """Make a context current in this thread; on HIP torch's device guard is enough."""

    def __init__(self, kernels: Kernels, context: Any) -> None:
        self._kernels = kernels
        self._context = context

    def __enter__(self) -> None:
        if self._context:
            self._kernels._ask("CtxPushCurrent_v2", self._context)

    def __exit__(self, *how: object) -> None:
        if self._context:
            self._kernels._call("CtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def _pieces(size_bytes: int) -> Any:
    if size_bytes <= 0 or size_bytes % PIECE_BYTES:
        raise ValueError(f"{size_bytes} bytes are no multiple of {PIECE_BYTES}")
    return ctypes.c_ulonglong(size_bytes // PIECE_BYTES)


def _pointer(address: int) -> Any:
    return ctypes.c_void_p(address)
