"""The amdsmi binding as we use it: loaded late, every refusal turned into data, never into a crash.

An answer is plain JSON-able data: what the binding returns, with the members of its enumerations
by name, or {"error": "AmdSmiLibraryException: AMDSMI_STATUS_NO_PERM - Permission Denied"}.
"""

from __future__ import annotations

import ctypes
import enum
import importlib
import importlib.util
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...model.part import Raw
from ...model.source import SourceAbsent

NEEDED = (
    "amdsmi_init",
    "amdsmi_get_processor_handles",
    "amdsmi_get_gpu_device_bdf",
    "amdsmi_get_gpu_asic_info",
    "amdsmi_get_gpu_vram_info",
)
"""Names that every binding of ROCm 6.x and 7.x has; the last two came with 6.0."""
TOO_OLD = "the installed amdsmi is older than ROCm 6: its functions have other names"
_LIMIT = 200
_DEPTH, _ITEMS = 8, 4096
_NO_DRIVER = ("DRIVER_NOT_LOADED", "NO_DRV", "FILE_NOT_FOUND", "DRM_ERROR", "FAIL_LOAD_MODULE")
_STARTING = threading.Lock()
"""The library fills its list of GPUs without a lock: two sources must not start it at once."""
_IN_USE: weakref.WeakSet[Any] = weakref.WeakSet()
"""Bindings that have given out handles."""
_LIBRARIES = ("libamd_smi.so", "libamd_smi_python.so")


class AmdsmiLibrary:
    """amdsmi, initialised. Every call goes through `ask` or `handles`."""

    def __init__(self, binding: Any) -> None:
        self.binding = binding

    def ask(self, name: str, *arguments: object) -> Raw:
        """Call the function `name`; any refusal is an answer.

        A text such as "AmdSmiClkType.GFX" among the arguments stands for that member.
        """
        try:
            found = [
                self._member(argument) if isinstance(argument, str) else argument
                for argument in arguments
            ]
            return plain(getattr(self.binding, name)(*found))
        except Exception as error:  # noqa: BLE001 - the border to a vendor's library
            return {"error": refusal_text(error)}

    def ask_all(self, handle: object, questions: Sequence[tuple[str, ...]]) -> dict[str, Raw]:
        """Ask about one GPU; `key` gives the keys of the answers."""
        return {key(question): self.ask(question[0], handle, *question[1:])
                for question in questions}  # fmt: skip

    def handles(self) -> list[object]:
        """The handles of all GPUs. Raises what the binding raises."""
        with _STARTING:
            found = list(self.binding.amdsmi_get_processor_handles())
            if found:
                _IN_USE.add(self.binding)
        return found

    def close(self) -> None:
        """Leave the library, so that the next start sees what has changed.

        It stays up where handles were given out: all of a process share one library, and shutting
        it down frees what the handles of another source point to.
        """
        with _STARTING:
            if self.binding not in _IN_USE:
                self.ask("amdsmi_shut_down")

    def _member(self, text: str) -> object:
        kind, _, member = text.partition(".")
        return getattr(getattr(self.binding, kind), member)


def key(question: tuple[str, ...]) -> str:
    """Name a question: ("amdsmi_get_clock_info", "AmdSmiClkType.GFX") is "..._info(GFX)"."""
    members = [member.partition(".")[2] for member in question[1:]]
    return f"{question[0]}({','.join(members)})" if members else question[0]


