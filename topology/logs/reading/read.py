"""The debug output of NCCL or RCCL, of any mix of ranks, as a LogReport.

Formats: NCCL 2.17 to 2.32 (debug.cc:ncclDebugLog and the INFO calls), RCCL 2.21. The whole log is
read once, line by line; what repeats per channel or rank is held once.
"""

import re
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path

from ...model.told import answered
from ...recorded.kept import KeptText
from ...recorded.pasted import PastedText, read_pasted, text_formats
from ..report.report import LogReport
from .blocks import read_system
from .building import Blocks, Process
from .foreign_lines import marked, quoted
from .gathering import GatheredLog, numbered
from .kinds import WORDS, Reader, family
from .lines import LONGEST_LINE, LineReader, Readable
from .milestones import Others
from .prefix import MARK, Heads, rejoined, source_of, unfolded, unwrapped, without_colour
from .signs import NONE, Signs
from .unmarked import MOST_OPENINGS, Unmarked, left_over

_WORD_CACHE = 20_000

# Some lines of a log, with what is quicker to ask of all of them at once than of each.
MOST = MARK + b"INFO "
"""What nearly all lines of the library hold."""
LEVELS = {
    b"INFO ": "INFO",
    b"WARN ": "WARN",
    b"ATTN ": "ATTN",
    b"DIAG ": "DIAG",
    b"TRACE": "TRACE",
    b"CALL ": "CALL",
    b"ABORT": "WARN",
}
"""What follows the mark in a line of the library."""

# What a job was doing when a collective's time was over: the last lines before the first timeout.
#
# Training and serving frameworks say when they load, save or prepare; the others wait meanwhile.
TIMEOUT = b"Watchdog caught collective"
MOST_LINES = 40
"""How far back is looked."""
MOST_OTHERS = 8
"""How many lines of other things may stand between."""
_WORK = re.compile(
    rb"(?i)\b(?:saving|loading|writing|uploading|downloading|converting|merging|consolidating)\b"
    rb".{0,80}\b(?:checkpoint|model|weights?|shards?|state|dataset|tensors?|safetensors|file)"
    rb"|\bcheckpoint shards\b|\btokeniz(?:ing|er on)\b|\bpreprocessing\b"
    rb"|\bgenerating \w{1,20} split\b|\bmap(?: \(num_proc=\d+\))?: +\d"
    rb"|\b(?:building|indexing|packing)\b.{0,40}\b(?:dataset|index|samples?)\b"
    rb"|\b(?:compiling|capturing|autotuning|evaluating|validating)\b"
)
_DONE = re.compile(rb"(?i)\b100 ?%|\b(?:finished|done|saved|loaded|successfully)\b")
_TRAINS = re.compile(rb"(?i)\bloss\b|\bgrad_?norm\b|\biteration +\d|\bstep[ :=]+\d|\btokens?/s\b")
"""Training goes on: what stands before it has ended."""


class Before:
    """The last lines that were read."""

    def __init__(self) -> None:
        self._tail: list[bytes] = []

    def passed(self, lines: list[bytes]) -> None:
        """Keep the last of these lines."""
        before = self._tail if len(lines) < MOST_LINES else []
        self._tail = [*before, *lines[-MOST_LINES:]][-MOST_LINES:]

    def busy(self, lines: list[bytes], number: int) -> list[tuple[int, bytes]]:
        """Work that had not ended before line `number`; `lines` were not passed yet."""
        others = 0
        last = [*self._tail, *lines[-MOST_LINES:]][-MOST_LINES:]
        for distance, line in enumerate(reversed(last), 1):
            if not line.strip() or MARK in line or b"ProcessGroupNCCL" in line:
                continue
            if _TRAINS.search(line) or others > MOST_OTHERS:
                return []
            if _WORK.search(line):
                return [] if _DONE.search(line) else [(number - distance, line[:1600])]
            others += 1
        return []


