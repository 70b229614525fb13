"""Lines of programs that tell how far a run came: rows, steps, answers, its end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...model.gathered import gathered
from ...recorded.sought import Sought, Vocabulary
from ..report.milestones import Milestone, Reached
from ..report.text import plain
from .prefix import MARK

ROWS, MOVING, SERVING = Milestone.ROWS, Milestone.MOVING, Milestone.SERVING
FINISHED, ENDED = Milestone.FINISHED, Milestone.ENDED

SHOWN: dict[Milestone, tuple[tuple[bytes, ...], re.Pattern[bytes]]] = {
    ROWS: (
        (
            b" float ", b" half ", b" double ", b"bfloat", b" int", b" uint", b" fp8", b" f8e",
            b"          ",
        ),
        re.compile(
            rb"\s\d{1,15}\s+\d{1,15}\s+(?:float|half|double|bfloat16|u?int\d{1,2}|fp8\w*|f8e\w*)\s+"
            rb"(?:sum|prod|max|min|avg|mulsum|all|none)\s+-?\d"
            rb"|^(?:\[\d{1,6},\d{1,6}\]<std\w{2,4}>: ?)?\d{1,12} {10,24}\d{1,9}\.\d\d\s*$"
        ),
    ),
    MOVING: (
        (
            b"loss", b"Loss", b"grad_norm", b"iteration ", b"Iteration ", b"step", b"Step",
            b"okens/s", b"tokens per s", b"it/s", b"s/it", b"amples/s", b"img/s", b"images/s",
            b"throughput: ", b"Decode batch", b'" 200 ',
        ),
        re.compile(
            rb"(?i)\bloss[\"' ]{0,2}[:=]? *\.?\d|\bgrad_?norm\b|\biteration +\d"
            rb"|^(?!.*\b(?:load(?:ed|ing)|resum\w+|restor\w+|total|max(?:imum)?|warm-?up|number|every"
            rb"|slurmstepd|srun|oom|cancell?ed|errors?)\b"
            rb"|\W*global step: *\d+\s*$).*\bsteps?[ :=/]+\d"
            rb"|\b(?:tokens?|samples|img|images)(?:/s| per s)|\d(?:it/s|s/it)\b"
            rb"|\bthroughput: *[\d.]|\bDecode batch\b|\" 200 (?:OK|\d|-)"
        ),
    ),
    SERVING: (
        (b"startup complete", b"running on http", b"fired up", b"Server is ready"),
        re.compile(
            rb"Application startup complete|\brunning on http|server is fired up|Server is ready"
        ),
    ),
    FINISHED: (
        (
            b"Avg bus bandwidth", b"raining complete", b"raining finished", b"train_runtime",
            b"exit code 0", b"exited with code 0", b"exitcode 0", b" passed in ", b"successfully",
        ),
        re.compile(
            rb"# Avg bus bandwidth *:|\b[Tt]raining (?:completed?|finished)\b|'train_runtime'"
            rb"|\bexit(?:ed with)? ?code:? 0\b|=+ \d+ passed in |\b[Jj]ob (?:\S+ )?(?:completed|"
            rb"finished|succeeded|ended) successfully"
        ),
    ),
    ENDED: (
        (
            b"Traceback (most", b"exitcode", b"exit code", b"return code", b"Signal",
            b"signal", b"terminate called", b"core dumped", b"Segmentation", b"Killed",
            b"ChildFailedError", b"NCCL failure", b"srun: error", b"slurmstepd: error",
            b"DistBackendError", b"o avoid data inconsistency", b"o avoid this inconsistency",
            b"non-zero status",
        ),
        re.compile(
            rb"Traceback \(most recent|\b(?:exit ?|return )code *[:=]? *\(?-?[1-9]"
            rb"|\bSignal \d|\bsignal:? \d|on signal |\bSIG(?:KILL|TERM|SEGV|ABRT|BUS)\b"
            rb"|terminate called|core dumped|Segmentation fault|^Killed\b|ChildFailedError"
            rb"|Test NCCL failure|srun: error|slurmstepd: error|DistBackendError"
            rb"|[Tt]o avoid (?:data|this) inconsistency|non-zero status"
        ),
    ),
}  # fmt: skip
"""Milestone -> texts, one of which its lines hold, and the pattern of such a line.

