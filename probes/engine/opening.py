"""Finds the driver of this machine's GPUs and opens it."""

import contextlib
import ctypes
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional, Union

from .cuda import Cuda
from .hip import Hip
from .library import EngineError
from .rocm import folders
from .runtime import Runtime

_CUDA = "libcuda.so.1"
_CUDA_OF_WSL = Path("/usr/lib/wsl/lib/libcuda.so.1")
_DEVICES = Path("/dev")
_DEVICE_FILES = ("nvidia[0-9]*", "nvidiactl", "nvidia-uvm", "kfd", "dri/renderD*")
_MOST_NAMED = 3


def open_runtime(devices: Path = _DEVICES) -> Runtime:
    """The driver that sees GPUs, CUDA's before HIP's; EngineError with its words otherwise.

    `devices`: the folder of device files.
    """
    refusals: list[EngineError] = []
    for make, handle in _drivers():
        opened = _opened(make, handle)
        if isinstance(opened, Runtime):
            return opened
        refusals.append(opened)
    said = str(refusals[0]) if refusals else f"there is no {_CUDA} and no libamdhip64.so"
    shut = shut_files(devices)
    raise EngineError(said + (f"; this user may not open {', '.join(shut)}" if shut else ""))


def _opened(make: "Callable[[Any], Runtime]", handle: Any) -> "Union[Runtime, EngineError]":
    try:
        runtime = make(handle)
        if runtime.count() > 0:
            return runtime
    except EngineError as error:
        return error
    return EngineError("the driver shows this process no GPU")


def shut_files(devices: Path = _DEVICES) -> "list[str]":
    """Device files of GPUs that exist and that this process may not open, at most three.

    Permissions do not tell it: a cgroup hides a GPU from a job behind a file that anybody may read.
    """
    found = []
    for path in sorted(path for name in _DEVICE_FILES for path in devices.glob(name)):
        try:
            os.close(os.open(str(path), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        except PermissionError:
            found.append(str(path))
        except OSError:
            pass  # gone, or broken in another way, which the driver told
    return found[:_MOST_NAMED]


def _drivers() -> "Iterator[tuple[Any, Any]]":
    handle = _loaded(_CUDA) or _loaded(_CUDA_OF_WSL)
    if handle is not None:
        yield Cuda, handle
    handle = _hip()
    if handle is not None:
        yield Hip, handle


def _hip() -> Any:
    names = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")
    beside = (path for folder in folders() for path in sorted(folder.glob("libamdhip64.so*")))
    # torch may have loaded one already: a second copy would know other devices.
    places: Iterator[Union[str, Path]] = itertools.chain(_mapped("libamdhip64.so"), names, beside)
    for place in places:
        handle = _loaded(place)
        if handle is not None:
            return handle
    return None


def _mapped(name: str) -> "list[str]":
    """Paths of a library that this process has loaded."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return ["/" + line.partition("/")[2] for line in lines if name in line][:1]


def _loaded(place: "Union[str, Path]") -> Optional[Any]:
    with contextlib.suppress(OSError):
        return ctypes.CDLL(str(place))
    return None


def kernel_driver_version(*, is_hip: bool) -> Optional[str]:
    """Version of the loaded kernel driver, from /proc or /sys."""
    try:
        if is_hip:
            return Path("/sys/module/amdgpu/version").read_text().strip() or None
        first = Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except (OSError, IndexError):
        return None
    numbers = [word for word in first.split() if word.replace(".", "").isdigit() and "." in word]
    return numbers[0] if numbers else None