def open_library(load: Callable[[], Any] | None = None, root: Path = Path("/")) -> AmdsmiLibrary:
    """Load the binding and initialise it. Raises SourceAbsent with a sentence and a kind."""
    try:
        binding = (load or _binding)()
    except ModuleNotFoundError as error:
        raise SourceAbsent("the Python package amdsmi is not installed") from error
    except (ImportError, OSError, KeyError) as error:
        if "ROCM_PATH" in str(error):
            # The bindings up to 6.1 read it without asking whether it is there.
            raise SourceAbsent(
                "the installed amdsmi needs the variable ROCM_PATH (ROCm's folder): it is not set",
                "failed",
            ) from error
        # Without ROCm's library the binding of 6.x and 7.0 dies of a KeyError while it is imported.
        raise SourceAbsent("libamd_smi.so is not found: no ROCm is installed here") from error
    except AttributeError as error:
        raise SourceAbsent(
            "the Python package amdsmi and libamd_smi.so are of different ROCm versions "
            f"({str(error)[:100]})",
            "mismatch",
        ) from error
    except Exception as error:
        raise SourceAbsent(f"amdsmi cannot be loaded: {refusal_text(error)}", "failed") from error
    if any(not callable(getattr(binding, name, None)) for name in NEEDED):
        raise SourceAbsent(TOO_OLD, "mismatch")
    try:
        with _STARTING:
            binding.amdsmi_init()
    except Exception as error:
        raise _absence(error, root) from error
    return AmdsmiLibrary(binding)


def _binding() -> Any:
    """Import the binding where its library is there: without one it prints to standard output."""
    spec = importlib.util.find_spec("amdsmi")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("amdsmi")
    places = [Path(spec.origin).parent]
    for name in ("ROCM_HOME", "ROCM_PATH"):
        if folder := os.environ.get(name):
            places += [Path(folder) / "lib", Path(folder) / "lib64"]
    places += [Path("/opt/rocm/lib"), Path("/opt/rocm/lib64")]
    names = [os.environ.get("AMDSMI_LIB_OVERRIDE") or "", *_LIBRARIES]
    names += [str(place / name) for place in places for name in _LIBRARIES]
    if not any(_loads(name) for name in names if name):
        raise OSError("libamd_smi.so")
    return importlib.import_module("amdsmi")


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _absence(error: Exception, root: Path) -> SourceAbsent:
    """Why amdsmi cannot start, one case at a time."""
    text = refusal_text(error)
    if isinstance(error, OSError | KeyError):
        return SourceAbsent("libamd_smi.so is not found: no ROCm is installed here")
    kfd = root / "dev/kfd"
    if "NO_PERM" in text or (kfd.exists() and not os.access(kfd, os.R_OK)):
        return SourceAbsent(
            "no permission to open AMD's device nodes (/dev/kfd, /dev/dri): membership in the "
            "groups video and render opens them",
            "denied",
        )
    loaded = (root / "sys/module/amdgpu").is_dir()
    if not loaded:
        return SourceAbsent("the AMD kernel driver is not loaded (no module amdgpu)")
    if not kfd.exists():
        return SourceAbsent(
            "the AMD kernel driver is loaded but /dev/kfd does not exist (a container without "
            "devices?)"
        )
    if any(word in text for word in _NO_DRIVER):
        return SourceAbsent(f"amdsmi does not find AMD's kernel driver: {text}")
    return SourceAbsent(f"amdsmi cannot start: {text}", "failed")


def refusal_text(error: BaseException) -> str:
    """Write what an exception says in one short line."""
    words = getattr(error, "err_info", None) or getattr(error, "err_msg", None)
    try:
        text = str(words) if isinstance(words, str) else str(error)
    except Exception:  # noqa: BLE001 - an exception of the vendor's that cannot even be written
        text = "no reason given"
    return f"{type(error).__name__}: {' '.join(text.split())}"[:_LIMIT]


def refused(answer: Raw) -> bool:
    """Whether an answer holds a refusal instead of a value."""
    return isinstance(answer, dict) and "error" in answer


def plain(value: Any, depth: int = 0) -> Raw:
    """Turn what the binding returns into JSON-able data of a sane size."""
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if depth >= _DEPTH:
        return str(type(value).__name__)
    if isinstance(value, dict):
        pairs = list(value.items())[:_ITEMS]
        return {_name(name): plain(item, depth + 1) for name, item in pairs}
    if isinstance(value, list | tuple | ctypes.Array):
        return [plain(item, depth + 1) for item in list(value)[:_ITEMS]]
    if isinstance(value, ctypes._SimpleCData):
        return plain(value.value, depth + 1)
    return str(type(value).__name__)


def _name(name: object) -> str:
    return name.name if isinstance(name, enum.Enum) else str(name)
