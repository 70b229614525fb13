"""JSON of amd-smi.

That is `list`, `static`, `metric`, `topology`, `xgmi`, `partition`, `process`, `firmware`,
`bad-pages` and `version` with --json.

The forms of 6.x and 7.x, one command or several in one file, with whatever lines stand around
the documents. A GPU is named by the PCI address in its entry, else by its number: "topo:AMD0", so
that another file of the same node can say which address that is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ....model.format import Format, FormatError
from ....model.machine import Gpu, GpuPair, XgmiLink
from ....model.merge import merge_groups
from ....model.part import PartialNode
from ....model.readings import GpuReading, XgmiReading
from ....model.snapshot import Problem
from ....model.surroundings import Software
from ....sources.amd.smi_values import nothing, plain
from ....sources.pci.address import pci_address
from .smi import links as smi_links
from .smi.documents import MAX_GPUS, documents, index, objects
from .smi.gpu import gpu as gpu_of
from .smi.metric import has_reading, reading

TOOL = "amd-smi"
_OPEN = re.compile(rb"(?m)^[ \t]*[\[{]")
_TWICE = "GPU {} of amd-smi has the PCI address of GPU {} and is left out"
_OLD_XGMI = (
    "amd-smi xgmi of this version prints the rate of PCIe and takes the number of a link for that "
    "of a GPU: its rates and counters are left out"
)
_NUMBER = re.compile(rb'"gpu"\s*:\s*\d')
_SIGNS = re.compile(
    rb'"(gpu_data|xgmi_metric|link_status|bdf|asic|bus|vbios|ifwi|limit|driver|vram|numa|partition|'
    rb"accelerator_partition|memory_partition|usage|power|clock|temperature|pcie|ecc|ecc_blocks|"
    rb"mem_usage|throttle|links|link_accessibility|weight|hops|link_type|numa_bandwidth|"
    rb"link_metrics|process_list|xgmi_err|cache_info|fw_list|retired|pending|"
    rb'un_res)"\s*:'
)
_VERSION = re.compile(rb'"tool"\s*:\s*"AMDSMI Tool"')
_NOT_OURS = re.compile(rb'"(amdsmi_(get|topo|is)_|nvmlDevice|nvmlSystem)|"schema"\s*:\s*"gputop')
_MOST_PAIRS = 128 * 128
"""A node of 16 packages in 8 parts each; real outputs have at most 64 GPUs."""
_MOST_ENTRIES = 8192


def _recognises(head: bytes, path: Path) -> bool:
    if _OPEN.search(head) is None or _NOT_OURS.search(head) is not None:
        return False
    if _VERSION.search(head) is not None:
        return True
    return _NUMBER.search(head) is not None and _SIGNS.search(head) is not None


class _Entry(msgspec.Struct):
    """One GPU of one document; `linked`: a list of `xgmi` that names the end of each link."""

    found: Mapping[str, Any]
    own: str
    linked: bool = False


def _parse(data: bytes, path: Path) -> PartialNode:
    return part_of(documents(data))


def part_of(found: list[Any]) -> PartialNode:
    """The documents of one file as a part. Raises FormatError when no GPU is in them."""
    problems: list[Problem] = []
    entries, software = _read(found, problems)
    if not entries and software is None:
        raise FormatError("no GPU in it")
    return msgspec.structs.replace(_part(entries, software), problems=tuple(problems))


def _read(found: list[Any], problems: list[Problem]) -> tuple[list[_Entry], Software | None]:
    listed: list[tuple[dict[str, Any], bool]] = []
    software: Software | None = None
    for top in (top for document in found for top in objects(document)):
        if plain(top.get("tool")) == "AMDSMI Tool":
            software = software or _software(top)
        listed += _inside(top)
        if len(listed) > _MOST_ENTRIES:
            raise FormatError(f"more than {_MOST_ENTRIES} entries of GPUs")
    entries = _named(listed, problems)
    if any("link_metrics" in entry.found and not entry.linked for entry in entries):
        problems.append(Problem(source=TOOL, text=_OLD_XGMI))
    return entries, _with_driver(software, entries)


def _with_driver(software: Software | None, entries: list[_Entry]) -> Software | None:
    driver = next((text for e in entries if (text := _driver(e.found))), None)
    if not driver or (software is not None and software.amd_driver is not None):
        return software
    return msgspec.structs.replace(software or Software(), amd_driver=driver)


def _named(listed: list[tuple[dict[str, Any], bool]], problems: list[Problem]) -> list[_Entry]:
    """The entries with the address, or else the number, of their GPU; no address stands twice."""
    names: dict[int, str] = {}
    numbers: dict[str, int] = {}
    for entry, _ in listed:
        number, address = index(entry.get("gpu")), _address(entry)
        if number is not None and address is not None and address not in numbers:
            numbers[address] = number
            names.setdefault(number, address)
    entries: list[_Entry] = []
    twice: dict[int, str] = {}
    for entry, linked in listed:
        number, own = index(entry.get("gpu")), _address(entry)
        if number is not None:
            own = own or names.get(number, smi_links.name(number))
            if numbers.get(own, number) != number:
                twice.setdefault(number, _TWICE.format(number, numbers[own]))
                continue
        if own is not None:
            entries.append(_Entry(entry, own, linked))
    if len({entry.own for entry in entries}) > MAX_GPUS:
        raise FormatError(f"more than {MAX_GPUS} GPUs")
    problems += [Problem(source=TOOL, text=text) for text in twice.values()]
    return entries


def _inside(top: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    """The entries of one object, out of the names that 7.x puts around a list of GPUs."""
    if "gpu" in top:
        yield top, False
        return
    for name, inner in top.items():
        if isinstance(inner, list) and name != "cpu_data":
            for entry in objects(inner):
                if "gpu" in entry:
                    yield entry, name == "xgmi_metric"


def _address(entry: Mapping[str, Any]) -> str | None:
    bus = entry.get("bus")
    within = bus.get("bdf") if isinstance(bus, Mapping) else None
    return pci_address(entry.get("bdf")) or pci_address(within)


def _software(top: Mapping[str, Any]) -> Software:
    return Software(
        rocm=_stated(top.get("rocm_version")), amd_driver=_stated(top.get("amdgpu_version"))
    )


def _stated(value: Any) -> str | None:
    text = plain(value)
    return text if text and not nothing(text) else None


def _driver(entry: Mapping[str, Any]) -> str | None:
    driver = entry.get("driver")
    if not isinstance(driver, Mapping):
        return None
    return _stated(driver.get("version")) or _stated(driver.get("driver_version"))


def _part(entries: list[_Entry], software: Software | None) -> PartialNode:
    names = {
        number: entry.own
        for entry in reversed(entries)
        if (number := index(entry.found.get("gpu"))) is not None
    }
    gpus: list[Gpu] = []
    pairs: list[GpuPair] = []
    readings: list[GpuReading] = []
    for entry in entries:
        links, counters = (
            smi_links.metric_links(entry.found, entry.own, names) if entry.linked else ([], [])
        )
        for cell in smi_links.cells(entry.found, entry.own, names):
            if len(pairs) >= _MOST_PAIRS:
                raise FormatError(f"more than {_MOST_PAIRS} pairs of GPUs")
            pairs.append(smi_links.pair_of(cell, TOOL))
            if (link := smi_links.link_of(cell, TOOL)) is not None:
                links.append(link)
        gpus.append(_gpu(entry, links))
        readings += _readings(entry, counters)
    states = smi_links.status_links(
        [(e.found, e.own) for e in entries if isinstance(e.found.get("link_status"), list)]
    )
    gpus += [
        Gpu(address=own, vendor="amd", xgmi=tuple(links)) for own, links in states.items() if links
    ]
    return PartialNode(
        gpus=merge_groups([gpus]),
        pairs=merge_groups([pairs]),
        software=software,
        gpu_readings=merge_groups([readings]),
    )


def _gpu(entry: _Entry, links: list[XgmiLink]) -> Gpu:
    record = gpu_of(entry.found, entry.own)
    return msgspec.structs.replace(record, xgmi=tuple(links)) if links else record


def _readings(entry: _Entry, counters: list[XgmiReading]) -> Iterator[GpuReading]:
    if has_reading(entry.found):
        yield reading(entry.found, entry.own)
    if counters:
        yield GpuReading(address=entry.own, xgmi=tuple(counters))


FORMAT = Format(id="JSON of amd-smi", recognises=_recognises, parse=_parse, guessed=True)
