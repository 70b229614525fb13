"""Text of `numactl -H`: NUMA nodes with CPUs, memory and distances."""

from __future__ import annotations

import re

from ....model.format import FormatError, text_format
from ....model.part import PartialNode
from ....model.record import Gap, gaps_of
from ....model.surroundings import NumaNode
from .said import host_of, ranges

TOOL = "numactl -H"
_CPUS = re.compile(r"\s*node (\d{1,4}) cpus:((?:\s+\d{1,5}){0,8192})\s*\Z")
_SIZE = re.compile(r"\s*node (\d{1,4}) size:\s+(\d{1,12}) MB\s*\Z")
_DISTANCES = re.compile(r"\s*(\d{1,4}):((?:\s+\d{1,4}){1,1024})\s*\Z")
_MOST_NODES = 1024


def _parse(lines: list[str]) -> PartialNode:
    cpus: dict[int, str] = {}
    sizes: dict[int, int] = {}
    distances: dict[int, tuple[int, ...]] = {}
    for line in lines:
        if found := _CPUS.match(line):
            cpus.setdefault(int(found[1]), ranges(sorted(set(_numbers(found[2])))))
        elif found := _SIZE.match(line):
            sizes.setdefault(int(found[1]), int(found[2]) << 20)
        elif found := _DISTANCES.match(line):
            distances.setdefault(int(found[1]), _numbers(found[2]))
    numbers = sorted({*cpus, *sizes})
    if not numbers or len(numbers) > _MOST_NODES:
        raise FormatError("no NUMA node in it")
    nodes = tuple(
        _node(number, cpus.get(number), sizes.get(number), distances.get(number))
        for number in numbers
    )
    total = sum(sizes.values())
    known = {"memory_bytes": total} if total and len(sizes) == len(numbers) else {}
    return PartialNode(host=host_of(TOOL, numa=nodes, **known))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


def _node(
    number: int, cpus: str | None, size: int | None, distances: tuple[int, ...] | None
) -> NumaNode:
    values = {"cpus": cpus, "memory_bytes": size, "distances": distances}
    gaps = list(
        gaps_of((field for field, value in values.items() if value is None), f"not in {TOOL}")
    )
    own = False if cpus else None
    if own is None:
        gaps.append(Gap("gpu_memory", "memory without CPUs may also be an expander's"))
    return NumaNode(
        node=number,
        cpus=cpus,
        memory_bytes=size,
        distances=distances,
        gpu_memory=own,
        gaps=tuple(gaps),
    )


_STARTS = re.compile(r"(?m)^[ \t]*(?:available: \d{1,4} nodes? \(|node \d{1,4} cpus:)")
FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=_STARTS,
    needs=(" cpus:", "available: "),
    goes_on=re.compile(
        r"[ \t]*(?:node \d{1,4} (?:cpus|size|free):|node distances:|node(?:[ \t]+\d{1,4})+[ \t]*\Z|"
        r"\d{1,4}:(?:[ \t]+\d{1,4})+[ \t]*\Z|available: )"
    ),
)
