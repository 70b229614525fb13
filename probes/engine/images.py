"""The code of the kernels for a device: PTX, which CUDA's driver compiles, or hiprtc's for HIP."""

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union

from ..protocol.errors import WorkerError
from .library import EngineError
from .rocm import below, folders
from .runtime import Runtime

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
