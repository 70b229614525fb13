"""Which lines of a pasted text prove a finding of a rule.

A rule speaks of devices and values, not of lines. The lines are found again: in the outputs that
name the device, below its name, those with the words that the rule reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ...model.finding import Finding
from ...model.machine import Machine
from ...model.page import Fact
from ...model.units import figure as three
from ...recorded.pasted import PastedSection, PastedText

MOST_QUOTED = 6
LONGEST = 300
WORDS = {
    "acs-redirect": r"ACSCtl:.*(?:ReqRedir|CmpltRedir|UpstreamFwd)\+",
    "pcie-width": r"Lnk(?:Sta|Cap):|\bWidth\b",
    "pcie-generation": r"Lnk(?:Sta|Cap):|Link Gen|\bGen\b",
    "nic-port-down": r"[Ss]tate:|state |\((?:Up|Down)\)",
    "nic-port-slow": r"Rate:|rate:",
    "nvlink-down": r"inactive",
    "nvlink-inactive": r"inactive",
    "gpu-lost": r"lost|Unable to determine|ERR!",
    "collective-fails": r"FAILED|\s[1-9]\d*\s*$",
    "test-launch": r"Rank\s+\d",
}
"""Rule -> the words in the lines that it reads; for other rules the line with the name."""
_BEFORE = ("", "CA", "link", "Infiniband device")
"""What tools print before the name of the device that a block is about."""
_PASTED = "pasted output of "
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,6})?")
_LEADING = re.compile(r"(\d[\d,.]*)(?: k?B| [KMG]i?B|\s)")


class Quoter:
    """Finds lines of one text."""

    def __init__(self, pasted: PastedText) -> None:
        self._sections = pasted.sections
        self._machine = pasted.snapshot.machine

    def quoted(self, finding: Finding) -> tuple[Fact, ...]:
        """Lines that show what the rule found, in the order of the text; () where none is found."""
        found: dict[int, Fact] = {}
        words = WORDS.get(finding.id)
        for proof in finding.evidence:
            if proof.source.startswith(_PASTED):
                tool = proof.source.removeprefix(_PASTED).partition(";")[0]
                for line in self._figures(tool, proof, words):
                    found.setdefault(line.line or 0, line)
                continue
            for line in self._about(_names(proof.what, self._machine), words):
                found.setdefault(line.line or 0, line)
        if not found and words is not None and not finding.devices:
            for section in self._sections:
                for place, text in enumerate(section.lines):
                    if re.search(words, text) and len(found) < MOST_QUOTED:
                        found.setdefault(section.first + place, _line(section, place))
        if not found:
            for device in finding.devices[:MOST_QUOTED]:
                for line in self._about(_names(device, self._machine), words):
                    found.setdefault(line.line or 0, line)
        return tuple(found[number] for number in sorted(found)[:MOST_QUOTED])

    def _about(self, names: Sequence[str], words: str | None) -> Iterator[Fact]:
        """Lines below one of the names with the words; else the lines of the name."""
        if not names:
            return
        any_name = "|".join(map(re.escape, names))
        name = re.compile(rf"(?<![\w.:-])(?:{any_name})(?![\w-]|:(?!\s|$)|\.\d)")
        plain: list[Fact] = []
        told: list[Fact] = []
        for section in self._sections:
            for start, end in _blocks(section, name):
                plain.append(_line(section, start))
                if words is not None:
                    told += [
                        _line(section, place)
                        for place in range(start, end)
                        if re.search(words, section.lines[place])
                    ]
        yield from (told or plain)[:MOST_QUOTED]

    def _figures(self, tool: str, proof: Fact, words: str | None) -> Iterator[Fact]:
        """Rows of a table with the figure."""
        size = re.search(r"at (\d{1,15}) bytes", proof.value)
        leading = _LEADING.match(proof.value)
        for section in self._sections:
            if section.tool != tool:
                continue
            for place, text in enumerate(section.lines):
                if size is not None:
                    hit = text.split()[:1] == [size[1]]
                elif leading is not None and _is_row(text):
                    hit = any(three(float(n)) == leading[1] for n in _NUMBER.findall(text)[1:])
                else:
                    hit = words is not None and re.search(words, text) is not None
                if hit:
                    yield _line(section, place)


def _blocks(section: PastedSection, name: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Where a name stands at the beginning of a line, and the end of what is indented below it."""
    lines = section.lines
    for start, text in enumerate(lines):
        found = name.search(text[:80])
        before = "" if found is None else text[: found.start()].strip(" \t'\"|-+\\")
        if found is None or (before not in _BEFORE and ":" not in text[:40]):
            continue
        depth = len(text) - len(text.lstrip())
        end = start + 1
        while end < len(lines) and (
            not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > depth
        ):
            end += 1
        yield start, end


def _names(text: str, machine: Machine) -> list[str]:
    """How tools may write the devices that a text names."""
    names: dict[str, None] = {}
    for device in machine.pci:
        if device.address in text:
            names |= dict.fromkeys(_spelled(device.address))
    for gpu in machine.gpus:
        labels = [gpu.address] if gpu.number is None else [gpu.address, f"GPU{gpu.number}"]
        if any(re.search(rf"(?<![\w:]){re.escape(label)}(?![\w])", text) for label in labels):
            names |= dict.fromkeys(_spelled(gpu.address))
            if gpu.index is not None:
                names |= dict.fromkeys((f"GPU{gpu.index}", f"GPU {gpu.index}", f"GPU[{gpu.index}]"))
    for nic in machine.rdma:
        known = (nic.name, *(() if nic.address is None else (nic.address,)))
        if any(re.search(rf"(?<![\w:]){re.escape(label)}(?![\w])", text) for label in known):
            names[nic.name] = None
    return list(names)


def _spelled(address: str) -> Iterable[str]:
    yield address
    yield address.removeprefix("0000:")
    yield f"0000{address}"
    yield f"0000{address.upper()}"


def _is_row(text: str) -> bool:
    return len(_NUMBER.findall(text)) > 1


def _line(section: PastedSection, place: int) -> Fact:
    number = section.first + place
    text = " ".join(section.lines[place].split())[:LONGEST]
    return Fact(what=f"line {number}", value=text, source=section.tool, line=number)
