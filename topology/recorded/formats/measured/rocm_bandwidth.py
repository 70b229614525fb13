"""Output of rocm-bandwidth-test: who may access whom, and GB/s between host and GPUs and by pair.

Row i and column j: from i to j (its source code). CPUs count among the devices.
"""

from __future__ import annotations

import re

from ....hardware.vendors import AMD
from ....model import quantities
from ....model.format import FormatError, text_format
from ....model.part import PartialNode
from ....model.snapshot import DataVerdict, Measurement
from ....sources.pci.address import pci_address
from .figures import ListedGpu, Matrix, figure, gpus_of, names_of

TOOL = "rocm-bandwidth-test"
_DEVICE = re.compile(
    r"\s*Device: (\d{1,3}),\s+(\S.{0,100}?)(?:,\s+(?:(GPU-\w{1,40}),\s+)?"
    r"(?:([0-9a-f]{4}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7]))?\s*\Z"
)
_TITLE = re.compile(
    r"\s*((?:Inter-)?Device (?:Access|Numa Distance)|"
    r"(Uni|Bi)directional copy (?:peak|average) bandwidth GB/s)\s*\Z"
)
_HEAD = re.compile(r"\s*D/D((?:\s+\d{1,3}){1,128})\s*\Z")
_ROW = re.compile(r"\s*(\d{1,3})((?:\s+(?:\d{1,9}(?:\.\d{1,4})?|N/A)){1,128})\s*\Z")


def _listed(device: re.Match[str]) -> ListedGpu | None:
    """A GPU of the list; None for a CPU, which has no place on the bus."""
    place, name, _, domain, bus, slot, function = device.groups()
    if bus is None:
        return None
    own = pci_address(f"{domain or '0000'}:{int(bus, 16):02x}:{int(slot, 16):02x}.{function}")
    return ListedGpu(int(place), name, own)


def _parse(lines: list[str]) -> PartialNode:
    cpus: set[int] = set()
    shown: dict[int, ListedGpu] = {}
    tables: dict[str, Matrix] = {}
    table = Matrix()
    for number, line in enumerate(lines, start=1):
        if device := _DEVICE.match(line):
            gpu = _listed(device)
            if gpu is None:
                cpus.add(int(device[1]))
            else:
                shown.setdefault(gpu.number, gpu)
        elif title := _TITLE.match(line):
            table = tables.setdefault(title[2] or title[1], Matrix())
        elif head := _HEAD.match(line):
            table.head(head[1])
        elif table.columns and (row := _ROW.match(line)):
            table.row(row, number)
    if not shown:
        raise FormatError("no GPU in its list of devices")
    names = names_of(shown)
    figures = [
        made
        for title, matrix in tables.items()
        for ends, value in matrix.cells.items()
        if (made := _figure(title, names, cpus, ends, value)) is not None
    ]
    return PartialNode(gpus=gpus_of(shown, TOOL, AMD.id), measurements=tuple(figures))


def _figure(
    title: str, names: dict[int, str], cpus: set[int], ends: tuple[int, int], value: float
) -> Measurement | None:
    row, column = ends
    src, dst = names.get(row), names.get(column)
    if src and dst and src != dst:
        if title.endswith("Device Access"):
            said = DataVerdict.GRANTED if value else DataVerdict.NOT_GRANTED
            return Measurement(
                probe="p2p", quantity=quantities.CAN_ACCESS, src=src, dst=dst, verdict=said,
                device_kind="gpu", details={"pasted": TOOL},
            )  # fmt: skip
        quantity = {"Uni": quantities.WRITE, "Bi": quantities.TOGETHER}.get(title)
        if quantity is not None:
            return figure(TOOL, "p2p", quantity, value, src=src, dst=dst, engine="copy engine")
    elif title == "Uni" and (src or dst) and {row, column} & cpus:
        quantity = quantities.DEVICE_TO_HOST if src else quantities.HOST_TO_DEVICE
        return figure(
            TOOL, "host", quantity, value, src=src or dst, variant="pinned", engine="copy engine"
        )
    return None


FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=re.compile(
        r"(?m)^[ \t]*(?:RocmBandwidthTest Version:|Device: \d{1,3},[ \t]{2}|Inter-Device Access)"
    ),
    needs=("RocmBandwidthTest", "Inter-Device", "directional copy"),
    goes_on=re.compile(
        r"\s*(?:Launch Command|Device: \d|(?:Inter-)?Device (?:Access|Numa)|D/D\s|"
        r"(?:Uni|Bi)directional copy|"
        r"\d{1,3}(?:\s+(?:\d{1,9}(?:\.\d{1,4})?|N/A))+\s*\Z)"
    ),
    together=True,
    repeats=True,
)
