"""Output of nvbandwidth: GB/s between host and GPUs and between pairs of GPUs, by test.

The GPU of the row does the work: in its "write" tests it writes into the one of the column, in its
"read" tests it reads from there (its source code; the arrows of versions differ). Tests of both
directions measure one stream while another one runs the other way; later versions print each
stream and the sum, in tables of their own. Those by kernels, to the host, and of all GPUs at once
are counted in other ways, and are passed over.
"""

from __future__ import annotations

import re

from ....model import quantities
from ....model.format import ProvesNothingError, text_format
from ....model.part import PartialNode
from ....model.record import gaps_of
from ....model.snapshot import Measurement
from ....model.surroundings import Software
from .figures import MAX_BYTES, ListedGpu, Matrix, address_of, all_names, figure, gpus_of

TOOL = "nvbandwidth"
PAIRS = {
    "device_to_device_memcpy_write_ce": (quantities.WRITE, "copy engine"),
    "device_to_device_memcpy_read_ce": (quantities.READ, "copy engine"),
    "device_to_device_memcpy_write_sm": (quantities.KERNEL_WRITE, "kernel store"),
    "device_to_device_memcpy_read_sm": (quantities.KERNEL_READ, "kernel load"),
}
HOST = {
    "host_to_device_memcpy_ce": quantities.HOST_TO_DEVICE,
    "device_to_host_memcpy_ce": quantities.DEVICE_TO_HOST,
}
BOTH = {
    "device_to_device_bidirectional_memcpy_write_ce": quantities.BOTH_WAYS,
    "device_to_device_bidirectional_memcpy_read_ce": quantities.BOTH_WAYS,
    "device_to_device_bidirectional_memcpy_write_ce Total": quantities.TOGETHER,
    "device_to_device_bidirectional_memcpy_read_ce Total": quantities.TOGETHER,
}
"""By test, and by the name of its table where it has several."""
_TABLE = re.compile(
    r"\s*memcpy \w{2} .{0,40}?\)(?: (Read|Write)?(\d|Total))? bandwidth \(GB/s\)\s*\Z"
)
_DEVICE = re.compile(
    r"\s*Device (\d{1,3}): (\S.{0,100}?)"
    r"(?: \(([0-9a-fA-F:.]{7,16})\)(?:: ?\(?[\w.:() -]{0,60})?)?\s*\Z"
)
_RUNNING = re.compile(r"\s*Running ([a-z_]{4,60})\.\s*\Z")
_HEAD = re.compile(r"\s+(\d{1,3}(?:\s+\d{1,3}){0,127})\s*\Z")
_ROW = re.compile(r"\s*(\d{1,3})((?:\s+(?:\d{1,9}(?:\.\d{1,4})?|N/A)){1,128})\s*\Z")
_DRIVER = re.compile(r"\s*Driver Version: (\d{3}\.[\d.]{1,12})\s*\Z")


class _Output:
    """What the lines have said so far."""

    def __init__(self) -> None:
        self.shown: dict[int, ListedGpu] = {}
        self.tables: dict[str, Matrix] = {}
        self.driver: str | None = None
        self._test = ""
        """The test whose tables follow; "" before the first, and where one is run once more."""
        self._table = Matrix()

    def line(self, line: str, number: int) -> None:
        if device := _DEVICE.match(line):
            address = address_of(device[3]) if device[3] else None
            listed = ListedGpu(int(device[1]), device[2], address)
            self.shown.setdefault(listed.number, listed)
        elif running := _RUNNING.match(line):
            self._begin(running[1])
        elif said := _DRIVER.match(line):
            self.driver = self.driver or said[1]
        elif not self._test:
            return
        elif named := _TABLE.match(line):
            # The first stream is the one that older versions print alone.
            first = named[2] in (None, "1")
            self._open(self._test if first else f"{self._test} {named[2]}")
        elif not self._table.columns and (head := _HEAD.match(line)):
            self._table.head(head[1])
        elif self._table.columns and (row := _ROW.match(line)):
            self._table.row(row, number)

    def _begin(self, test: str) -> None:
        known = {name.partition(" ")[0] for name, table in self.tables.items() if table.cells}
        self._test = "" if test in known else test
        if self._test:
            self._open(test)

    def _open(self, name: str) -> None:
        self._table = self.tables.setdefault(name, Matrix())
        self._table.columns = []


def _parse(lines: list[str]) -> PartialNode:
    said = _Output()
    for number, line in enumerate(lines, start=1):
        said.line(line, number)
    tables = {
        name: said.tables[name].cells for name in (*PAIRS, *HOST, *BOTH) if name in said.tables
    }
    if not any(tables.values()):
        raise ProvesNothingError(
            "no test in it that can be compared; run nvbandwidth "
            "-t device_to_device_memcpy_write_ce -t host_to_device_memcpy_ce"
        )
    used = (
        place
        for name, cells in tables.items()
        for ends in cells
        for place in (ends[1:] if name in HOST else ends)
    )
    names = all_names(said.shown, used)
    gaps = gaps_of(("nvml", "nccl", "torch"), f"not in {TOOL}")
    software = None if said.driver is None else Software(nvidia_driver=said.driver, gaps=gaps)
    figures = _figures(tables, names)
    return PartialNode(gpus=gpus_of(said.shown, TOOL), measurements=figures, software=software)


def _figures(
    tables: dict[str, dict[tuple[int, int], float]], names: dict[int, str]
) -> tuple[Measurement, ...]:
    figures: dict[tuple[str, str | None, str | None, str | None], Measurement] = {}
    for name, cells in tables.items():
        for ends, value in cells.items():
            if (made := _figure(name, names, ends, value)) is not None:
                # Both directions are measured by writes and by reads: the writes count.
                figures.setdefault((made.quantity, made.src, made.dst, made.engine), made)
    return tuple(figures.values())


def _figure(
    test: str, names: dict[int, str], ends: tuple[int, int], value: float
) -> Measurement | None:
    row, column = ends
    if test in HOST:
        return figure(
            TOOL, "host", HOST[test], value, src=names[column], variant="pinned",
            engine="copy engine",
        )  # fmt: skip
    if row == column or not value:
        return None
    if test in BOTH and "_read_" in test:
        row, column = column, row  # the data goes to the one that reads
    quantity, engine = (BOTH[test], "copy engine") if test in BOTH else PAIRS[test]
    return figure(TOOL, "p2p", quantity, value, src=names[row], dst=names[column], engine=engine)


_STARTS = re.compile(
    r"(?m)^[ \t]*(?:nvbandwidth Version: |Running (?:host|device|all|one)_[a-z_]{4,50}\.[ \t]*$)"
)
FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    most_bytes=MAX_BYTES,
    starts=_STARTS,
    needs=(
        "nvbandwidth Version: ",
        "Running host_",
        "Running device_",
        "Running all_",
        "Running one_",
    ),
    goes_on=re.compile(
        r"[ \t]*(?:nvbandwidth Version|Built from Git|NOTE: This tool|Additional system|"
        r"CUDA (?:Runtime|Driver) Version|Driver Version: |Device \d{1,3}: |Running [a-z_]+\.|"
        r"memcpy |SUM |COEFFICIENT_|WAIVED |Reason: |Device to Device Latency|Process \d|"
        r"\d{1,3}(?:\s+(?:\d{1,9}(?:\.\d{1,4})?|N/A))*\s*\Z)"
    ),
    repeats=True,
    together=True,
)
