"""Which lines of a pasted text prove a finding of a rule.

A rule speaks of devices and values, not of lines. The lines are found again: in the outputs that
name the device, below its name, those with the words that the rule reads.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from itertools import islice
from typing import NamedTuple

from ...model.finding import Finding
from ...model.machine import Machine
from ...model.page import Fact
from ...model.units import figure as three
from ...recorded.pasted import PastedText

MOST_QUOTED = 6
LONGEST = 300
WORDS = {
    "acs-redirect": r"ACSCtl:.*(?:ReqRedir|CmpltRedir)\+",
    "pcie-width": r"Lnk(?:Sta|Cap):|\bWidth\b",
    "pcie-generation": r"Lnk(?:Sta|Cap):|Link Gen|\bGen\b",
    "nic-port-down": r"[Ss]tate:|state |\((?:Up|Down)\)",
    "nic-port-slow": r"Rate:|rate:",
    "nvlink-down": r"inactive",
    "nvlink-inactive": r"inactive",
    "ecc-uncorrected": r"(?i)(?:uncorr|double bit).*: [1-9]",
    "gpu-lost": r"lost|Unable to determine|ERR!",
    "collective-fails": r"FAILED|\s[1-9]\d*\s*$",
    "test-launch": r"Rank\s+\d",
    "fabric-health": r"(?i)Summary\s*: (?:unhealthy|limited)|Bandwidth\s*: degraded|: True\b",
    "fabric-state": r"State\s*: (?:In Progress|Not Started)|Status\s*: (?!Success)",
    "row-remap-failed": r"Failure Occurred\s*: Yes",
    "bar1-small": r"Total\s*: 256 MiB|\[size=256M\]",
    "throttle-hardware": r"Slowdown\s*: Active",
    "dcgm-said": r"\b(?:Fail|Warn)",
    "copies-wrong": r"Invalid value when checking|ASSERT",
    "gpu-integrated": r"nvgpu|GR3D_FREQ",
    "p2p-refused": r"CANNOT Access|^\s*\d+(?:\s+[01]){2,}\s*$|\b[CGT]?NS\b",
}
"""Rule -> the words in the lines that it reads; for other rules the line with the name."""
_BEFORE = ("", "CA", "link", "Infiniband device")
"""What tools print before the name of the device that a block is about."""
_ROW = re.compile(r"\s*\||(?:[^,]*,){3}")
"""How the row of a table begins, drawn or of values with commas: names stand anywhere in it."""
_PASTED = "pasted output of "
KERNEL = "kernel log"
"""Source of evidence that is a line of the kernel's log."""
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,6})?")
_LEADING = re.compile(r"(\d[\d,.]*)(?: k?B| [KMG]i?B|\s)")
_NUMBERED = re.compile(r"\s*(\d+)\s{2,}\S")
_WORD = re.compile(r"[\w.:-]+")
_SPACED = re.compile(r"(?<![\w.:-])GPU(?: \d+|\[\d+\])")
_END = re.compile(r"\.(?!\d)|:\Z")
"""Where a name may end inside a word."""
_PIECE = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]|\w+")
"""An address, or the first word of any other label."""
_Place = tuple[int, int]
"""Of a line: its section, and its place therein."""


