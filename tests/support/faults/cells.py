"""One cell of the matrix: a function of a vendor's library, and how it misbehaves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from gputop.topology.diagnosis.engine import FAILED
from gputop.topology.model.severity import Verdict
from tests.support.faults.facts import Answer
from tests.support.faults.lies import LIES, UNITS
from tests.support.faults.plan import OTHER, STALE, Fault

BLOCKS = "blocks"
GPU = 1
"""The index of the one GPU that is faulty."""
WAYS_TO_LIE = (*LIES, *UNITS, OTHER, STALE)
KINDS = ("errors", "lies", BLOCKS)


class Cell(msgspec.Struct, frozen=True):
    """One function that misbehaves in one way."""

    function: str
    way: str
    """An error by its name in the table's `codes`, one of WAYS_TO_LIE, or BLOCKS."""
    one: bool
    """Whether only one GPU has it."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """All cells of one library."""

    profile: str
    """The machine that is asked, one with two GPUs."""
    codes: Mapping[str, int]
    """The library's errors, by words for them."""
    opening: tuple[str, ...]
    """Functions that find the GPUs."""
    getters: tuple[str, ...]
    of_gpu: Callable[[str], bool]
    """Whether a function is about a single GPU."""
    harmless: Callable[[Cell], bool]
    """Whether the node may be called healthy although a function fails or blocks."""
    sound: Callable[[], Answer]
    """What it says of the machine without a fault."""
    diagnose: Callable[[Cell], Answer]
    """What a check says."""

    def fault(self, cell: Cell) -> Fault:
        """What goes wrong."""
        return Fault(
            function=cell.function,
            gpus=(GPU,) if cell.one else None,
            code=self.codes.get(cell.way, 0),
            fills=LIES.get(cell.way, ""),
            factor=UNITS.get(cell.way, 1.0),
            stands_in=cell.way if cell.way in (OTHER, STALE) else "",
            blocks=cell.way == BLOCKS,
        )

    def cells(self, kind: str) -> Iterator[Cell]:
        """Every cell of a kind."""
        ways = {"errors": tuple(self.codes), "lies": WAYS_TO_LIE, BLOCKS: (BLOCKS,)}[kind]
        for function in (*self.opening, *self.getters):
            for way in ways:
                for one in (True, False) if self.of_gpu(function) else (False,):
                    yield Cell(function, way, one)

    def wrong(self, cell: Cell, answer: Answer) -> str:
        """What must not be in an answer; "" where there is nothing of the kind."""
        if any(finding.id == FAILED for finding in answer.diagnosis.findings):
            return "a rule raised"
        if answer.diagnosis.verdict != Verdict.HEALTHY:
            return ""
        if cell.way not in WAYS_TO_LIE:
            return "" if self.harmless(cell) else "a false all-clear"
        touched = answer.facts.touched(self.sound().facts)
        return f"a false all-clear: {', '.join(touched)}" if touched else ""


class Said(msgspec.Struct, frozen=True):
    """What came of one cell."""

    cell: Cell
    verdict: str
    wrong: str = ""
    seconds: float = 0.0


def lines(answers: Iterable[Said]) -> Iterator[str]:
    """The table: for each function the ways in which it misbehaves, by verdict."""
    table: dict[str, dict[str, dict[str, list[str]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for said in answers:
        where = "one" if said.cell.one else "all"
        table[said.cell.function][said.verdict][said.cell.way].append(where)
    for function, verdicts in table.items():
        yield function
        for verdict, ways in verdicts.items():
            everywhere = max(len(places) for places in ways.values())
            texts = [
                way if len(places) == everywhere else f"{way} ({'; '.join(places)})"
                for way, places in ways.items()
            ]
            yield f"    {verdict}: {', '.join(texts)}"


def faulty(answers: Iterable[Said]) -> Iterator[str]:
    """Each cell whose answer must not be."""
    for said in answers:
        if said.wrong:
            gpus = "one GPU" if said.cell.one else "all"
            yield f"{said.cell.function}, {said.cell.way}, {gpus}: {said.wrong}"


def totals(answers: Iterable[Said]) -> str:
    """How many cells got which verdict."""
    counts = Counter(said.verdict for said in answers)
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
