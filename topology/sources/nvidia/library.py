"""The NVML library as we use it: loaded late, every refusal turned into data, never into a crash.

An answer is plain JSON-able data: a value, or {"error": "NVMLError_NotSupported: Not Supported"}.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ...model.errors import GputopError
from ...model.part import Raw
from ...model.source import SourceAbsent
from .answers import OUR_LIMIT

ALL_LINKS = 0xFFFFFFFF
"""Scope of a field value: the sum over all NVLinks (nvml.h, NVML_FI_DEV_NVLINK_THROUGHPUT_*)."""

_NO_PERMISSION, _DRIVER_NOT_LOADED = 4, 9
_LIBRARY_NOT_FOUND, _GPU_IS_LOST, _VERSION_MISMATCH = 12, 15, 18
_NOWHERE = "libnvidia-ml.so.1: cannot open shared object file: No such file"
_FIELD_TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

MOST_LISTED = 16_384
"""Entries of one answer, processes or pages, that are read."""
_LISTING = (
    *(
        f"nvmlDeviceGet{kind}RunningProcesses{version}"
        for kind in ("Compute", "Graphics", "MPSCompute")
        for version in ("_v3", "_v2")
    ),
    "nvmlDeviceGetRetiredPages",
)
"""Functions that first say how many entries there are, and for which memory is taken by that."""
_FIELDS_ASKED = "nvmlDeviceGetFieldValues"
SPARE_FIELDS = 8
"""Entries behind those that are asked for, in memory that is ours.

libnvidia-ml goes on behind the list where the last field is a counter of an NVLink: on two H200
with driver 580.159.04 to `nvmlReturn` of one entry too many, at each call, as pages without access
behind the list show. Without room one in four single readings died in the heap, with it none of 24.
"""
_PLAIN, _LISTS = (bool, int, float, str), (list, tuple, ctypes.Array)


class GpuLost(GputopError):  # noqa: N818 - something the GPU did, not an error of ours
    """The driver says that this GPU is gone; the text is the driver's."""


class _TooManyError(GputopError, ValueError):
    """The driver names more entries than are read."""

    def __init__(self, count: int) -> None:
        super().__init__(f"the driver names {count}, and gputop reads {MOST_LISTED} at most")