class Quoter:
    """Finds lines of one text: each is looked at once, however many findings and devices it has."""

    def __init__(self, pasted: PastedText) -> None:
        self._sections = pasted.sections
        self._devices = tuple(_devices(pasted.snapshot.machine))
        self._named: dict[str, tuple[int, ...]] = defaultdict(tuple)
        """Devices by what a proof may call them."""
        for at, device in enumerate(self._devices):
            for key in {piece[0] for label in device.labels if (piece := _PIECE.search(label))}:
                self._named[key] += (at,)
        self._of_name, self._said = cache(self._find_name), cache(self._find_said)
        self._words, self._end = cache(self._find_words), cache(self._find_end)

    def quoted(self, finding: Finding) -> tuple[Fact, ...]:
        """Lines that show what the rule found, in the order of the text; () where none is found."""
        words = WORDS.get(finding.id)
        found: set[_Place] = set()
        for proof in finding.evidence:
            if proof.source.startswith(_PASTED):
                tool = proof.source.removeprefix(_PASTED).partition(";")[0]
                found.update(self._figures(tool, proof, words))
            elif proof.source == KERNEL:
                holding = (place for place, line in self._lines() if proof.value in line)
                found.update(islice(holding, 1))
            else:
                found.update(self._about(self._names(proof.what), words))
        named = [*map(self._names, finding.devices[:MOST_QUOTED])]
        if not found:
            found.update(place for names in named for place in self._about(names, words))
        if not found:
            numbers = [name.removeprefix("GPU") for names in named for name in names]
            found.update(
                place for one in numbers for place in self._tables.numbered[one][:MOST_QUOTED]
            )
        if not found and words is not None:  # an extract may not name the GPU at all
            found.update(self._words(words)[:MOST_QUOTED])
        return tuple(map(self._line, sorted(found)[:MOST_QUOTED]))

    def _line(self, place: _Place) -> Fact:
        section = self._sections[place[0]]
        number = section.first + place[1]
        text = " ".join(section.lines[place[1]].split())[:LONGEST]
        return Fact(what=f"line {number}", value=text, source=section.tool, line=number)

    def _lines(self) -> Iterator[tuple[_Place, str]]:
        for number, section in enumerate(self._sections):
            for at, text in enumerate(section.lines):
                yield (number, at), text

    def _names(self, text: str) -> tuple[str, ...]:
        """How tools may write the devices that a text names."""
        pieces = _PIECE.findall(text)
        known = {at for piece in pieces for at in self._named[piece] + self._named[piece[-12:]]}
        names: dict[str, None] = {}
        for at in sorted(known):
            device = self._devices[at]
            if device.part or any(map(_whole(text), device.labels)):
                names |= dict.fromkeys(device.names)
        return tuple(names)

    def _about(self, names: Sequence[str], words: str | None) -> list[_Place]:
        """Lines below one of the names with the words; else the lines of the name."""
        plain: set[_Place] = set()
        told: set[_Place] = set()
        for name in names:
            lines, below = self._of_name(name, words)
            plain.update(lines)
            told.update(below)
        return sorted(told or plain)[:MOST_QUOTED]

    def _find_name(self, name: str, words: str | None) -> tuple[list[_Place], set[_Place]]:
        """The first lines of a name, and the first with the words below it."""
        pattern = rf"(?<![\w.:-]){re.escape(name)}(?![\w-]|:(?!\s|$)|\.\d)"
        plain: list[_Place] = []
        told: set[_Place] = set()
        for number, at in self._places.get(_key(name), ()):
            if not _is_about(pattern, self._sections[number].lines[at]):
                continue
            plain.append((number, at))
            if words is not None:
                said = self._words(words)
                first = bisect_left(said, (number, at))
                end = bisect_left(said, (number, self._end(number, at)))
                told.update(said[first : min(end, first + MOST_QUOTED)])
            if len(plain if words is None else told) >= MOST_QUOTED:
                break
        return plain[:MOST_QUOTED], told

    @cached_property
    def _places(self) -> dict[str, list[_Place]]:
        """Where each name of a device may stand."""
        found: dict[str, list[_Place]] = {
            _key(name): [] for device in self._devices for name in device.names
        }
        for place, text in self._lines():
            part = _named_part(text)
            words = {*_WORD.findall(part), *_SPACED.findall(part)}
            ends = {word[: end.start()] for word in words for end in _END.finditer(word[:80])}
            for name in (words | ends) & found.keys():
                found[name].append(place)
        return found

    def _find_end(self, number: int, start: int) -> int:
        """The end of what is indented below a line."""
        lines = self._sections[number].lines
        depth = len(lines[start]) - len(lines[start].lstrip())
        end = start + 1
        while end < len(lines) and (
            not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > depth
        ):
            end += 1
        return end

    def _find_words(self, words: str) -> list[_Place]:
        """All lines with these words."""
        pattern = re.compile(words)
        return [place for place, text in self._lines() if pattern.search(text)]

    def _figures(self, tool: str, proof: Fact, words: str | None) -> list[_Place]:
        """Rows of a table with the figure, and lines with the words that are no rows."""
        if size := re.search(r"at (\d{1,15}) bytes", proof.value):
            return self._tables.begun[tool, size[1]][:MOST_QUOTED]
        leading = _LEADING.match(proof.value)
        said = [] if words is None else self._said(tool, words, leading is not None)
        rows = [] if leading is None else self._tables.figures[tool, leading[1]]
        return rows[:MOST_QUOTED] + said

    def _find_said(self, tool: str, words: str, bare: bool) -> list[_Place]:
        """The first lines of a tool with the words; `bare`: those that are no rows of a table."""
        places = (
            (number, at)
            for number, at in self._words(words)
            if self._sections[number].tool == tool
            and not (bare and _is_row(self._sections[number].lines[at]))
        )
        return list(islice(places, MOST_QUOTED))

    @cached_property
    def _tables(self) -> _Tables:
        found = _Tables(defaultdict(list), defaultdict(list), defaultdict(list))
        for place, text in self._lines():
            tool = self._sections[place[0]].tool
            for word in text.split(None, 1)[:1]:
                found.begun[tool, word].append(place)
            if row := _NUMBERED.match(text):
                found.numbered[row[1]].append(place)
            if _is_row(text):
                for figure in {three(float(number)) for number in _NUMBER.findall(text)[1:]}:
                    found.figures[tool, figure].append(place)
        return found


