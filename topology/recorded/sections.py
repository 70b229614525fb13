"""The outputs of tools in a text that people paste, and the lines between that nobody reads."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

import msgspec

from ..model.documents import is_described
from ..model.format import Format, FormatError, ProvesNothingError
from ..model.part import PartialNode
from ..model.told import answered
from .machines import by_host, contradicts, host_before

MOST_SECTIONS = 256
MOST_OF_DOCUMENT = 1 << 16
"""Characters by which it is told whether a text describes programs."""
BROKEN, PROVES_NOTHING = "broken", "proves nothing here"
"""How the reason begins, or goes on behind the tool, for an output that gives nothing."""
_NO_FILE = Path("text")
"""What is a part of a text has no file of its own."""
BETWEEN = "text that --from does not read"
_MOST_RANGES = 6
_NO_BREAK = str.maketrans(dict.fromkeys("\xa0\u2007\u202f", " ") | dict.fromkeys("\u200b\ufeff"))
# A page that shows what a terminal printed often drops the escape byte and keeps the rest.
_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]|\[[0-9;]{1,8}m")
_QUOTED = re.compile(r"(?m)^ {0,3}(?:> ?)+")
_ENTITIES = (("&nbsp;", " "), ("&lt;", "<"), ("&gt;", ">"))
_SHAPES = re.compile(r"[\W_]*\Z")
"""Empty lines, rules, and the [...] of who left something out."""
_SAYS_NOTHING = re.compile(
    r"\A(?:[\W_]*\Z|[ \t]*(?:```|~~~|</?[a-z])|.{0,200}\bnvidia-smi\b|"
    r"(?:[^\n$#>]{0,80}[$#>] ?)?(?:sudo )?(?:[\w./-]{0,80}/)?(?:lspci|lscpu|numactl|lstopo|ibstat|"
    r"ibstatus|ibv_devinfo|ibdev2netdev|show_gids|rdma link|rocminfo|rocm-smi|nvbandwidth|env|"
    r"hwloc-ls|"
    r"p2pBandwidthLatencyTest|\w{3,20}_perf)\b[^:=\n]{0,200}\Z|lspci: |#[ \t]{4,}|"
    r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d )"
)
"""Fences, tags, rules, the command itself and the date that nvidia-smi prints first."""


class TextSection(msgspec.Struct, frozen=True):
    """One output of one tool."""

    form: Format
    text: str
    first: int
    """Number of its first line, from 1."""
    last: int
    host: str = ""
    """The machine that it or the lines before it name; "" where none does."""


class Sections(msgspec.Struct, frozen=True):
    """What was read of a text."""

    parts: tuple[tuple[Format, PartialNode], ...]
    passed_over: tuple[tuple[str, str], ...]
    """Lines, as "lines 3-8, 12", and why they are not used."""
    sections: tuple[TextSection, ...] = ()
    """Every output of that machine, read or not, in its order."""
    host: str = ""
    """Its name, where the text says it."""
    others: tuple[Sections, ...] = ()
    """Further machines of the same text."""


def read_sections(
    data: bytes, forms: Sequence[Format], number: Callable[[int], int] = int
) -> Sections | None:
    """Every output of these formats in a text; None where there is none.

    There may be sections and no part, where all that is read says nothing of the node. `number`
    gives the line of the file for a line of the data, where that is a part of the file.
    Raises FormatError where none of them can be read, with the line of the file.
    """
    text = plain(data)
    groups = _read(text, tuple(form for form in forms if form.starts is not None))
    if not groups:
        return None
    read = [_of_one(group, number) for group in groups]
    errors = [error for _, error in read if error is not None]
    machines = [said for said, _ in read]
    if not any(one.parts for one in machines) and not _elsewhere(machines):
        raise min(errors, key=lambda error: error.line or 0, default=None) or FormatError(
            "nothing in it can be read"
        )
    # The first one that shows GPUs; what the others say is told apart.
    first = next(filter(_shows_gpus, machines), machines[0])
    between = _between(text, sorted(_all(machines), key=lambda section: section.first))
    unread = ((_lines(between, number), BETWEEN),) if between else ()
    return msgspec.structs.replace(
        first,
        passed_over=(*first.passed_over, *unread),
        others=tuple(one for one in machines if one is not first),
    )


def _of_one(group: _Group, number: Callable[[int], int]) -> tuple[Sections, FormatError | None]:
    """What one machine's outputs say, and the first one that cannot be read."""
    parts: list[tuple[Format, PartialNode]] = []
    passed_over: list[tuple[str, str]] = []
    first_error: FormatError | None = None
    for section, outcome in _outcomes(group):
        if isinstance(outcome, PartialNode):
            parts.append((section.form, outcome))
            continue
        why = outcome
        if isinstance(outcome, FormatError):
            line = number(section.first - 1 + (outcome.line or 1))
            why = f"{_failed(section.form, outcome)}: {outcome}"
            first_error = first_error or FormatError(why, line)
        passed_over.append((_lines([(section.first, section.last)], number), str(why)))
    if doubt := _doubt(parts):
        parts.append((parts[0][0], PartialNode(assumptions=(doubt,))))
    said = Sections(tuple(parts), tuple(passed_over), tuple(group.sections), group.host)
    return said, first_error


