"""A stand-in for the Python binding amdsmi: its public functions, answering from a recording.

It offers exactly the functions and enumerations that the real binding of the same major version
exports (recordings/amdsmi-signatures), takes as many arguments, insists on handles and members of
the right enumeration as the real one does, and raises what the real one raises.
"""

from __future__ import annotations

import ctypes
import enum
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from gputop.topology.sources.amd import amdsmi, amdsmi_readings
from gputop.topology.sources.amd.library import AmdsmiLibrary, open_library
from tests.support.amdsmi import signatures
from tests.support.places import RECORDINGS


class AmdSmiException(Exception):  # noqa: N818 - as the real one is called
    pass


class AmdSmiLibraryException(AmdSmiException):
    def __init__(self, info: str) -> None:
        super().__init__(info)
        self.err_info = info

    def __str__(self) -> str:
        return f"Error code:\n\t2 | {self.err_info}"


class AmdSmiParameterException(AmdSmiException):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.err_msg = text

    def __str__(self) -> str:
        return self.err_msg


NOT_SUPPORTED = "AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported"
NO_PERMISSION = "AMDSMI_STATUS_NO_PERM - Permission Denied"


class Handle:
    """What stands for a GPU in a call; nothing can be read from it."""

    def __init__(self, place: int) -> None:
        self._place = place


def recording(major: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        (RECORDINGS / f"mi300x-amdsmi-{major}/amdsmi.json").read_text()
    )
    return document


class Binding:
    """What the real module lacks is lacking here too."""

    AmdSmiException = AmdSmiException
    AmdSmiLibraryException = AmdSmiLibraryException
    AmdSmiParameterException = AmdSmiParameterException

    def __init__(self, major: str, raw: dict[str, Any] | None = None) -> None:
        self.raw = recording(major) if raw is None else raw
        self.offered = signatures.load(major)
        self.enums: dict[str, type[enum.IntEnum]] = {
            name: enum.IntEnum(name, members)  # type: ignore[misc]
            for name, members in self.offered["enums"].items()
        }
        self.calls: list[str] = []
        self.handles = [Handle(place) for place in range(len(self.raw["devices"]))]
        self.init_error: Exception | None = None
        self.answering: Callable[[str, Any], Any] = lambda key, answer: answer
        """Changes an answer on its way out, or raises."""

    def __getattr__(self, name: str) -> Any:
        if name in self.enums:
            return self.enums[name]
        if name not in self.offered["functions"]:
            raise AttributeError(f"module 'amdsmi' has no attribute {name!r}")
        return lambda *arguments: self._call(name, arguments)

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        signature = self.offered["functions"][name]
        if not signature["required"] <= len(arguments) <= len(signature["parameters"]):
            raise TypeError(f"{name}() takes {signature['parameters']}")
        for parameter, argument in zip(signature["parameters"], arguments, strict=False):
            if parameter.startswith("processor_handle") and not isinstance(argument, Handle):
                raise AmdSmiParameterException("Invalid parameter")
        members = [item for item in arguments if isinstance(item, enum.Enum)]
        key = name + (f"({','.join(member.name for member in members)})" if members else "")
        self.calls.append(key)
        return self.answering(key, self._answer(name, key, arguments))

    def _answer(self, name: str, key: str, arguments: tuple[Any, ...]) -> Any:
        if name == "amdsmi_init":
            if self.init_error is not None:
                raise self.init_error
            return None
        if name == "amdsmi_shut_down":
            return None
        if name == "amdsmi_get_processor_handles":
            return list(self.handles)
        if not arguments:
            return self._given(self.raw["system"].get(key))
        device = self.raw["devices"][arguments[0]._place]
        if name == "amdsmi_get_gpu_ecc_count":
            return self._given(device["ecc"].get(arguments[1].name))
        if len(arguments) == 2 and isinstance(arguments[1], Handle):
            pairs = {pair["peer"]: pair for pair in device["pairs"]}
            found = self._given(pairs[arguments[1]._place].get(key))
            if name == "amdsmi_topo_get_p2p_status":
                # The real one leaves a ctypes object there.
                return found | {"type": ctypes.c_uint32(found["type"])}
            return found
        members = [item for item in arguments if isinstance(item, enum.Enum)]
        keys = [key for key in self._keys(name, members) if key in device]
        found = self._given(device[keys[0]] if keys else None)
        if name == "amdsmi_get_gpu_virtualization_mode":
            return {"mode": self.enums["AmdSmiVirtualizationMode"][found["mode"]]}
        return found

    def _keys(self, name: str, members: list[enum.Enum]) -> list[str]:
        """Names of one question: a member may have several, as GFX and SYS are one clock."""
        keys = [""]
        for member in members:
            aliases = type(member).__members__
            names = [alias for alias, same in aliases.items() if same is member]
            keys = [f"{key},{alias}" if key else alias for key in keys for alias in names]
        return [f"{name}({key})" if key else name for key in keys]

    def _given(self, answer: Any) -> Any:
        if answer is None:
            raise AmdSmiLibraryException(NOT_SUPPORTED)
        if isinstance(answer, dict) and "error" in answer:
            raise AmdSmiLibraryException(str(answer["error"]).partition(": ")[2])
        return answer


def start(binding: Binding, root: Path = Path("/nowhere")) -> Callable[[], AmdsmiLibrary]:
    return partial(open_library, lambda: binding, root)


def asked(binding: Binding) -> Any:
    """What a plain command reads, as a recording would keep it."""
    reader = amdsmi.AmdsmiReader(start(binding))
    reader.thorough = True
    return json.loads(json.dumps(reader()))


def read(binding: Binding, times: int = 1, *, thorough: bool = False) -> Any:
    """The last of some readings, ten seconds apart."""
    ticks = iter(range(10_000))
    gpus = max(1, len(binding.handles))
    reader = amdsmi_readings.AmdsmiReadingsReader(
        start(binding), lambda: 10.0 * (next(ticks) // gpus)
    )
    reader.thorough = thorough
    for _ in range(times - 1):
        reader()
    return json.loads(json.dumps(reader()))