class NvmlLibrary:
    """NVML, initialised. Every call that can be refused goes through `ask` or `fields`."""

    LOST = _GPU_IS_LOST

    def __init__(self, binding: Any) -> None:
        self.binding = binding
        mismatch = getattr(binding, "NVMLLibraryMismatchError", None)
        # A function missing in an old binding, other arguments, text that is not UTF-8.
        self._refusals: tuple[type[Exception], ...] = (
            AttributeError, TypeError, ValueError, IndexError, MemoryError, ctypes.ArgumentError,
            *((mismatch,) if mismatch is not None else ()),
        )  # fmt: skip
        self._fields: dict[tuple[str, ...], tuple[list[str], list[int]]] = {}

    def ask(self, name: str, *arguments: object) -> Raw:
        """Call the NVML function `name`. Raises GpuLost; any other refusal is an answer."""
        try:
            return plain(getattr(self.binding, name)(*arguments))
        except self.binding.NVMLError as error:
            return self._refused(error)
        except _TooManyError as error:
            return {"error": f"{OUR_LIMIT}: {error}"}
        except self._refusals as error:
            return {"error": f"{type(error).__name__}: {error}"[:200]}

    def handle(self, name: str, *arguments: object) -> object | None:
        """Call a function that returns a handle; None when the driver has none to give."""
        try:
            handle: object = getattr(self.binding, name)(*arguments)
        except self.binding.NVMLError as error:
            self._refused(error)
            return None
        except self._refusals:
            return None
        return handle

    def first(self, names: Sequence[str], *arguments: object) -> Raw:
        """Ask functions that mean the same, newest first, until the driver knows one."""
        answer: Raw = None
        for name in names:
            answer = self.ask(name, *arguments)
            if not missing(answer):
                return answer
        return answer

    def fields(self, handle: object, names: Sequence[str], scope: int = 0) -> dict[str, Raw]:
        """Read field values by their NVML names, {name: {"value": n}} or {name: {"ret": code}}.

        `scope` is the number of the link, or ALL_LINKS, where the field has one.
        """
        known, numbers = self._numbers(names)
        asked = [(number, scope) for number in numbers] if scope else list(numbers)
        values = self._values(handle, asked) if asked else []
        if refused(values):
            values = [values] * len(known)
        return self._absent(names, known) | _by_name(known, values)

    def fields_of_links(
        self, handle: object, names: Sequence[str], links: Sequence[int]
    ) -> list[dict[str, Raw]]:
        """Read field values of several links, as `fields` gives those of each, with one call.

        A driver that refuses all together is asked link by link, so that none hides another.
        """
        known, numbers = self._numbers(names)
        asked = [(number, link) for link in links for number in numbers]
        values = self._values(handle, asked) if asked else []
        if refused(values) or len(values) < len(asked):
            return [self.fields(handle, names, scope=link) for link in links]
        absent, count = self._absent(names, known), len(known)
        return [
            absent | _by_name(known, values[place * count : (place + 1) * count])
            for place in range(len(links))
        ]

    def _numbers(self, names: Sequence[str]) -> tuple[list[str], list[int]]:
        """The names that the binding knows, and their numbers."""
        key = tuple(names)
        if key not in self._fields:
            known = [name for name in names if isinstance(getattr(self.binding, name, None), int)]
            self._fields[key] = (known, [getattr(self.binding, name) for name in known])
        return self._fields[key]

    @staticmethod
    def _absent(names: Sequence[str], known: Sequence[str]) -> dict[str, Raw]:
        return {
            name: {"error": "not in the installed nvidia-ml-py"}
            for name in names
            if name not in known
        }

    def _values(self, handle: object, asked: Sequence[Any]) -> Raw:
        """An answer for each of (number, scope) or number; a refusal where all are refused."""
        try:
            return [_field(item) for item in self.binding.nvmlDeviceGetFieldValues(handle, asked)]
        except self.binding.NVMLError as error:
            return self._refused(error)
        except self._refusals as error:
            return {"error": f"{type(error).__name__}: {error}"[:200]}

    def _refused(self, error: Any) -> Raw:
        if getattr(error, "value", None) == _GPU_IS_LOST:
            raise GpuLost(words_of(error)) from error
        return {"error": f"{type(error).__name__}: {words_of(error)}"[:200]}


def open_library(
    load: Callable[[], Any] = lambda: importlib.import_module("pynvml"), root: Path = Path("/")
) -> NvmlLibrary:
    """Load the binding and initialise NVML. Raises SourceAbsent with a sentence and a kind."""
    try:
        binding = load()
    except ImportError as error:
        raise SourceAbsent("the Python package nvidia-ml-py is not installed") from error
    try:
        binding.nvmlInit()
    except binding.NVMLError as error:
        raise _absence(error, root) from error
    _guard_lists(binding)
    return NvmlLibrary(binding)


def _guard_lists(binding: Any) -> None:
    """Let nothing be made of a list that is longer than is read, and give room behind one.

    The binding looks functions up once. It asks those of `_LISTING` for their number of entries
    first.
    """
    known: Any = getattr(binding, "_nvmlGetFunctionPointer_cache", None)
    guards = {**dict.fromkeys(_LISTING, _listed), _FIELDS_ASKED: _with_room}
    for name, guard in guards.items() if isinstance(known, dict) else ():
        with suppress(binding.NVMLError):
            function = binding._nvmlGetFunctionPointer(name)
            known[name] = function if isinstance(function, partial) else partial(guard, function)


def _listed(function: Callable[..., int], *arguments: Any) -> int:
    ret = function(*arguments)
    # The first call has no room for entries; the number is what byref() points at.
    counts = [each._obj.value for each in arguments if hasattr(each, "_obj")]
    if None in arguments and max(counts, default=0) > MOST_LISTED:
        raise _TooManyError(max(counts))
    return ret


def _with_room(function: Callable[..., int], handle: object, count: object, values: Any) -> int:
    asked = values._obj
    room = (asked._type_ * (len(asked) + SPARE_FIELDS))()
    ctypes.memmove(room, asked, ctypes.sizeof(asked))
    ret = function(handle, count, ctypes.byref(room))
    ctypes.memmove(asked, room, ctypes.sizeof(asked))
    return ret


