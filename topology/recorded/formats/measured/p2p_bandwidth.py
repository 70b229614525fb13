"""Output of p2pBandwidthLatencyTest of the CUDA samples: who may access whom, and GB/s by pair.

Row i and column j: GPU i writes into GPU j, or reads from it with --p2p_read (its source code).
Both ways at once counts both directions together. Where the driver refuses, "P2P=Enabled" is a copy
through the host. Its diagonal is a copy inside a GPU by one engine: nothing to compare with.
"""

from __future__ import annotations

import re

from ....model import quantities
from ....model.format import FormatError, text_format
from ....model.part import PartialNode
from ....model.snapshot import DataVerdict, Measurement
from ....sources.pci.address import pci_address
from .figures import MAX_BYTES, ListedGpu, Matrix, all_names, figure, gpus_of

TOOL = "p2pBandwidthLatencyTest"
COPY_BYTES = 160_000_000
"""40 million integers, the size of its copies."""
_DEVICE = re.compile(
    r"\s*Device: (\d{1,3}), (\S.{0,100}?), pciBusID: ([0-9a-f]{1,2}), "
    r"pciDeviceID: ([0-9a-f]{1,2}), pciDomainID: ?([0-9a-f]{1,8})\s*\Z"
)
_ACCESS = re.compile(r"\s*Device=(\d{1,3}) (CAN|CANNOT) Access Peer Device=(\d{1,3})\s*\Z")
_TITLE = re.compile(
    r"\s*(?:(Unidirectional|Bidirectional) P2P=(Enabled|Disabled) Bandwidth"
    r"(?: \(P2P (Writes|Reads)\))? Matrix \(GB/s\)|P2P (Connectivity) Matrix|"
    r"P2P=(Enabled|Disabled) (Latency)(?: \(P2P \w+\))? Matrix \(us\))\s*\Z"
)
_HEAD = re.compile(r"\s*(D\\D|GPU|CPU)((?:\s+\d{1,3}){1,128})\s*\Z")
_ROW = re.compile(
    r"\s*(\d{1,3})((?:\s+(?:\d{1,9}(?:\.\d{1,4})?|N/A|[-\u2013\u2014xX])){1,128})\s*\Z"
)
"""A page may show a dash or a cross in place of a GPU with itself."""


class _Table(Matrix):
    """One matrix and its title."""

    def __init__(self, title: re.Match[str]) -> None:
        super().__init__()
        self.both_ways, self.reads = title[1] == "Bidirectional", title[3] == "Reads"
        self.staged = "Disabled" in (title[2], title[5])
        self.connectivity = title[4] is not None
        self.latency = title[6] is not None


class _Output:
    """What the lines have said so far."""

    def __init__(self) -> None:
        self.shown: dict[int, ListedGpu] = {}
        self.access: dict[tuple[int, int], bool] = {}
        self.tables: list[_Table] = []

    def line(self, line: str, number: int) -> None:
        table = self.tables[-1] if self.tables else None
        if device := _DEVICE.match(line):
            address = pci_address(f"{device[5]}:{device[3]}:{device[4]}.0")
            listed = ListedGpu(int(device[1]), device[2], address)
            self.shown.setdefault(listed.number, listed)
        elif granted := _ACCESS.match(line):
            self.access.setdefault((int(granted[1]), int(granted[3])), granted[2] == "CAN")
        elif title := _TITLE.match(line):
            self.tables.append(_Table(title))
        elif table is None:
            return
        elif head := _HEAD.match(line):
            # Below the latencies of the GPUs stand those that the CPU takes to ask for a copy.
            table.head("" if head[1] == "CPU" else head[2])
        elif table.columns and (row := _ROW.match(line)):
            table.row(row, number)


def _parse(lines: list[str]) -> PartialNode:
    said = _Output()
    for number, line in enumerate(lines, start=1):
        said.line(line, number)
    if not said.tables and not said.access:
        raise FormatError("no matrix in it")
    for table in said.tables:
        if table.connectivity:
            for ends, value in table.cells.items():
                said.access.setdefault(ends, value == 1.0)
    of_tables = {end for table in said.tables for ends in table.cells for end in ends}
    names = all_names(said.shown, sorted({*said.shown, *of_tables}))
    figures = [
        _access(names, ends, granted)
        for ends, granted in said.access.items()
        if ends[0] != ends[1] and set(ends) <= names.keys()
    ]
    for table in said.tables:
        figures += _figures(table, names, said.access)
    return PartialNode(gpus=gpus_of(said.shown, TOOL), measurements=tuple(figures))


def _access(names: dict[int, str], ends: tuple[int, int], granted: bool) -> Measurement:
    return Measurement(
        probe="p2p",
        quantity=quantities.CAN_ACCESS,
        src=names[ends[0]],
        dst=names[ends[1]],
        verdict=DataVerdict.GRANTED if granted else DataVerdict.NOT_GRANTED,
        device_kind="gpu",
        details={"pasted": TOOL},
    )


def _figures(
    table: _Table, names: dict[int, str], access: dict[tuple[int, int], bool]
) -> list[Measurement]:
    found = []
    for (row, column), value in table.cells.items():
        granted = access.get((row, column))
        quantity = _quantity(table, granted=granted)
        if row == column or quantity is None:
            continue
        staged = table.staged or granted is not True
        found.append(
            figure(
                TOOL,
                "p2p",
                quantity,
                value,
                src=names[row],
                dst=names[column],
                unit="us" if table.latency else "GB/s",
                bytes_per_copy=None if table.latency else COPY_BYTES,
                engine="copy, maybe staged through the host" if staged else "copy engine",
            )
        )
    return found


def _quantity(table: _Table, *, granted: bool | None) -> str | None:
    """The quantity of a table's cells; None for those that no screen and no rule asks for."""
    if table.connectivity:
        return None
    if table.latency:
        return None if table.staged else quantities.LATENCY
    if table.staged or granted is False:
        return None if table.both_ways else quantities.STAGED
    if table.both_ways:
        return quantities.TOGETHER
    return quantities.READ if table.reads else quantities.WRITE


_STARTS = re.compile(
    r"(?m)^[ \t]*(?:\[P2P \(Peer-to-Peer\) GPU Bandwidth Latency Test\]|"
    r"Device: \d{1,3}, [^\n]{1,100}, pciBusID: |P2P Connectivity Matrix|"
    r"(?:Uni|Bi)directional P2P=(?:Enabled|Disabled) Bandwidth|P2P=(?:Enabled|Disabled) Latency)"
)
FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    most_bytes=MAX_BYTES,
    starts=_STARTS,
    needs=(
        "P2P (Peer-to-Peer)",
        ", pciBusID: ",
        "P2P Connectivity",
        "directional P2P=",
        "P2P=Enabled",
        "P2P=Disabled",
    ),
    goes_on=re.compile(
        r"[ \t]*(?:\[P2P \(|Device: \d|Device=\d|\*\*\*NOTE|So you can see|P2P |P2P=|"
        r"(?:Uni|Bi)directional |D\\D\s|GPU\s+\d|CPU\s+\d|NOTE: The CUDA Samples|"
        r"\d{1,3}(?:\s+(?:\d{1,9}(?:\.\d{1,4})?|N/A|[-\u2013\u2014xX]))+\s*\Z)"
    ),
    repeats=True,
    together=True,
)
