"""A stand-in for pynvml: the functions that a test gives it, NVML's errors, nothing else.

The stand-in library (tests/support/faults) is behind the real binding of one version; here a test
says which functions a binding lacks, and gives single answers without a whole machine.
"""

# ruff: noqa: N802 - NVML has its own way with names

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class NVMLError(Exception):
    value = 999
    text = "Unknown Error"

    def __str__(self) -> str:
        return self.text


def _error(name: str, code: int, words: str) -> type[NVMLError]:
    return type(f"NVMLError_{name}", (NVMLError,), {"value": code, "text": words})


Uninitialized = _error("Uninitialized", 1, "Uninitialized")
InvalidArgument = _error("InvalidArgument", 2, "Invalid Argument")
NotSupported = _error("NotSupported", 3, "Not Supported")
NoPermission = _error("NoPermission", 4, "Insufficient Permissions")
DriverNotLoaded = _error("DriverNotLoaded", 9, "Driver Not Loaded")
LibraryNotFound = _error("LibraryNotFound", 12, "NVML Shared Library Not Found")
FunctionNotFound = _error("FunctionNotFound", 13, "Function Not Found")
GpuIsLost = _error("GpuIsLost", 15, "GPU is lost")
VersionMismatch = _error("LibRmVersionMismatch", 18, "RM has detected an NVML/RM version mismatch.")


class Field:
    """A field value, as the binding hands it out."""

    def __init__(self, number: int) -> None:
        self.nvmlReturn = 0
        self.valueType = 3
        self.value = type("Value", (), {"ullVal": number})()


class Binding:
    """What an old binding lacks is lacking here too: an attribute that nobody set."""

    NVMLError = NVMLError
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX = 138
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 139
    NVML_FI_DEV_PCIE_COUNT_TX_BYTES = 197
    NVML_FI_DEV_PCIE_COUNT_RX_BYTES = 198

    def __init__(self, gpus: int = 2) -> None:
        self.gpus = gpus
        self.lost: set[int] = set()
        self.calls: list[str] = []
        self.starts = 0
        self.start_error: type[NVMLError] | None = None
        self.answers: dict[str, Callable[..., Any]] = {
            "nvmlDeviceGetName": lambda handle: f"GPU number {handle}",
            "nvmlDeviceGetUtilizationRates": lambda handle: {"gpu": 7, "memory": 3},
        }
        self.fields: Callable[[int, int, int], int] | None = None

    def nvmlInit(self) -> None:
        self.starts += 1
        if self.start_error is not None:
            raise self.start_error

    def nvmlShutdown(self) -> None:
        self.calls.append("nvmlShutdown")

    def nvmlDeviceGetCount(self) -> int:
        return self.gpus

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetPciInfo_v3(self, handle: int) -> dict[str, Any]:
        return {"busId": f"00000000:{handle + 1:02X}:00.0", "pciDeviceId": 0x233510DE}

    def nvmlDeviceGetFieldValues(self, handle: int, asked: list[Any]) -> list[Field]:
        self.calls.append("nvmlDeviceGetFieldValues")
        self._check(handle)
        if self.fields is None:
            raise NotSupported
        pairs = [(item, 0) if isinstance(item, int) else item for item in asked]
        return [Field(self.fields(handle, number, scope)) for number, scope in pairs]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self.answers:
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            if arguments:
                self._check(arguments[0])
            return self.answers[name](*arguments)

        return call

    def _check(self, handle: Any) -> None:
        if handle in self.lost:
            raise GpuIsLost
