"""Compiles kernels.cu for an architecture with NVRTC or hiprtc, through ctypes.

The compiler is the one that this process has loaded, else the one of torch (wheels put it beside
torch as nvidia/*/lib/libnvrtc.so.*, torch/lib/libnvrtc-*.so.* or torch/lib/libhiprtc.so), else the
one of the system. It needs no GPU and no header.
"""

import contextlib
import ctypes
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional, Union

SOURCE = Path(__file__).with_name("kernels.cu")
_NVRTC = re.compile(r"libnvrtc(-[0-9a-f]+)?\.so[.0-9]*$")
_HIPRTC = re.compile(r"libhiprtc(-[0-9a-f]+)?\.so[.0-9]*$")
_images: dict[tuple[bool, str], bytes] = {}


class CompileError(Exception):
    """There is no compiler, or it failed; one sentence says which."""


class Compiler:
    """NVRTC or hiprtc."""

    def __init__(self, library: Any, is_hip: bool) -> None:
        self._library = library
        self._is_hip = is_hip
        self._prefix = "hiprtc" if is_hip else "nvrtc"

    def image(self, architecture: str) -> bytes:
        """Compile for one architecture ("9.0", "gfx942:sramecc+:xnack-"); raises CompileError.

        NVRTC returns a cubin, or PTX of its newest architecture if the GPU is newer.
        """
        if self._is_hip:
            return self._compile("--offload-arch=" + architecture, "Code")
        number = int(architecture.replace(".", ""))
        known = self._known()
        if known and number not in known:
            older = [architecture for architecture in known if architecture < number]
            if not older:
                raise CompileError(f"NVRTC knows no architecture as old as {architecture}.")
            return self._compile(f"--gpu-architecture=compute_{max(older)}", "PTX")
        return self._compile(f"--gpu-architecture=sm_{number}", "CUBIN")

    def _known(self) -> list[int]:
        """Architectures that NVRTC supports; empty before 11.2, which cannot say."""
        count = ctypes.c_int()
        try:
            if self._call("GetNumSupportedArchs", ctypes.byref(count)) != 0:
                return []
            found = (ctypes.c_int * count.value)()
            self._call("GetSupportedArchs", found)
        except AttributeError:
            return []
        return list(found)

    def _compile(self, option: str, kind: str) -> bytes:
        program = ctypes.c_void_p()
        source = SOURCE.read_bytes()
        name = SOURCE.name.encode("ascii")
        options = (ctypes.c_char_p * 1)(option.encode("ascii"))
        try:
            self._ask("CreateProgram", ctypes.byref(program), source, name, 0, None, None)
            try:
                self._ask("CompileProgram", program, 1, options)
                return self._text(program, kind)
            except CompileError as error:
                said = self._log(program)
                raise CompileError(f"{error}{': ' + said if said else ''}") from error
            finally:
                self._call("DestroyProgram", ctypes.byref(program))
        except AttributeError as error:
            raise CompileError(f"the compiler has no {kind}: {error}") from error

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
            raise CompileError(f"{self._prefix}{name} answered error {code}")

    def _call(self, name: str, *arguments: Any) -> int:
        return int(self._library[self._prefix + name](*arguments))


def image_for(
    architecture: str, is_hip: bool, torch_folder: Path, compiler: Optional[Compiler] = None
) -> bytes:
    """Code for an architecture, compiled once in this process; raises CompileError."""
    key = is_hip, architecture
    if compiler is not None:
        return compiler.image(architecture)
    if key not in _images:
        _images[key] = find_compiler(is_hip, torch_folder).image(architecture)
    return _images[key]


def find_compiler(is_hip: bool, torch_folder: Path) -> Compiler:
    """The first compiler library that loads; CompileError if there is none."""
    for place in candidates(is_hip, torch_folder):
        with contextlib.suppress(OSError, AttributeError):
            if not is_hip:
                _load_builtins(place)
            library = ctypes.CDLL(str(place))
            library["hiprtcCreateProgram" if is_hip else "nvrtcCreateProgram"]
            return Compiler(library, is_hip)
    raise CompileError(
        f"no {'hiprtc' if is_hip else 'NVRTC'} library beside torch or on the system"
    )


def candidates(is_hip: bool, torch_folder: Path) -> Iterator[Union[Path, str]]:
    """Possible paths of a compiler, best first. `torch_folder` holds torch/__init__.py."""
    pattern = _HIPRTC if is_hip else _NVRTC
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            path = Path("/" + line.partition("/")[2])
            if pattern.match(path.name):
                yield path
                break
    site = torch_folder.parent
    folders = [torch_folder / "lib"]
    if is_hip:
        folders += sorted(site.glob("_rocm_sdk*/lib"))
        folders += [Path("/opt/rocm/lib")]
    else:
        folders += sorted(site.glob("nvidia/*/lib"))
        folders += [Path("/usr/local/cuda/lib64")]
    for folder in folders:
        with contextlib.suppress(OSError):
            yield from sorted(path for path in folder.iterdir() if pattern.match(path.name))
    if is_hip:
        yield from ("libhiprtc.so", "libamdhip64.so")
    else:
        yield from ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so")


def _load_builtins(place: Union[Path, str]) -> None:
    """Load NVRTC's second library, which NVRTC opens by bare name outside the loader's path."""
    if isinstance(place, Path):
        for path in place.parent.glob("libnvrtc-builtins.so*"):
            with contextlib.suppress(OSError):
                ctypes.CDLL(str(path))