class Chunk:
    """Whole lines, in order."""

    def __init__(self, lines: list[bytes]) -> None:
        whole = b"\n".join(lines)
        if b"\x1b" in whole:
            whole = without_colour(whole)
            lines = whole.split(b"\n")
        if b"\n" in whole and (joined := rejoined(lines)) is not lines:
            lines, whole = joined, b"\n".join(joined)
        self.lines = lines
        """Without colours, which could stand in every word."""
        marks = whole.count(MARK)
        self.cuts = [line.find(MOST) for line in lines]
        """Where the usual mark of the library is in each of the lines, -1 for nowhere."""
        self.places = [place for place, cut in enumerate(self.cuts) if cut < 0]
        """Where the lines without that mark are: 0 for the first."""
        self.others = [lines[place] for place in self.places]
        self.different = set(self.others)
        others = b"\n".join(self.others).count(MARK) if marks else 0
        self.other_levels = frozenset(filter(_level, self.different) if others else ())
        """Those of them that are the library's."""
        self.unmarked = not marks or not any(MARK + level in whole for level in LEVELS)
        self.blank = whole.isspace()
        self.glued = marks - others > len(lines) - len(self.others)
        """Some lines hold several marks."""
        self.failing = marks > 0 and any(word in whole for word in (b"ailed", b"rror"))
        """Some lines speak of a failure."""


def _level(line: bytes) -> str | None:
    """The level of a line of the library."""
    at = line.find(MARK)
    return None if at < 0 else LEVELS.get(line[at + 6 : at + 11])


def read_log(
    source: Readable | Iterable[bytes],
    *,
    name: str = "",
    heard: Callable[[int], None] | None = None,
    signs: Signs = NONE,
    outputs: bool = False,
) -> LogReport:
    """Read a log from a binary file, a stream or lines; gzip data is unpacked.

    `heard` is called with the number of bytes read so far, about once a megabyte; `signs` say
    which lines without the library's head are kept; `outputs`: whether those of other tools in it
    are read too. A damaged or cut log gives what could be read;
    raises LogUnreadable for gzip data that cannot be unpacked at all.
    """
    kept = KeptText(text_formats()) if outputs else None
    return _Reading(LineReader(source, heard), signs, kept).report(name)


def read_file(path: Path, heard: Callable[[int], None] | None = None) -> LogReport:
    """Read a file; raises OSError and LogUnreadable."""
    with path.open("rb") as file:
        return read_log(file, name=path.name, heard=heard)