def _absence(error: Any, root: Path) -> SourceAbsent:
    """Why NVML cannot start, one case at a time."""
    code = getattr(error, "value", None)
    version = root / "proc/driver/nvidia/version"
    nodes = sorted((root / "dev").glob("nvidia[0-9]*")) if (root / "dev").is_dir() else []
    control = root / "dev/nvidiactl"
    loading = getattr(error, "__context__", None)  # the binding calls each failure "not found"
    if isinstance(loading, OSError) and not str(loading).startswith(_NOWHERE):
        return SourceAbsent(f"libnvidia-ml.so.1 cannot be loaded: {loading}"[:300], "failed")
    if code == _LIBRARY_NOT_FOUND:
        if version.exists():
            return SourceAbsent(
                "the NVIDIA kernel driver is loaded but libnvidia-ml.so.1 is not found: "
                "a container without NVIDIA's runtime, or an incomplete driver installation"
            )
        return SourceAbsent("libnvidia-ml.so.1 is not found: no NVIDIA driver is installed here")
    if code == _DRIVER_NOT_LOADED:
        if version.exists() and not control.exists():
            return SourceAbsent(
                "the NVIDIA kernel driver is loaded but there are no NVIDIA device nodes: "
                "/dev/nvidiactl does not exist (a container without devices?)"
            )
        return SourceAbsent("the NVIDIA kernel driver is not loaded (no module nvidia)")
    if code == _VERSION_MISMATCH:
        return SourceAbsent(
            "the NVIDIA library and the loaded kernel driver have different versions"
            f"{_kernel_version(version)}: the driver was updated without a reboot "
            "or without reloading the module",
            "mismatch",
        )
    if code == _NO_PERMISSION or (control.exists() and not os.access(control, os.R_OK)):
        return SourceAbsent("no permission to open the NVIDIA device nodes in /dev", "denied")
    if code == _GPU_IS_LOST:
        return SourceAbsent("NVML cannot start: a GPU has fallen off the bus", "lost")
    seen = f"; {len(nodes)} device nodes /dev/nvidiaN exist" if nodes else ""
    return SourceAbsent(f"NVML cannot start: {words_of(error)}{seen}", "failed")


def _kernel_version(path: Path) -> str:
    try:
        words = path.read_text(errors="replace")[:1000].split()
    except OSError:
        return ""
    number = next((word for word in words if word[:1].isdigit() and "." in word), None)
    return f" (kernel module {number})" if number else ""


def words_of(error: Any) -> str:
    """The driver's words for an error; its number where they are no text."""
    try:
        return str(error)
    except ValueError:  # the binding asks the driver for them now, and takes them as UTF-8
        return f"error {getattr(error, 'value', '')}"


def refused(answer: Raw) -> bool:
    """Whether an answer holds a refusal instead of a value."""
    return isinstance(answer, dict) and ("error" in answer or "ret" in answer)


def missing(answer: Raw) -> bool:
    """Whether a function does not exist here, so that an older name is worth asking."""
    if not isinstance(answer, dict) or "error" not in answer:
        return False
    words = ("FunctionNotFound", "AttributeError", "LibraryMismatch", "ArgumentVersionMismatch")
    return any(word in str(answer["error"]) for word in words)


def _by_name(names: Sequence[str], values: Sequence[Raw]) -> dict[str, Raw]:
    return dict(zip(names, values, strict=False))


def _field(value: Any) -> Raw:
    if value.nvmlReturn != 0:
        return {"ret": int(value.nvmlReturn)}
    kind = int(value.valueType)
    if not 0 <= kind < len(_FIELD_TYPES):
        return {"error": f"value type {kind} is unknown"}
    return {"value": plain(getattr(value.value, _FIELD_TYPES[kind]))}


def plain(value: Any) -> Raw:
    """Turn what the binding returns into JSON-able data: structures to dicts, arrays to lists."""
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, _LISTS):
        return [*map(plain, value)]
    if isinstance(value, ctypes.Structure):
        return {field[0]: plain(getattr(value, field[0])) for field in value._fields_}
    if hasattr(value, "__dict__") and vars(value):
        return {name: plain(item) for name, item in vars(value).items()}
    return plain(value.value) if hasattr(value, "value") else str(value)