def _all(machines: Sequence[Sections]) -> list[TextSection]:
    return [section for one in machines for section in one.sections]


def _elsewhere(machines: Sequence[Sections]) -> bool:
    return any(section.form.elsewhere for section in _all(machines))


def _shows_gpus(one: Sections) -> bool:
    return any(part.gpus for _, part in one.parts)


_Outcome = PartialNode | FormatError | str
"""What an output says, or why it is not used."""


class _Group:
    """The outputs of one machine; those that were read already keep what came of them."""

    def __init__(self, host: str = "") -> None:
        self.host = host
        self.sections: list[TextSection] = []
        self.read: dict[int, _Outcome] = {}
        self.parts: dict[str, list[PartialNode]] = {}

    def take(self, section: TextSection, outcome: _Outcome | None) -> None:
        self.sections.append(section)
        self.host = self.host or section.host
        if outcome is not None:
            self.read[section.first] = outcome
        if isinstance(outcome, PartialNode):
            self.parts.setdefault(section.form.id, []).append(outcome)

    def may_hold(self, section: TextSection, outcome: _Outcome | None) -> bool:
        """Whether nothing says that an output is of another machine."""
        if section.host and self.host:
            return section.host == self.host
        before = self.parts.get(section.form.id, ())
        return not (isinstance(outcome, PartialNode) and contradicts(outcome, before))


@lru_cache(1)  # a text that holds a log too is read once for the log and once for the node
def _read(text: str, forms: tuple[Format, ...]) -> list[_Group]:
    """The outputs in a text, by the machines that printed them."""
    groups: list[_Group] = []
    for section in _hosted(text, split(text, forms)):
        alone = not (section.form.elsewhere or section.form.together)
        outcome = _parsed(section) if alone else None
        # The latest machine goes on, unless something tells of another one.
        held = (one for one in reversed(groups) if one.may_hold(section, outcome))
        named = (one for one in groups if section.host and one.host == section.host)
        group = next(named, None) or next(held, None)
        if group is None:
            group = _Group()
            groups.append(group)
        elif group is not groups[-1]:
            groups.remove(group)
            groups.append(group)
        group.take(section, outcome)
    return sorted(groups, key=lambda one: one.sections[0].first)


def _hosted(text: str, sections: Sequence[TextSection]) -> list[TextSection]:
    """The sections with the host that they or the lines before them name."""
    lines = text.split("\n")
    found: list[TextSection] = []
    last = 0
    for section in sections:
        before = host_before(lines[max(last, section.first - _LOOKED) : section.first - 1])
        found += [
            msgspec.structs.replace(section, host=host or before, text=own)
            for host, own in by_host(section.text).items()
        ]
        last = section.last
    return found


