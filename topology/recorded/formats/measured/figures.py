"""Figures and GPUs of programs that measure, as their outputs name them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ....hardware.vendors import AMD, NVIDIA
from ....model.machine import Gpu
from ....model.record import Gap
from ....model.snapshot import Measurement
from ....sources.pci.address import pci_address

MAX_BYTES = 16 * 1024 * 1024
MAX_GPUS = 128
NO_NUMBER = re.compile(r"\A(?:N/A|n/a|nan|-)\Z")
_NUMBER = re.compile(r"\A\d{1,9}(?:\.\d{1,6})?\Z")
_BUS = re.compile(r"\A0x([0-9a-fA-F]{1,2})\Z")
_SHORT = re.compile(r"\A[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?\Z")
_UNKNOWN = ("uuid", "index", "memory_bytes", "serial")


class ListedGpu(msgspec.Struct, frozen=True):
    """A GPU that an output lists by CUDA's or HIP's number."""

    number: int
    name: str
    address: str | None = None


def address_of(text: str) -> str | None:
    """An address as printed: "0x1b" (the bus alone), "0000:1b:00", or a whole one."""
    bus = _BUS.match(text)
    if bus is not None:
        return pci_address(f"0000:{int(bus[1], 16):02x}:00.0")
    if not _SHORT.match(text):
        return None
    return pci_address(text if "." in text else f"{text}.0")


def names_of(shown: Mapping[int, ListedGpu]) -> dict[int, str]:
    """What stands for each GPU: its address, or "topo:GPU0" where those shown are not distinct."""
    known = [gpu.address for gpu in shown.values() if gpu.address]
    distinct = len(known) == len(set(known)) == len(shown)
    return {
        number: (gpu.address if distinct and gpu.address else f"topo:GPU{number}")
        for number, gpu in shown.items()
    }


def gpus_of(shown: Mapping[int, ListedGpu], tool: str) -> tuple[Gpu, ...]:
    """The listed GPUs. Their numbers are CUDA's, which need not be the driver's."""
    names = names_of(shown)
    return tuple(
        Gpu(
            address=names[number],
            vendor=AMD.id if gpu.name.startswith("AMD") else NVIDIA.id,
            name=gpu.name[:120] or None,
            gaps=tuple(Gap(field, f"not in {tool}") for field in _UNKNOWN),
        )
        for number, gpu in list(shown.items())[:MAX_GPUS]
    )


def value_of(word: str) -> float | None:
    """A figure of a table; None for N/A."""
    return float(word) if _NUMBER.match(word) else None


def figure(tool: str, probe: str, quantity: str, value: float, **known: object) -> Measurement:
    """A figure of another program, marked as pasted, in GB/s unless it says otherwise."""
    details = known.pop("details", {})
    assert isinstance(details, dict)
    known.setdefault("unit", "GB/s")
    return Measurement(
        probe=probe,
        quantity=quantity,
        value=value,
        device_kind="gpu",
        details={**details, "pasted": tool},
        **known,  # type: ignore[arg-type]
    )
