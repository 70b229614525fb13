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
from ....model.format import FormatError, ProvesNothingError, text_format
from ....model.part import Part
from ....model.record import Gap
from ....model.snapshot import Measurement
from ....model.surroundings import Software
from .figures import (
    MAX_BYTES,
    MAX_GPUS,
    ListedGpu,
    address_of,
    figure,
    gpus_of,
    names_of,
    value_of,
)

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


def _parse(lines: list[str]) -> Part:
    shown: dict[int, ListedGpu] = {}
    cells: dict[str, dict[tuple[int, int], float]] = {}
    test, table, columns, driver = "", "", list[int](), None
    for number, line in enumerate(lines, start=1):
        if device := _DEVICE.match(line):
            own = address_of(device[3]) if device[3] else None
            shown.setdefault(int(device[1]), ListedGpu(int(device[1]), device[2], own))
        elif running := _RUNNING.match(line):
            test, columns = running[1], []
            if any(test == known.partition(" ")[0] for known in cells):
                test = ""  # run once more: the first one counts
            table = test
        elif test and (named := _TABLE.match(line)):
            # The first stream is the one that older versions print alone.
            columns = []
            table = test if named[2] in (None, "1") else f"{test} {named[2]}"
        elif said := _DRIVER.match(line):
            driver = driver or said[1]
        elif test and not columns and (head := _HEAD.match(line)):
            columns = [int(word) for word in head[1].split()]
        elif test and columns and (row := _ROW.match(line)):
            words = row[2].split()
            if len(words) != len(columns):
                raise FormatError(f"row {row[1]} has {len(words)} of {len(columns)} cells", number)
            for column, word in zip(columns, words, strict=True):
                if (value := value_of(word)) is not None:
                    cells.setdefault(table, {})[int(row[1]), column] = value
    wanted = {name: cells[name] for name in (*PAIRS, *HOST, *BOTH) if name in cells}
    if not wanted:
        raise ProvesNothingError(
            "no test in it that can be compared; run nvbandwidth "
            "-t device_to_device_memcpy_write_ce -t host_to_device_memcpy_ce"
        )
    for name, found in wanted.items():
        for row_number, column in found:
            for place in (column,) if name in HOST else (row_number, column):
                shown.setdefault(place, ListedGpu(place, ""))
    if len(shown) > MAX_GPUS:
        raise FormatError(f"more than {MAX_GPUS} GPUs")
    names = names_of(shown)
    figures: dict[tuple[str, str | None, str | None, str | None], Measurement] = {}
    for name, found in wanted.items():
        for ends, value in found.items():
            if (made := _figure(name, names, ends, value)) is not None:
                # Both directions are measured by writes and by reads: the writes count.
                figures.setdefault((made.quantity, made.src, made.dst, made.engine), made)
    gaps = tuple(Gap(field, f"not in {TOOL}") for field in ("nvml", "nccl", "torch"))
    software = None if driver is None else Software(nvidia_driver=driver, gaps=gaps)
    return Part(gpus=gpus_of(shown, TOOL), measurements=tuple(figures.values()), software=software)


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
    if test in BOTH:
        if "_read_" in test:
            row, column = column, row  # the data goes to the one that reads
        return figure(
            TOOL, "p2p", BOTH[test], value, src=names[row], dst=names[column],
            engine="copy engine",
        )  # fmt: skip
    quantity, engine = PAIRS[test]
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
