"""JSON of `rocm-smi --json`: cards by number, pairs under "system", each pair once.

`--showbus` adds the PCI addresses; without them a card is "topo:AMD0", so that another file of
the same node can say which address that is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ....model.format import Format, FormatError
from ....model.machine import Gpu, XgmiLink
from ....model.merge import merge_groups
from ....model.part import PartialNode
from ....model.readings import GpuReading
from ....model.snapshot import Problem
from ....model.surroundings import Software
from ....sources.amd.smi_values import at, nothing, plain
from ....sources.files.printed import Printed
from ....sources.pci.address import pci_address
from .smi import rocm_card
from .smi.documents import MAX_GPUS, documents, objects
from .smi.links import MatrixCell, link_of, name, pair_of

TOOL = rocm_card.TOOL
_SIGN = re.compile(
    rb'"card\d{1,3}"\s*:\s*\{|"system"\s*:\s*\{\s*"(\(topology\)|driver version|pid\d)',
    re.IGNORECASE,
)
_CARD = re.compile(r"\Acard(\d{1,3})\Z")
_PAIR = re.compile(
    r"\A\(topology\) (weight|hops|link type|link accessibility) between drm devices "
    r"(\d{1,3}) and (\d{1,3})\Z"
)
_FIELDS = {"weight": "weight", "hops": "hops", "link type": "type", "link accessibility": "access"}
_MOST_NAMES = 4 * 128 * 128


def _recognises(head: bytes, path: Path) -> bool:
    return _SIGN.search(head) is not None and b'"schema"' not in head


def _parse(data: bytes, path: Path) -> PartialNode:
    return part_of([top for document in documents(data) for top in objects(document)])


def part_of(found: list[dict[str, Any]]) -> PartialNode:
    """The objects of one file as a part. Raises FormatError when no card is in them."""
    cards: dict[int, dict[str, Any]] = {}
    system: dict[str, str | None] = {}
    for top in found:
        for key, value in top.items():
            if not isinstance(value, Mapping):
                continue
            if match := _CARD.match(key):
                cards.setdefault(int(match[1]), {}).update(value)
            elif key == "system":
                items = list(value.items())[:_MOST_NAMES]
                system |= {" ".join(item.lower().split()): plain(text) for item, text in items}
    told_of = _pairs(system)
    numbers = sorted({*cards, *(number for ends in told_of for number in ends)})
    if not numbers and not system.get("driver version"):
        raise FormatError(
            "no card and no pair of cards in it; rocm-smi -a and --showtopo have them"
        )
    if len(numbers) > MAX_GPUS:
        raise FormatError(f"more than {MAX_GPUS} cards")
    return _part(cards, told_of, numbers, system.get("driver version"))


def _pairs(system: Mapping[str, str | None]) -> dict[tuple[int, int], dict[str, str]]:
    found: dict[tuple[int, int], dict[str, str]] = {}
    for item, text in system.items():
        match = _PAIR.match(item)
        if match is None or text is None or match[2] == match[3]:
            continue
        ends = int(match[2]), int(match[3])
        found.setdefault(ends, {})[_FIELDS[match[1]]] = text
        found.setdefault(ends[::-1], {}).setdefault(_FIELDS[match[1]], text)
    return found


def _part(
    cards: Mapping[int, Mapping[str, Any]],
    pairs: Mapping[tuple[int, int], Mapping[str, str]],
    numbers: list[int],
    driver: str | None,
) -> PartialNode:
    values = {number: rocm_card.card_values(cards.get(number, {})) for number in numbers}
    names, problems = _names(values)
    cells = [
        MatrixCell(src=names[src], dst=names[dst], **fields) for (src, dst), fields in pairs.items()
    ]
    links: dict[str, list[XgmiLink]] = {}
    for cell in cells:
        if (link := link_of(cell, TOOL)) is not None:
            links.setdefault(cell.src, []).append(link)
    gpus: list[Gpu] = []
    readings: list[GpuReading] = []
    for number, v in values.items():
        own = names[number]
        record = rocm_card.gpu(v, own, number)
        gpus.append(msgspec.structs.replace(record, xgmi=tuple(links.get(own, ()))))
        if rocm_card.has_reading(v):
            readings.append(rocm_card.reading(v, own))
    known = bool(driver and not nothing(driver))
    return PartialNode(
        gpus=tuple(gpus),
        pairs=merge_groups([[pair_of(c, TOOL) for c in cells]]),
        software=Software(amd_driver=driver) if known else None,
        gpu_readings=tuple(readings),
        problems=tuple(problems),
    )


def _names(values: Mapping[int, Printed]) -> tuple[dict[int, str], list[Problem]]:
    """The address of each card, else its number; and cards with the address of another one."""
    names: dict[int, str] = {}
    problems: list[Problem] = []
    for number, card in values.items():
        address = pci_address(at(card.raw, "pci bus"))
        if address is not None and address in names.values():
            text = f"card{number} of rocm-smi has the PCI address of another card, {address}"
            problems.append(Problem(source=TOOL, text=text))
            address = None
        names[number] = address or name(number)
    return names, problems


FORMAT = Format(id="JSON of rocm-smi", recognises=_recognises, parse=_parse, guessed=True)