def _parsed(section: TextSection) -> _Outcome:
    try:
        return section.form.parse(section.text.encode("utf-8", "replace"), _NO_FILE)
    except FormatError as error:
        return error


def _outcomes(group: _Group) -> Iterator[tuple[TextSection, _Outcome]]:
    """What came of each output of one machine."""
    parts: list[tuple[Format, PartialNode]] = []
    for section in _joined(group.sections):
        form = section.form
        outcome: _Outcome
        if form.elsewhere:
            outcome = form.elsewhere
        elif not form.repeats and any(other is form for other, _ in parts):
            outcome = f"another output of {form.id}; the first one is used"
        else:
            outcome = group.read.get(section.first) or _parsed(section)
            group.read[section.first] = outcome
        if isinstance(outcome, PartialNode):
            if _of_others(outcome, [before for other, before in parts if other is form]):
                outcome = f"an output of {form.id} that shows other GPUs"
            else:
                parts.append((form, outcome))
        yield section, outcome


def _failed(form: Format, error: FormatError) -> str:
    sound = isinstance(error, ProvesNothingError)
    return f"{form.id} {PROVES_NOTHING}" if sound else f"{BROKEN} {form.id}"


def _joined(sections: Sequence[TextSection]) -> list[TextSection]:
    """The sections, with those of a format that is read together as one, where the first stands."""
    found: list[TextSection] = []
    texts: dict[str, list[str]] = {}
    for section in sections:
        if section.form.together and section.form.id in texts:
            texts[section.form.id].append(section.text)
        else:
            texts.setdefault(section.form.id, [section.text])
            found.append(section)
    return [
        msgspec.structs.replace(section, text=_one_below_another(texts[section.form.id]))
        if section.form.together
        else section
        for section in found
    ]


def _one_below_another(texts: Sequence[str]) -> str:
    return "\n".join([*(text.rstrip() for text in texts[:-1]), texts[-1]])


def _of_others(part: PartialNode, before: Sequence[PartialNode]) -> bool:
    """Whether a matrix shows other GPUs than the one before it: those of another machine."""
    gpus = {gpu.address for gpu in part.gpus}
    return bool(part.pairs) and any(gpus != {gpu.address for gpu in one.gpus} for one in before)


def _doubt(parts: Sequence[tuple[Format, PartialNode]]) -> str:
    """A sentence where the outputs may be of two machines, else ""."""
    counts = {form.id: len(part.gpus) for form, part in parts if part.gpus and not form.repeats}
    if len(set(counts.values())) < 2:
        return ""
    said = ", ".join(f"{name}: {count}" for name, count in counts.items())
    return f"the outputs in the text show different numbers of GPUs ({said})"


