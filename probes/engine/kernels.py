"""The kernels of kernels.cu, loaded on devices and queued on streams.

    kernels = Kernels(runtime)
    kernels.prepare(index)                                   # EngineError: no code for this device
    kernels.copy(index, to, source, size_bytes, stream)      # only queues
    kernels.close()

Addresses may belong to a peer that the device was made to reach (runtime.reach).
"""

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from ..protocol.errors import WorkerError
from .library import EngineError
from .memory import Memory
from .rocm import below, folders
from .runtime import Runtime

# What runs on a device: PTX for NVIDIA's driver, code that hiprtc compiles for AMD's.
SOURCE = Path(__file__).with_name("kernels.cu")
PTX = Path(__file__).with_name("kernels.ptx")
"""SOURCE, compiled by tests/device_kernels/make_ptx.py."""
_images: "dict[str, bytes]" = {}


class CompileError(WorkerError):
    """There is no compiler, or it failed; one sentence says which."""


def compiled(source: Path, architecture: str) -> bytes:
    """Code of a source for one architecture ("gfx942"); CompileError with the first error."""
    return _Compiler(_library()).compiled(source, architecture)


def _library() -> Any:
    """The first hiprtc that loads; since ROCm 6 it is a library of its own."""
    for place in _candidates():
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(str(place))
            library["hiprtcCreateProgram"]
            return library
    raise CompileError("no libhiprtc was found")


def _candidates() -> "Iterator[Union[Path, str]]":
    yield from ("libhiprtc.so", "libamdhip64.so")
    for folder in folders():
        yield from below(folder, "libhiprtc.so*")


