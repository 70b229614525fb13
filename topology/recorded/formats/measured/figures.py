"""Figures and GPUs of programs that measure, as their outputs name them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from ....hardware.vendors import AMD, NVIDIA
from ....model.format import FormatError
from ....model.machine import Gpu
from ....model.record import gaps_of
from ....model.snapshot import Measurement
from ....sources.pci.address import pci_address

MAX_BYTES = 16 * 1024 * 1024
MAX_GPUS = 128
_NUMBER = re.compile(r"\A\d{1,9}(?:\.\d{1,6})?\Z")
_BUS = re.compile(r"\A0x([0-9a-fA-F]{1,2})\Z")
_SHORT = re.compile(r"\A[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?\Z")
_OF_AMD = re.compile(r"AMD|Radeon|Instinct|MI\d{2,3}|gfx\d")
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


def all_names(shown: Mapping[int, ListedGpu], used: Iterable[int]) -> dict[int, str]:
    """`names_of` the listed GPUs and of those that the tables use without a list.

    A number without a list is no GPU of which anything is known: no record is made of it.
    """
    every = {number: ListedGpu(number, "") for number in used} | dict(shown)
    if len(every) > MAX_GPUS:
        raise FormatError(f"more than {MAX_GPUS} GPUs")
    return names_of(every)


def numbers_of(shown: Mapping[int, ListedGpu]) -> tuple[tuple[int, str], ...]:
    """CUDA's or HIP's number and the address of each GPU that a program lists by both."""
    return tuple((number, gpu.address) for number, gpu in shown.items() if gpu.address)


def gpus_of(
    shown: Mapping[int, ListedGpu], tool: str, vendor: str | None = None
) -> tuple[Gpu, ...]:
    """The listed GPUs. Their numbers are CUDA's, which need not be the driver's.

    `vendor`: of a tool that knows those of one vendor alone; else the name says it.
    """
    names = names_of(shown)
    return tuple(
        Gpu(
            address=names[number],
            vendor=vendor or (AMD.id if _OF_AMD.match(gpu.name) else NVIDIA.id),
            name=gpu.name[:120] or None,
            gaps=gaps_of(_UNKNOWN, f"not in {tool}"),
        )
        for number, gpu in list(shown.items())[:MAX_GPUS]
    )


class Matrix:
    """Cells by row and column below a head of numbers; N/A is no cell."""

    def __init__(self) -> None:
        self.columns: list[int] = []
        self.cells: dict[tuple[int, int], float] = {}

    def head(self, words: str) -> None:
        """The numbers of the columns."""
        self.columns = [int(word) for word in words.split()]

    def row(self, row: re.Match[str], line: int) -> None:
        """A number and its cells. Raises FormatError where some are missing."""
        words = row[2].split()
        if len(words) != len(self.columns):
            text = f"row {row[1]} has {len(words)} of {len(self.columns)} cells"
            raise FormatError(text, line)
        for column, word in zip(self.columns, words, strict=True):
            if _NUMBER.match(word):
                self.cells.setdefault((int(row[1]), column), float(word))


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
