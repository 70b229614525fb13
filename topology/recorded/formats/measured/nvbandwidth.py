"""Output of nvbandwidth: GB/s between host and GPUs and between pairs of GPUs, by test.

The GPU of the row does the work: in its "write" tests it writes into the one of the column, in its
"read" tests it reads from there (its source code; the arrows of versions differ). Tests of both
directions measure one stream while another one runs the other way; later versions print each
stream and the sum, in tables of their own. Copies inside a GPU count each byte once. Of tests that
count in other ways, such as all GPUs at once, the figures are shown and compared with nothing.
"""

from __future__ import annotations

import re

from ....model import quantities
from ....model.format import ProvesNothingError, text_format
from ....model.part import PartialNode
from ....model.record import gaps_of
from ....model.snapshot import DataVerdict, Measurement
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
KERNELS = ("host_to_device_memcpy_sm", "device_to_host_memcpy_sm")
LOCAL = "device_local_copy"
BOTH = {
    "device_to_device_bidirectional_memcpy_write_ce": quantities.BOTH_WAYS,
    "device_to_device_bidirectional_memcpy_read_ce": quantities.BOTH_WAYS,
    "device_to_device_bidirectional_memcpy_write_ce Total": quantities.TOGETHER,
    "device_to_device_bidirectional_memcpy_read_ce Total": quantities.TOGETHER,
}
"""By test, and by the name of its table where it has several."""
_TABLE = re.compile(
    r"\s*memcpy \w{2,5} .{0,40}?\)(?: (Read|Write)?(\d|Total))? bandwidth \(GB/s\)\s*\Z"
)
_DEVICE = re.compile(
    r"\s*Device (\d{1,3}): (\S.{0,100}?)"
    r"(?: \(([0-9a-fA-F:.]{7,16})\)(?:: ?\(?[\w.:() -]{0,60})?)?\s*\Z"
)
_RUNNING = re.compile(r"\s*Running ([a-z_]{4,60})\.\s*\Z")
_HEAD = re.compile(r"\s+(\d{1,3}(?:\s+\d{1,3}){0,127})\s*\Z")
_ROW = re.compile(r"\s*(\d{1,3})((?:\s+(?:\d{1,9}(?:\.\d{1,4})?|N/A)){1,128})\s*\Z")
_WRONG = re.compile(
    r"\s*Invalid value when checking the pattern|\s*ASSERT in expression h_errorFlag"
)
_DRIVER = re.compile(r"\s*Driver Version: (\d{3}\.[\d.]{1,12})\s*\Z")


class _Output:
    """What the lines have said so far."""

    def __init__(self) -> None:
        self.shown: dict[int, ListedGpu] = {}
        self.tables: dict[str, Matrix] = {}
        self.driver: str | None = None
        self.wrong: list[str] = []
        """Tests whose data arrived wrong."""
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
        elif _WRONG.match(line):
            self.wrong += [] if self._test in self.wrong else [self._test]
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
        self._table = Matrix()  # figures count below a title in GB/s alone

    def _open(self, name: str) -> None:
        self._table = self.tables.setdefault(name, Matrix())
        self._table.columns = []


def parse_lines(lines: list[str]) -> PartialNode:
    """What the lines of its text say."""
    said = _Output()
    for number, line in enumerate(lines, start=1):
        said.line(line, number)
    known = (*PAIRS, *HOST, *BOTH, *KERNELS, LOCAL)
    tables = {name: said.tables[name].cells for name in known if name in said.tables}
    tables |= {name: table.cells for name, table in said.tables.items() if name not in tables}
    if not any(tables.values()) and not said.wrong:
        raise ProvesNothingError(
            "no test in it that can be compared; run nvbandwidth "
            "-t device_to_device_memcpy_write_ce -t host_to_device_memcpy_ce"
        )
    used = (
        place
        for name, cells in tables.items()
        for ends in cells
        if name in known
        for place in (ends[1:] if name in (*HOST, *KERNELS, LOCAL) else ends)
    )
    names = all_names(said.shown, used)
    gaps = gaps_of(("nvml", "nccl", "torch"), f"not in {TOOL}")
    software = None if said.driver is None else Software(nvidia_driver=said.driver, gaps=gaps)
    figures = (*_figures(tables, names), *map(_wrong, said.wrong))
    return PartialNode(gpus=gpus_of(said.shown, TOOL), measurements=figures, software=software)


def _figures(
    tables: dict[str, dict[tuple[int, int], float]], names: dict[int, str]
) -> tuple[Measurement, ...]:
    figures: dict[tuple[str | None, ...], Measurement] = {}
    for name, cells in tables.items():
        for ends, value in cells.items():
            if (made := _figure(name, names, ends, value)) is not None:
                # Both directions are measured by writes and by reads: the writes count.
                key = (made.quantity, made.src, made.dst, made.engine, made.variant)
                figures.setdefault(key, made)
    return tuple(figures.values())


def _figure(
    test: str, names: dict[int, str], ends: tuple[int, int], value: float
) -> Measurement | None:
    row, column = ends
    if test in HOST or test in KERNELS:
        quantity, engine = HOST.get(test, test), "copy engine" if test in HOST else "kernel"
        return figure(
            TOOL, "host", quantity, value, src=names[column], variant="pinned", engine=engine
        )
    if test == LOCAL:
        return figure(
            TOOL, "memory", quantities.MEMORY_COPY, value, src=names[column], counted=_ONCE,
            variant="copy",
        )  # fmt: skip
    if test not in PAIRS and test not in BOTH:
        return figure(TOOL, "p2p", test.replace(" ", "_"), value, variant=f"{row} {column}")
    if row == column or not value:
        return None
    if test in BOTH and "_read_" in test:
        row, column = column, row  # the data goes to the one that reads
    quantity, engine = (BOTH[test], "copy engine") if test in BOTH else PAIRS[test]
    return figure(TOOL, "p2p", quantity, value, src=names[row], dst=names[column], engine=engine)


def _wrong(test: str) -> Measurement:
    """A test that compared what arrived with what was sent, and found another pattern."""
    return Measurement(
        probe="p2p",
        quantity=test,
        verdict=DataVerdict.WRONG_DATA,
        why_none="the pattern that arrived is another one than was sent",
        device_kind="gpu",
        details={"pasted": TOOL},
    )


_ONCE = "bytes copied, once"
_STARTS = re.compile(
    r"(?m)^[ \t]*(?:nvbandwidth Version: |Running (?:host|device|all|one)_[a-z_]{4,50}\.[ \t]*$"
    r"|Device \d{1,3}: [^\n]{1,100} \([\da-fA-F]{8}:[\da-fA-F]{2}:[\da-fA-F]{2}\)[ \t]*$)"
)
"""The list of GPUs stands below the name of the host, which may be any word."""
FORMAT = text_format(
    id=TOOL,
    parse=parse_lines,
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
        r"memcpy |SUM |Invalid value when checking|Current offset|ASSERT in expression|"
        r"\(?CU\w{3,20},|CompareKernelFunc|/[\w./-]{1,120}memcpy\.cpp:|\[?\w*ERROR\b|"
        r"COEFFICIENT_|WAIVED |Reason: |Device to Device Latency|Process \d|"
        r"\d{1,3}(?:\s+(?:\d{1,9}(?:\.\d{1,4})?|N/A))*\s*\Z)"
    ),
    repeats=True,
    together=True,
)