class _Compiler:
    """One library."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def compiled(self, source: Path, architecture: str) -> bytes:
        """Code of a source for one architecture; CompileError with the first error."""
        program = ctypes.c_void_p()
        text, name = source.read_bytes(), source.name.encode("ascii")
        options = (ctypes.c_char_p * 1)(b"--offload-arch=" + architecture.encode("ascii"))
        try:
            self._ask("CreateProgram", ctypes.byref(program), text, name, 0, None, None)
            try:
                self._ask("CompileProgram", program, 1, options)
                return self._text(program, "Code")
            except CompileError as error:
                said = self._log(program)
                raise CompileError(f"{error}{': ' + said if said else ''}") from error
            finally:
                self._call("DestroyProgram", ctypes.byref(program))
        except AttributeError as error:
            raise CompileError(f"this hiprtc is not complete: {error}") from error

    def _text(self, program: Any, kind: str) -> bytes:
        size = ctypes.c_size_t()
        self._ask(f"Get{kind}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._ask(f"Get{kind}", program, text)
        return text.raw

    def _log(self, program: Any) -> str:
        with contextlib.suppress(CompileError, AttributeError):
            lines = self._text(program, "ProgramLog").decode("utf-8", "replace").splitlines()
            return next((line.strip() for line in lines if "error" in line), "")
        return ""

    def _ask(self, name: str, *arguments: Any) -> None:
        code = self._call(name, *arguments)
        if code != 0:
            raise CompileError(f"hiprtc{name} answered error {code}")

    def _call(self, name: str, *arguments: Any) -> int:
        return int(self._library["hiprtc" + name](*arguments))


def image_for(runtime: Runtime, index: int) -> bytes:
    """Code for a device, made once in this process; EngineError where there is none."""
    if not runtime.is_hip:
        return PTX.read_bytes() + b"\0"
    architecture = runtime.architecture(index)
    if architecture not in _images:
        try:
            _images[architecture] = compiled(SOURCE, architecture)
        except CompileError as error:
            raise EngineError(f"no kernels for {architecture}: {error}") from error
    return _images[architecture]


PIECE_BYTES = 16
"""Sizes are multiples of this."""
THREADS = 512
"""Threads of a block, as in nvbandwidth; for timed kernels one block for each multiprocessor."""
IN_FLIGHT = 12
"""Loads of one thread under way, as kernels.cu has it."""
_PLAIN_BLOCKS = 8
"""Blocks for each multiprocessor where nothing is timed."""
_NO_PLACE = (1 << 64) - 1


@dataclass(frozen=True)
class Unlike:
    """What a comparison on a device found."""

    words: int
    """How many words were not as expected."""
    first: int
    """The place of the first of them, in words; meaningless if there is none."""


@dataclass(frozen=True)
class _Loaded:
    """The kernels on one device."""

    module: Any
    multiprocessors: int
    functions: "dict[str, Any]"
    found: Memory
    """Where a comparison writes, 16 bytes."""


class Kernels:
    """Kernels on some devices of one runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._loaded: dict[int, _Loaded] = {}

    @staticmethod
    def round_bytes(multiprocessors: int) -> int:
        """What a timed kernel has under way at once: IN_FLIGHT pieces for each thread."""
        return multiprocessors * THREADS * IN_FLIGHT * PIECE_BYTES

    def prepare(self, index: int) -> None:
        """Load for one device now, not at its first kernel; EngineError if that fails."""
        if index in self._loaded:
            return
        runtime = self._runtime
        count = runtime.multiprocessors(index)
        module = runtime.load(index, image_for(runtime, index))
        try:
            found = runtime.allocate(index, 16)
        except EngineError:
            runtime.unload(index, module)
            raise
        self._loaded[index] = _Loaded(module, count, {}, found)

    def close(self) -> None:
        """Unload, also after an error; all queued work must be done."""
        for index, loaded in self._loaded.items():
            with contextlib.suppress(EngineError):
                self._runtime.free(index, loaded.found)
            with contextlib.suppress(EngineError):
                self._runtime.unload(index, loaded.module)
        self._loaded.clear()

    def copy(
        self, index: int, to: int, source: int, size_bytes: int, stream: Any, *, passes: int = 1
    ) -> None:
        """Copy by the multiprocessors of `index`, `passes` times in one launch."""
        pieces = _pieces(size_bytes)
        self._timed("copy", index, (_at(to), _at(source), pieces, ctypes.c_uint(passes)), stream)

    def read(
        self, index: int, source: int, size_bytes: int, total: int, stream: Any, *, passes: int = 1
    ) -> None:
        """Add all 32-bit words, modulo 2^32, to the word at `total`, `passes` times."""
        arguments = _at(source), _pieces(size_bytes), ctypes.c_uint(passes), _at(total)
        self._timed("read", index, arguments, stream)

    def fill(self, index: int, to: int, size_bytes: int, word: int, stream: Any) -> None:
        """Write one 32-bit word everywhere."""
        arguments = _at(to), _pieces(size_bytes), ctypes.c_uint(1), ctypes.c_uint(word)
        self._timed("fill", index, arguments, stream, blocks=4)

    def triad(
        self, index: int, to: int, ends: "tuple[int, int]", scale: float, size_bytes: int,
        stream: Any,
    ) -> None:  # fmt: skip
        """Write left + scale * right to `to`, all float32 and `size_bytes` long."""
        arguments = (
            _at(to), _at(ends[0]), _at(ends[1]), _pieces(size_bytes),
            ctypes.c_uint(1), ctypes.c_float(scale),
        )  # fmt: skip
        self._timed("triad", index, arguments, stream)

    def chase(self, index: int, ring: int, hops: int, end: int, stream: Any) -> None:
        """One thread of `index` follows a ring of 64-bit word numbers; the last goes to `end`."""
        self._launch("chase", index, 1, 1, (_at(ring), _u64(hops), _at(end)), stream)

    def hold(self, index: int, go: int, cycles: int, late: int, stream: Any) -> None:
        """Hold a stream until the 32-bit word at `go` is set, or for `cycles`, which sets `late`.

        `late` lies in pinned host memory; `go` there or in memory of the device.
        """
        self._launch("hold", index, 1, 1, (_at(go), _u64(cycles), _at(late)), stream)

    def random(self, index: int, to: Memory, seed: int, *, flipped: bool = False) -> None:
        """Fill with random 64-bit words of this seed, or with their complement; waits."""
        mask = _NO_PLACE if flipped else 0
        self._plain("random", index, (_at(to.address), _words(to), _u64(seed), _u64(mask)))

    def numbers(self, index: int, to: Memory, seed: int) -> None:
        """Fill with random float32 of [-1, 1); waits."""
        self._plain("numbers", index, (_at(to.address), _u64(to.size_bytes // 4), _u64(seed)))

    def pattern(self, index: int, to: Memory, seed: int) -> None:
        """Fill with whole numbers below 65536 as float32, which a seed tells; waits."""
        self._plain("pattern", index, (_at(to.address), _u64(to.size_bytes // 4), _u64(seed)))

    def ring(self, index: int, to: Memory, step_bytes: int) -> None:
        """Link places `step_bytes` apart into a ring for `chase`; waits."""
        count = to.size_bytes // step_bytes
        self._plain("ring", index, (_at(to.address), _u64(count), _u64(step_bytes // 8)))

    def unlike_random(self, index: int, memory: Memory, seed: int) -> Unlike:
        """Compare with the random words of a seed, on the device that reads."""
        arguments = _at(memory.address), _words(memory), _u64(seed)
        return self._compare("unlike_random", index, arguments)

    def unlike_pattern(
        self, index: int, memory: Memory, start: int, seed: int, seeds: int
    ) -> Unlike:
        """Compare with the sum of `seeds` patterns, from `seed` on, at the places from `start`."""
        count = _u64(memory.size_bytes // 4)
        arguments = _at(memory.address), count, _u64(start), _u64(seed), _u64(seeds)
        return self._compare("unlike_pattern", index, arguments)

    def unlike(self, index: int, one: Memory, other: Memory) -> Unlike:
        """Compare two arrays by 64-bit words."""
        arguments = _at(one.address), _at(other.address), _words(one)
        return self._compare("unlike", index, arguments)

    def unlike_fill(self, index: int, memory: Memory, word: int) -> Unlike:
        """Compare 32-bit words with one value."""
        arguments = _at(memory.address), _u64(memory.size_bytes // 4), ctypes.c_uint(word)
        return self._compare("unlike_fill", index, arguments)

    def unlike_triad(self, index: int, arrays: "Sequence[Memory]", scale: float) -> Unlike:
        """Compare the first array with the second + scale * the third; `scale`: a power of two."""
        count = _u64(arrays[0].size_bytes // 4)
        ends = [_at(array.address) for array in arrays]
        return self._compare("unlike_triad", index, (*ends, count, ctypes.c_float(scale)))

    def sum(self, index: int, memory: Memory, total: Memory) -> int:
        """All 32-bit words added, modulo 2^32, in the plainest way; `total`: 4 bytes to use."""
        self._runtime.clear(index, total)
        words = _u64(memory.size_bytes // 4)
        self._plain("sum", index, (_at(memory.address), words, _at(total.address)))
        return int.from_bytes(self._runtime.read(index, total), "little")

    def _compare(self, name: str, index: int, arguments: "tuple[Any, ...]") -> Unlike:
        self.prepare(index)
        found = self._loaded[index].found
        start = ctypes.create_string_buffer(bytes(8) + b"\xff" * 8, 16)
        self._runtime.use(index)
        self._runtime.copy(found.address, ctypes.addressof(start), 16, None)
        self._plain(name, index, (*arguments, _at(found.address)))
        said = self._runtime.read(index, found)
        return Unlike(*(int.from_bytes(said[place : place + 8], "little") for place in (0, 8)))

    def _plain(self, name: str, index: int, arguments: "tuple[Any, ...]") -> None:
        """Run a kernel that nobody times on the default stream, and wait for it."""
        self.prepare(index)
        blocks = _PLAIN_BLOCKS * self._loaded[index].multiprocessors
        self._launch(name, index, blocks, 256, arguments, None)
        self._runtime.synchronize(index)

    def _timed(
        self, name: str, index: int, arguments: "tuple[Any, ...]", stream: Any, blocks: int = 1
    ) -> None:
        self.prepare(index)
        count = blocks * self._loaded[index].multiprocessors
        self._launch(name, index, count, THREADS, arguments, stream)

    def _launch(
        self, name: str, index: int, blocks: int, threads: int, arguments: "tuple[Any, ...]",
        stream: Any,
    ) -> None:  # fmt: skip
        self.prepare(index)
        loaded = self._loaded[index]
        if name not in loaded.functions:
            self._runtime.use(index)
            loaded.functions[name] = self._runtime.function(loaded.module, "gputop_" + name)
        self._runtime.launch(index, loaded.functions[name], blocks, threads, arguments, stream)


def _pieces(size_bytes: int) -> Any:
    if size_bytes <= 0 or size_bytes % PIECE_BYTES:
        raise ValueError(f"{size_bytes} bytes are no multiple of {PIECE_BYTES}")
    return _u64(size_bytes // PIECE_BYTES)


def _words(memory: Memory) -> Any:
    return _u64(memory.size_bytes // 8)


def _u64(number: int) -> Any:
    return ctypes.c_ulonglong(number)


def _at(address: int) -> Any:
    return ctypes.c_void_p(address)
