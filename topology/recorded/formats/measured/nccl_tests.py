"""Output of nccl-tests or rccl-tests: ranks and their GPUs, busbw by size, wrong results.

Lines of the library or of other programs may stand between its own, and several runs may follow
each other. GPUs of the first host alone become those of the node.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ....model import quantities
from ....model.format import ProvesNothingError, text_format
from ....model.machine import Gpu
from ....model.part import PartialNode
from ....model.snapshot import DataVerdict, Measurement
from .figures import MAX_BYTES, ListedGpu, address_of, figure, gpus_of, names_of, numbers_of
from .nccl_rows import (
    BOUNDS,
    FAILURE,
    HEAD,
    NAME,
    OPTIONS,
    SIGN,
    TestDevice,
    TestRow,
    TestRun,
    device_of,
    row_of,
)

TOOL = "nccl-tests"
MOST_RUNS = 64
MOST_ROWS = 256
_OF_NAME = {
    "all_reduce": quantities.ALL_REDUCE,
    "all_gather": quantities.ALL_GATHER,
    "reduce_scatter": quantities.REDUCE_SCATTER,
    "alltoall": quantities.ALL_TO_ALL,
    "sendrecv": quantities.SEND_RECEIVE_ALL,
    "broadcast": quantities.BROADCAST,
}
_WHOLE = 1.0
_NEAR = 0.04
"""How far a printed busbw / algbw may be from the factor of a collective."""


def _parse(lines: list[str]) -> PartialNode:
    runs = [run for run in _runs(lines) if run.rows or run.devices]
    if not runs:
        raise ProvesNothingError("no rank and no row of a table in it; paste its whole output")
    gpus: dict[str, Gpu] = {}
    numbers: dict[int, str] = {}
    figures: list[Measurement] = []
    hosts = tuple(dict.fromkeys(host for run in runs for host in run.hosts))[:1]
    for place, run in enumerate(runs):
        shown = _shown(run, hosts)
        names = names_of(shown)
        for gpu in gpus_of(shown, TOOL):
            gpus.setdefault(gpu.address, gpu)
        numbers |= dict(numbers_of(shown))
        figures += _figures(run, names, place)
    return PartialNode(
        gpus=tuple(gpus.values()), measurements=tuple(figures), numbers=tuple(numbers.items())
    )


class _Runs:
    """The runs of an output; each begins where a line cannot belong to the one before."""

    def __init__(self) -> None:
        self.ended: list[TestRun] = []
        self.now = TestRun()
        self._named = ""
        """The program that began last."""
        self._ranks: set[int] = set()
        """Of the run that goes on, as its PIDs: looked up for each of thousands of devices."""
        self._pids: set[int] = set()

    def line(self, line: str) -> None:
        now = self.now
        if device := device_of(line):
            self._device(device)
        elif options := OPTIONS.match(line):
            self._next(when=bool(now.rows))
            self.now.threads, self.now.gpus_per_thread = int(options[1]), int(options[2])
        elif row := row_of(line):
            if len(now.rows) < MOST_ROWS:
                now.rows.append(row)
        elif HEAD.match(line):
            self._next(when=bool(now.rows) and now.copies == 1)
        elif bounds := BOUNDS.match(line):
            now.wrong = max(now.wrong, int(bounds[1]))
        elif name := NAME.search(line):
            self._name(name[1], ends="concluded" in line)

    def _next(self, *, when: bool) -> None:
        if when:
            self.ended.append(self.now)
            self.now = TestRun(name=self._named)
            self._ranks, self._pids = set(), set()

    def _device(self, device: TestDevice) -> None:
        again = device.rank in self._ranks
        self._next(when=bool(self.now.rows) or (again and device.pid in self._pids))
        if again and self.now.devices:
            self.now.copies += device.rank == 0
        self.now.devices.append(device)
        self._ranks.add(device.rank)
        self._pids.add(device.pid)

    def _name(self, name: str, *, ends: bool) -> None:
        if ends:
            self.now.name = self.now.name or name
            return
        self._named = name
        self._next(when=bool(self.now.rows))
        self.now.name = name


def _runs(lines: Iterable[str]) -> list[TestRun]:
    runs = _Runs()
    for line in lines:
        runs.line(line)
        if len(runs.ended) >= MOST_RUNS:
            break
    return [*runs.ended, runs.now]


def _shown(run: TestRun, hosts: tuple[str, ...]) -> dict[int, ListedGpu]:
    found: dict[int, ListedGpu] = {}
    for device in run.devices:
        if device.host in hosts:
            own = address_of(device.bus)
            found.setdefault(device.number, ListedGpu(device.number, device.name, own))
    return found


def _figures(run: TestRun, names: dict[int, str], place: int) -> list[Measurement]:
    ranks = len({(device.host, device.rank) for device in run.devices}) or None
    details = _details(run, names, ranks)
    variant = None if place == 0 else f"run {place + 1}"
    if not run.rows or (ranks == 1 and not run.wrong):
        # One rank sends nothing, and its busbw is 0 whatever the links are.
        return [_verdict(run, details, variant)] if ranks == 1 or _odd(details) else []
    quantity = _quantity(run, ranks)
    found = [_row(run, row, quantity, details, variant) for row in run.rows]
    if run.wrong and not any(row.wrong for row in run.rows):
        found.append(_verdict(run, details, variant))
    return found


def _details(run: TestRun, names: dict[int, str], ranks: int | None) -> dict[str, Any]:
    details: dict[str, Any] = {
        "hosts": len(run.hosts) or None,
        "copies": run.copies,
        "ranks": ranks,
    }
    if len(run.hosts) == 1 and run.copies == 1:
        used = [names[device.number] for device in run.devices if device.number in names]
        if len(set(used)) == len(used) == len(run.devices):
            details["devices"] = used
    details["gpus_per_process"] = (run.gpus_per_thread or 1) * (run.threads or 1)
    details |= _twice(run.devices)
    return {name: value for name, value in details.items() if value is not None}


def _odd(details: dict[str, Any]) -> bool:
    return details.get("copies", 1) > 1 or "twice" in details


def _twice(devices: list[TestDevice]) -> dict[str, Any]:
    """The GPUs that several ranks of one host use."""
    counts = Counter((device.host, device.number, device.bus) for device in devices)
    twice = [
        f"device {number} of {host}" for (host, number, _), count in counts.items() if count > 1
    ]
    return {"twice": twice} if twice else {}


def _row(
    run: TestRun, row: TestRow, quantity: str, details: dict[str, Any], variant: str | None
) -> Measurement:
    both = [row.busbw, *([] if row.in_place is None else [row.in_place])]
    return figure(
        TOOL,
        "collectives",
        quantity,
        row.busbw,
        low=min(both),
        high=max(both),
        bytes_per_copy=row.size,
        engine="NCCL",
        variant=variant,
        verdict="wrong-data" if row.wrong else None,
        why_none=f"{row.wrong} wrong values at {row.size} bytes" if row.wrong else None,
        details=details,
    )


def _verdict(run: TestRun, details: dict[str, Any], variant: str | None) -> Measurement:
    """A run without a usable table."""
    return Measurement(
        probe="collectives",
        quantity=quantities.COLLECTIVE_FINISHES,
        verdict=DataVerdict.WRONG_DATA if run.wrong else None,
        why_none=f"{run.wrong} values out of bounds" if run.wrong else "nothing was sent",
        device_kind="gpu",
        engine="NCCL",
        variant=variant,
        details={**details, "pasted": TOOL},
    )


def _quantity(run: TestRun, ranks: int | None) -> str:
    """The collective: by the name of the program, else by the factor between algbw and busbw."""
    if run.name in _OF_NAME:
        return _OF_NAME[run.name]
    row = max(run.rows, key=lambda row: row.algbw)
    ratio = row.busbw / row.algbw if row.algbw else 0.0
    if row.op != "none":
        if row.root not in (None, -1):
            return "reduce_busbw"
        whole = ratio >= _WHOLE - _NEAR
        return quantities.ALL_REDUCE if whole else quantities.REDUCE_SCATTER
    if row.root not in (None, -1):
        return quantities.BROADCAST
    return "unnamed_busbw"


FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    most_bytes=MAX_BYTES,
    starts=SIGN,
    needs=(
        "#  ",
        "#\t",
        "# nThread",
        "# Rank",
        "# Using devices",
        "# size",
        "# Out of bounds",
        "# Avg bus",
        "ccl-tests",
        "# Collective test",
        "_perf ",
    ),
    goes_on=re.compile(
        rf"{SIGN.pattern.replace('(?m)', '')}|[ \t]*#|[^\n]{{0,200}}{FAILURE.pattern}"
    ),
    repeats=True,
    together=True,
    yields=True,
)