class _Reading:
    def __init__(self, lines: LineReader, signs: Signs, kept: KeptText | None) -> None:
        self._lines = lines
        self._kept = kept
        self._log = GatheredLog()
        self._unmarked = Unmarked(self._log, signs, kept)
        self._heads = Heads()
        self._by_head: dict[bytes, tuple[Process, str | None]] = {}
        self._by_word: dict[bytes, str | Reader | None] = dict(WORDS)
        self._number = 0
        self._before = Before()
        self._library_lines = 0

    def report(self, name: str) -> LogReport:
        for lines in self._lines.batches():
            self._read(lines)
        log = self._log
        strays = Blocks()
        for process in log.processes():
            process.flush(strays)
        versions = log.all_versions()
        if self._lines.open_end and log.cut == 0 and self._library_lines:
            log.cut = 1
        log.count_left_out()
        if self._lines.shortened:
            log.more["ends of long lines"] = self._lines.shortened
        if self._lines.stopped:
            log.more[f"rest of the log ({self._lines.stopped})"] = 1
        return LogReport(
            name=name,
            versions=versions,
            environment=log.variables(),
            communicators=tuple(comm.built() for comm in log.communicators()),
            notes=log.notes(),
            hosts=log.hosts,
            bootstrap=tuple(log.bootstrap),
            lines=self._number,
            bytes=self._lines.bytes,
            library_lines=self._library_lines,
            kinds=dict(log.kinds.most_common()),
            unread=log.unread_notes(),
            cut=log.cut,
            unknown=log.unknown_notes(),
            openings=numbered(log.openings),
            context=numbered(log.context),
            suspects=numbered(
                log.suspects if log.suspects or self._library_lines else left_over(log.context)
            ),
            progress=log.progress.built(),
            milestones=log.milestones.built(),
            diagnostics=log.diagnostics.built(),
            busy=log.busy or (),
            systems=tuple(filter(None, (read_system(*block) for block in strays.items()))),
            pasted=self._pasted(name),
            outputs_until=None if self._kept is None else self._kept.until,
            more={what: count for what, count in log.more.items() if count},
        )

    def _pasted(self, name: str) -> PastedText | None:
        """The outputs of tools; None where there are none, or nobody asked."""
        data = b"" if self._kept is None else self._kept.data
        return read_pasted(data, name, self._kept.number) if data and self._kept else None

    def _read(self, lines: list[bytes]) -> None:
        whole = None
        if not self._number and any(line[:1] == b">" for line in lines):
            # What somebody quotes of another one's post is in the first lines, or in none.
            others = answered([line.decode("latin-1") for line in lines])
            lines = [b"" if other else line for line, other in zip(lines, others, strict=True)]
        if self._lines.documents:
            # What is looked through for outputs of tools alone may be so long.
            whole, lines = lines, [line[:LONGEST_LINE] for line in lines]
        chunk = Chunk(lines) if any(lines) else None
        if chunk is not None and self._speaks(chunk, whole):
            self._read_lines(chunk)
        else:
            self._log.kinds["elsewhere"] += len(lines)
        self._number += len(lines)
        self._before.passed(lines)

    def _speaks(self, chunk: Chunk, whole: list[bytes] | None) -> bool:
        """Whether any of the lines says something, as far as all of them together tell."""
        unmarked = self._unmarked
        others = Others(self._number + 1, chunk.places, chunk.others)
        unmarked.learn(whole or chunk.lines, chunk.different, others)
        silent = chunk.unmarked and chunk.different.isdisjoint(unmarked.telling)
        quoted = len(self._log.openings) >= MOST_OPENINGS or chunk.blank
        return not (silent and quoted) or bool(unmarked.awaits)

    def _read_lines(self, chunk: Chunk) -> None:
        """Read every line; this loop has to be fast.

        So have the readers: `find` takes a third of the time that `in` takes with bytes, which asks
        first whether it was given a number.
        """
        elsewhere, ours = 0, 0
        kinds: list[str] = []
        heard = kinds.append
        words, by_head = self._by_word, self._by_head
        log, unmarked = self._log, self._unmarked
        quoted = len(log.openings) >= MOST_OPENINGS or chunk.blank
        telling, levels = unmarked.telling, chunk.other_levels
        glued, failing = chunk.glued, chunk.failing
        behind = len(MOST)
        for number, line, cut in zip(count(self._number + 1), chunk.lines, chunk.cuts):
            # Nearly all lines of a log are these: a head that is known, and one mark.
            if cut >= 0:
                known, text = by_head.get(line[:cut]), line[cut + behind :]
            elif line in telling or line in levels or unmarked.awaits:
                known = None
            else:
                elsewhere += 1
                if not quoted and line.strip() and len(log.openings) < MOST_OPENINGS:
                    log.openings.append((number, line[:1600]))
                continue
            if known is None or (glued and text.find(MARK) >= 0):
                common = self._seldom(line, chunk, number)
                if isinstance(common, int):
                    ours += common
                    continue
                known, text = common
            process, word = known[0], text[: text.find(b" ")]
            reader = words.get(word)
            if reader is None:
                first = text.split(None, 1)
                if not first:
                    continue
                word, reader = first[0], words.get(first[0])
            kind: str | None
            if reader.__class__ is str:
                kind = reader
                if failing and (text.find(b"ailed") >= 0 or text.find(b"rror") >= 0):
                    log.note("INFO", process, text, number)
            else:
                kind = None
                if reader is not None and text[-1:] != b"\r":
                    kind = reader(log, process, text, number)  # type: ignore[operator]
                if kind is None:
                    kind = self._understand(process, text, word, reader, number)  # type: ignore[arg-type]
            heard(kind)
        self._library_lines += ours + len(kinds)
        log.kinds.update(kinds)
        if elsewhere:
            log.kinds["elsewhere"] += elsewhere

    def _seldom(
        self, line: bytes, chunk: Chunk, number: int
    ) -> tuple[tuple[Process, str | None], bytes] | int:
        """Read a line of an unknown head: its process and text, or how many of ours it was."""
        if line[:1] == b"{":
            line = unwrapped(line)
        if self._log.busy is None and line.find(TIMEOUT) >= 0:
            busy = self._before.busy(chunk.lines[: number - self._number - 1], number)
            self._log.busy = numbered(busy)
        at = line.find(MARK)
        if at < 0 or quoted(line, at):
            return self._elsewhere(line, number)
        if line.find(MARK, at + 6) >= 0:
            return self._odd(line, number)
        if line[at + 6 : at + 11] != b"INFO ":
            return self._uncommon(line, at, number)
        return self._process(line[:at]), line[at + 11 :]

    def _process(self, head: bytes) -> tuple[Process, str | None]:
        """Find the process behind a head, and the source file that a warning names."""
        place = head.rfind(b" [")
        key = head[head.rfind(b" ", 0, place) + 1 :] if place > 0 else head
        known = self._by_head.get(key)
        if known is None:
            speaker = self._heads.speaker(key, head)
            where = speaker.where if speaker is not None else source_of(head)
            known = (self._log.process(speaker), where)
            if key[:1] != b"{":
                if len(self._by_head) >= _WORD_CACHE:
                    self._by_head.clear()  # the jobs that they came from have ended
                self._by_head[key] = known
        return known

    def _understand(
        self,
        process: Process,
        text: bytes,
        word: bytes,
        reader: Reader | None,
        number: int,
        *,
        cut: bool = False,
    ) -> str:
        """Hand a line to its reader; return the kind that it counts as."""
        if text[-1:] == b"\r":
            text = text.rstrip(b"\r")
        found: str | Reader | None = reader
        if found is None:
            found = family(word)
            if len(self._by_word) < _WORD_CACHE:
                self._by_word[word] = found
        if found is None:
            if not cut:
                self._log.unknown(process, text, number)
            return "cut" if cut else "other"
        kind = found if isinstance(found, str) else found(self._log, process, text, number)
        if kind is None and not isinstance(found, str):
            # A progress bar returns to the start of its line, so its text can follow the library's.
            before, bar, _ = text.partition(b"\r")
            written_on = bar and before.strip()
            text, folded = unfolded(before if written_on else text)
            if folded:
                self._log.more["lines that Ray folded into one"] += folded
            if folded or written_on:
                kind = found(self._log, process, text, number)
        if kind is not None:
            return kind
        if cut or self._at_open_end(number):
            self._log.cut += 1
            return "cut"
        self._log.unread(process, text, number)
        return "unread"

    def _at_open_end(self, number: int) -> bool:
        """Whether this is a last line without a line end."""
        return self._lines.open_end and number == self._number + 1

    def _odd(self, raw: bytes, number: int) -> int:
        """Read several lines in one."""
        parts = self._heads.split_glued(raw)
        ours = 0
        for index, part in enumerate(parts):
            at = part.find(MARK)
            ours += (
                self._elsewhere(part, number)
                if at < 0
                else self._uncommon(part, at, number, cut=index + 1 < len(parts))
            )
        return ours

    def _elsewhere(self, raw: bytes, number: int) -> int:
        """Read a line in which the mark is not found where it is expected."""
        named = None if self._unmarked.knows(raw) else marked(raw)
        if named is None:
            return self._unmarked.read(raw, number)
        return self._uncommon(named, named.find(MARK), number)

    def _uncommon(self, raw: bytes, at: int, number: int, *, cut: bool = False) -> int:
        """Read a marked line of any level; 1 when it is the library's."""
        log = self._log
        level = LEVELS.get(raw[at + 6 : at + 11])
        if level is None:
            return self._unmarked.read(raw, number)
        if level == "DIAG":
            return self._unmarked.diagnosis(raw, at, number)
        process, log.where = self._process(raw[:at])
        text = raw[at + 11 :].lstrip(b" ") if level != "INFO" else raw[at + 11 :]
        first = text.split(None, 1)
        if level == "WARN":
            log.note("WARN", process, text, number)
            kind = "warning"
        elif level in ("TRACE", "CALL") or not first:
            kind = "trace"
        else:
            if level == "ATTN":
                log.note("INFO", process, text, number)
            reader = self._by_word.get(first[0])
            kind = (
                reader
                if isinstance(reader, str)
                else self._understand(process, text, first[0], reader, number, cut=cut)
            )
        log.where = None
        log.kinds[kind] += 1
        return 1