Forms of nccl-tests, the OSU micro-benchmarks, PyTorch and its elastic launcher, Transformers,
Megatron-LM, vLLM, SGLang, uvicorn, DeepSpeed, Slurm, Open MPI.
"""
MOST_LINES = 512
"""Lines that are kept of one milestone; of later ones the last of each text."""
MOST_LOOKS = 32
"""Lines with one of the texts that are looked at from the end of a part of a long log."""
_MAY = {
    text: [what for what, (texts, _) in SHOWN.items() if text in texts]
    for texts, _ in SHOWN.values()
    for text in texts
}
_SOUGHT = Sought(_MAY)


class Others(NamedTuple):
    """Lines without the library's mark among the next ones of a log."""

    first: int
    """The number of the first line of all."""
    places: list[int]
    """Where these are: 0 for the first of all."""
    lines: list[bytes]

    def numbered(self) -> Iterator[tuple[int, bytes]]:
        """The lines with their numbers."""
        return zip(map(self.first.__add__, self.places), self.lines, strict=True)


class Milestones:
    """Gathers them while a log is read."""

    def __init__(self) -> None:
        self._lines: dict[Milestone, list[int]] = {}
        self._first: dict[Milestone, bytes] = {}
        self._last: dict[Milestone, bytes] = {}

    def read(self, others: Others, words: Vocabulary) -> None:
        """Look through the next lines; `words`: of those that are new."""
        texts = gathered((what, text) for text in _SOUGHT.found(words) for what in _MAY[text])
        if not texts:
            return
        data = b"\n".join(others.lines)
        for what, held in texts.items():
            full = len(self._lines.get(what, ())) >= MOST_LINES
            found = self._late(what, held, data) if full else self._all(what, held, data)
            place, before = 0, 0
            for start, end in found:
                place, before = place + data.count(b"\n", before, start), start
                self._keep(what, others.first + others.places[place], data[start:end])

    def _all(self, what: Milestone, held: list[bytes], data: bytes) -> list[tuple[int, int]]:
        """The first lines that show it, as places in the text, and the last one of many."""
        found: set[tuple[int, int]] = set()
        for text in held:
            at, tries = data.find(text), 0
            while at >= 0 and tries < 2 * MOST_LINES:
                start, end = _line_at(data, at)
                if self._shows(what, data[start:end]):
                    found.add((start, end))
                at, tries = data.find(text, end), tries + 1
            if at >= 0:
                found.update(self._late(what, [text], data))
        return sorted(found)

    def _late(self, what: Milestone, held: list[bytes], data: bytes) -> list[tuple[int, int]]:
        """The last line that shows it, as far as a few looks find one."""
        found: list[tuple[int, int]] = []
        for text in held:
            at = data.rfind(text)
            for _ in range(MOST_LOOKS):
                if at < 0:
                    break
                start, end = _line_at(data, at)
                if self._shows(what, data[start:end]):
                    found.append((start, end))
                    break
                at = data.rfind(text, 0, start)
        return [max(found)] if found else []

    @staticmethod
    def _shows(what: Milestone, line: bytes) -> bool:
        if MARK in line or (what is MOVING and line[:1] == b"#"):
            return False  # nccl-tests names its settings behind this sign
        return SHOWN[what][1].search(line[:2000]) is not None

    def _keep(self, what: Milestone, number: int, line: bytes) -> None:
        seen = self._lines.setdefault(what, [])
        self._first.setdefault(what, line[:400])
        self._last[what] = line[:400]
        if len(seen) > MOST_LINES:
            seen.pop()  # the last of all is kept, besides the first ones
        seen.append(number)

    def built(self) -> tuple[Reached, ...]:
        """What was reached, in the order of the enum."""
        return tuple(
            Reached(
                what,
                tuple(self._lines[what]),
                plain(self._first[what].strip()),
                plain(self._last[what].strip()),
            )
            for what in _ordered(self._lines)
        )


def _line_at(data: bytes, at: int) -> tuple[int, int]:
    """Where the line that holds this place begins and ends."""
    end = data.find(b"\n", at)
    return data.rfind(b"\n", 0, at) + 1, len(data) if end < 0 else end


def _ordered(found: Iterable[Milestone]) -> list[Milestone]:
    there = set(found)
    return [what for what in Milestone if what in there]