class _Tables(NamedTuple):
    """The lines of tables by what stands in them."""

    begun: dict[tuple[str, str], list[_Place]]
    """By tool and first word."""
    numbered: dict[str, list[_Place]]
    """By the number alone that a row begins with."""
    figures: dict[tuple[str, str], list[_Place]]
    """By tool and each figure of a row."""


def _key(name: str) -> str:
    """The word by which the lines of a name are found."""
    found = _SPACED.match(name) or _WORD.search(name)
    return name if found is None else found[0]


def _named_part(text: str) -> str:
    """Where in a line names stand: at its beginning, or anywhere in the row of a table."""
    return text if _ROW.match(text) else text[:80]


def _is_about(name: str, text: str) -> bool:
    """Whether a line begins with what this pattern matches, or a row of a table has it."""
    found = re.search(name, _named_part(text))
    if found is None:
        return False
    before = text[: found.start()].strip(" \t'\"|-+\\")
    return before in _BEFORE or ":" in text[:40] or _ROW.match(text) is not None


class _Device(NamedTuple):
    labels: tuple[str, ...]
    """What names it in a proof."""
    names: tuple[str, ...]
    """How tools may write it."""
    part: bool = False
    """Whether its label may stand inside a word."""


def _whole(text: str) -> Callable[[str], bool]:
    """Tells whether a label stands in a text as a word."""

    def stands(label: str) -> bool:
        pattern = rf"(?<![\w:]){re.escape(label)}(?![\w])"
        return label in text and re.search(pattern, text) is not None

    return stands


def _devices(machine: Machine) -> Iterator[_Device]:
    for device in machine.pci:
        yield _Device((device.address,), _spelled(device.address), part=True)
    for gpu in machine.gpus:
        number, at = gpu.number, gpu.index
        label = () if number is None else (f"GPU{number}",)
        own = () if at is None else (f"GPU{at}", f"GPU {at}", f"GPU[{at}]")
        yield _Device((gpu.address, *label), (*_spelled(gpu.address), *own))
    for nic in machine.rdma:
        yield _Device((nic.name, *(() if nic.address is None else (nic.address,))), (nic.name,))


def _spelled(address: str) -> tuple[str, ...]:
    return address, address.removeprefix("0000:"), f"0000{address}", f"0000{address.upper()}"


def _is_row(text: str) -> bool:
    return len(_NUMBER.findall(text)) > 1