def plain(data: bytes) -> str:
    """The text without colours, quoting marks and no-break spaces; its lines stay its lines."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    if not text.isascii():
        text = text.translate(_NO_BREAK)
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    text = _ANSI.sub("", text)
    if ("\n#" in text or text[:1] == "#") and is_described(text[:MOST_OF_DOCUMENT].split("\n")):
        return ""
    if "\n>" in text or text.startswith(">"):
        lines = text.split("\n")
        others = answered(lines)
        text = "\n".join("" if other else line for line, other in zip(lines, others, strict=True))
    return bare(_QUOTED.sub("", text))


def split(text: str, forms: Sequence[Format]) -> list[TextSection]:
    """The sections in the order of the text. Where two formats start, the earlier one has it."""
    found = sorted(_starts(text, forms), key=lambda item: item[:2])
    lines = array("L", [0])
    if found:
        lines.extend(match.end() for match in re.finditer("\n", text))
    sections: list[TextSection] = []
    end = whole = 0
    others = _starts_of_others([item[:2] for item in found], len(text))
    for (start, _, form), other in zip(found, others, strict=True):
        if start < end or (whole == MOST_SECTIONS and form.finds is None):
            continue
        whole += form.finds is None
        first = bisect_right(lines, start)
        last = _last(text, lines, first, form)
        if form.yields and other < len(text):
            stop = bisect_right(lines, other)
            last = min(last, stop - 1) if first < stop <= last else last
        end = lines[last] if last < len(lines) else len(text)
        sections.append(TextSection(form, text[start:end], first, last))
    return sections


def _starts(text: str, forms: Sequence[Format]) -> Iterator[tuple[int, int, Format]]:
    """Where each format starts, with its place among them."""
    for order, form in enumerate(forms):
        if form.starts is None or (form.needs and not any(w in text for w in form.needs)):
            continue
        places = form.finds(text) if form.finds else (m.start() for m in form.starts.finditer(text))
        yield from ((place, order, form) for place in islice(places, MOST_SECTIONS * 64))


def _starts_of_others(starts: Sequence[tuple[int, int]], end: int) -> list[int]:
    """For each start and its format, where the next output of another format starts."""
    found = [end] * len(starts)
    for at in range(len(starts) - 2, -1, -1):
        (start, order), same = starts[at + 1], starts[at][1]
        found[at] = found[at + 1] if order == same else start
    return found


def _last(text: str, lines: Sequence[int], first: int, form: Format) -> int:
    """The number of the last line that belongs to a section."""
    assert form.starts is not None
    assert form.goes_on is not None
    match = form.starts.match(text, lines[first - 1])
    last = first
    if match is not None:  # it may take several lines to be sure
        last = max(first, bisect_right(lines, max(match.start(), match.end() - 1)))
    number = last
    while number < len(lines):
        start = lines[number]
        stop = lines[number + 1] - 1 if number + 1 < len(lines) else len(text)
        line = text[start:stop]
        number += 1
        if form.goes_on.match(line):
            last = number
        elif not _SHAPES.match(line):
            break
    return last


def _between(text: str, sections: Sequence[TextSection]) -> list[tuple[int, int]]:
    """Ranges of lines that are in no section and say something."""
    ranges: list[tuple[int, int]] = []
    taken = iter(sections)
    section = next(taken, None)
    for number, match in enumerate(re.finditer(r"(?m)^.*", text), start=1):
        line = match[0]
        while section is not None and number > section.last:
            section = next(taken, None)
        if (section is not None and number >= section.first) or _SAYS_NOTHING.match(line):
            continue
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def _lines(ranges: Sequence[tuple[int, int]], number: Callable[[int], int]) -> str:
    placed = [(number(a), number(b)) for a, b in ranges[:_MOST_RANGES]]
    named = [f"{a}" if a == b else f"{a}-{b}" for a, b in placed]
    more = f" and {len(ranges) - _MOST_RANGES} more" if len(ranges) > _MOST_RANGES else ""
    return f"line{'s' * (len(ranges) > 1 or '-' in named[0])} {', '.join(named)}{more}"


# What collectors and launchers put before every line: taken off where most lines have it.
_NANO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,9}(?:Z|[+-]\d\d:\d\d)"
_FORMS = tuple(
    re.compile(rf"(?m)^{form}")
    for form in (
        rf"\[pod/[\w./-]{{1,200}}\] ?(?:{_NANO} )?",
        rf"{_NANO} (?:(?:stdout|stderr) [FP] )?",
        r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,64} (?!kernel)[\w./@-]{1,64}(?:\[\d+\])?: ",
        r"[\w.-]{1,64} +\| ",
        r"\[(?:default|rank)\d{1,5}\]:",
        r" {0,4}\d{1,5}: ",
    )
)
"""kubectl logs --prefix --timestamps; CRI and docker logs -t; journalctl; docker compose; torchrun
--tee; srun --label."""
_LOOKED, _FEW, _MOST = 200, 4, 0.8


def bare(text: str) -> str:
    """The text without what stands before most of its lines; its lines stay its lines."""
    said = [line[:400] for line in islice(_beginning(text), _LOOKED) if line.strip()]
    if len(said) < _FEW:
        return text
    for form in _FORMS:
        if sum(form.match(line) is not None for line in said) >= _MOST * len(said):
            return form.sub("", text)
    return text


def _beginning(text: str) -> list[str]:
    return text[: _LOOKED * 400].split("\n")
