"""Pages: text about something on this node, without a width, an ink or a screen.

An answer becomes a page of blocks; `gputop.printing.render` turns the blocks into lines, which a
terminal prints and a screen draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Union

import msgspec

from .copied import REFUSED, copied
from .severity import Mark, Word

if TYPE_CHECKING:
    from .finding import Finding


class Basis(Word):
    """How a fact is known; UNSAID where it goes without saying."""

    READ = "read"
    MEASURED = "measured"
    ASSUMED = "assumed"
    SIMULATED = "simulated"
    UNSAID = ""


READ, MEASURED = Basis.READ, Basis.MEASURED
ASSUMED, SIMULATED = Basis.ASSUMED, Basis.SIMULATED


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is known: its name or a question, its value, and how it is known."""

    what: str
    """"NVLinks of GPU3 that are up", "Which path do they take?"."""
    value: str
    """"16 of 18"."""
    source: str
    """Where it was read: "NVML nvmlDeviceGetNvLinkState", "/proc/cmdline", "probe p2p"."""
    line: int | None = None
    """Number of the log line that `value` quotes; None for everything else."""
    because: str = ""
    basis: Basis = READ
    flag: str = ""
    """Variable that would change the value."""
    decides: bool = False
    """Whether this settled the matter."""
    about: str = ""
    """"nccl" for the library's own questions, "" for what holds without it."""


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """One action that helps."""

    text: str
    command: str = ""
    """A command to be copied as it is; empty where there is none."""
    needs_root: bool = False

    @classmethod
    def of(cls, text: str, template: str, *words: object, root: bool = False) -> Fix:
        """With a command that holds words from outside; where one is refused the text says so."""
        command = copied(template, *words)
        refused = "" if command else f" ({REFUSED})"
        return cls(text=text + refused, command=command, needs_root=root)

    @property
    def lines(self) -> tuple[str, ...]:
        """What to do and who may do it, then the command, each on its own line."""
        root = " (needs root)" if self.needs_root else ""
        return (self.text + root, *(line for line in self.command.split("\n") if line))


UNSET, NEXT_START = "unset {:variable}", "Start the next job without it."
"""How a variable that costs something is left out, and what a job that runs is told of it."""


class Role(Word):
    """What a piece of text is; the renderer knows the ink of each."""

    PLAIN = ""
    STRONG = "strong"
    MUTED = "muted"
    LABEL = "label"
    DEVICE = "device"
    FLAG = "flag"
    COMMAND = "command"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    NVLINK = "nvlink"
    PCIE = "pcie"
    SOCKET = "socket"


Runs = tuple[tuple[str, Role], ...]
"""A text in pieces, each with its role."""


IMPACT = "Impact"
"""The label of what follows from a fault."""


class Heading(msgspec.Struct, frozen=True):
    """The title of what follows, with an empty line before it."""

    text: str
    mark: Mark | None = None
    """Its sign stands before the text."""
    note: str = ""


class Text(msgspec.Struct, frozen=True):
    """A paragraph."""

    text: str | Runs
    """Commands between backticks are shown as such."""
    label: str = ""
    """"Impact": stands before the text, with a colon."""
    indent: int = 0
    hanging: int = 2
    """Further indent of the second line and those below it."""
    role: Role = Role.PLAIN

    @classmethod
    def marked(cls, mark: Mark, *runs: tuple[str, Role], hanging: int = 2) -> Text:
        """A line behind the sign of a mark."""
        return cls(((mark.sign, Role(mark.ink)), *runs), hanging=hanging)


class Bullets(msgspec.Struct, frozen=True):
    """Short texts, each behind a mark of its own."""

    texts: tuple[str, ...]


class Facts(msgspec.Struct, frozen=True):
    """Facts one below the other. A source that several in a row share stands below the last."""

    facts: tuple[Fact, ...]
    indent: int = 0


class Column(msgspec.Struct, frozen=True):
    """The head of a column of a table."""

    title: str
    right: bool = False
    """Whether its cells stand at the right, as numbers do."""
    least: int = 8
    """Fewest cells that are left where the table is wider than the line."""
    optional: bool = False
    """Whether it is left out where the line is too short; the last such column goes first."""


class Table(msgspec.Struct, frozen=True):
    """Rows of cells below heads. The widest columns wrap where the line is too short."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[Mark | None, ...] = ()
    """The verdict on each row, whose ink it takes; () for none."""
    indent: int = 2
    folds: bool = False
    """Whether columns that do not fit follow below, with the first column again. Heads are broken
    into lines, and nothing else is."""


class CellGrid(msgspec.Struct, frozen=True):
    """Cells of equal width, with the same names above and at the left."""

    corner: str
    names: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    short: tuple[tuple[str, ...], ...]
    """The cells where there is no room for the whole ones."""


class Rows(msgspec.Struct, frozen=True):
    """Lines of equal cells, such as a matrix. All are left out where one is too long."""

    lines: tuple[Runs, ...]


class Findings(msgspec.Struct, frozen=True):
    """Findings, a line each; with their proof, impact and fix where `whole`."""

    findings: tuple[Finding, ...]
    whole: bool = False
    leading: tuple[Finding, ...] = ()
    """Those below which the first step and the cause stand, where not `whole`."""
    silenced: tuple[tuple[Finding, str], ...] = ()
    """Those that were silenced, each with the reason; they come last."""


class PageEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One of several things of a kind: a line, and what more there is to say of it."""

    line: Text
    more: tuple[Block, ...] = ()
    devices: tuple[str, ...] = ()
    """PCI addresses of what it is about."""
    mark: Mark | None = None
    cells: tuple[str, ...] = ()
    """The line in columns, where several entries compare; () for the line as it is."""


class Entries(msgspec.Struct, frozen=True):
    """Things one below the other, a line each; a screen shows the rest of each beside them."""

    entries: tuple[PageEntry, ...]
    whole: bool = False
    """Whether what more there is to say stands below each line."""
    rising: bool = False
    """Whether the newest is the last one, which a screen shows first."""
    heads: tuple[str, ...] = ()
    """Above the columns of the cells."""


class Steps(msgspec.Struct, frozen=True):
    """Actions in the order in which they are tried."""

    fix: tuple[Fix, ...]
    indent: int = 0


class Commands(msgspec.Struct, frozen=True):
    """Lines to be copied. They are never wrapped inside a word."""

    commands: tuple[str, ...]
    indent: int = 2


class BarLine(msgspec.Struct, frozen=True):
    """One bar: a name, a value on a scale that all bars of a block share, and a note."""

    name: str
    value: float
    note: str = ""
    mark: Mark | None = None
    low: float | None = None
    """Where the healthy band begins; None without one."""
    high: float | None = None


class Bars(msgspec.Struct, frozen=True):
    """Bars one below the other, with one scale."""

    bars: tuple[BarLine, ...]


class Blank(msgspec.Struct, frozen=True):
    """An empty line."""


class Indented(msgspec.Struct, frozen=True):
    """Blocks that belong to what stands before them, further to the right."""

    blocks: tuple[Block, ...]
    indent: int = 4


Block = Union[  # noqa: UP007 - its members name a class that is imported for types alone
    Heading,
    Text,
    Bullets,
    Facts,
    Table,
    Rows,
    CellGrid,
    Findings,
    Entries,
    Steps,
    Commands,
    Bars,
    Blank,
    Indented,
]


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A heading and what stands below it."""

    title: str
    paragraphs: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()
    """Rows of cells, the first one is the head; printed between the title and the paragraphs."""
    bullets: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Nothing stands below the heading."""
        return not (self.paragraphs or self.table or self.bullets)

    def blocks(self) -> tuple[Block, ...]:
        """The section as blocks of a page."""
        texts = tuple(Text(text, indent=2, hanging=0) for text in self.paragraphs)
        rows = (table(self.table),) if self.table else ()
        return (
            Heading(self.title),
            *rows,
            *texts,
            *((Bullets(self.bullets),) * bool(self.bullets)),
        )


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The explanation of an answer, or of one thing on the node."""

    title: str
    blocks: tuple[Block, ...] = ()

    @classmethod
    def why(
        cls,
        title: str,
        claim: str,
        *,
        facts: Sequence[Fact] = (),
        impact: str = "",
        fix: Sequence[Fix] = (),
    ) -> Page:
        """The answer to "why": a claim, the facts behind it, what follows, and what to do."""
        blocks: list[Block] = [Text(claim, role=Role.STRONG)]
        if facts:
            blocks += [Blank(), Facts(tuple(facts))]
        if impact:
            blocks += [Blank(), Text(impact, label=IMPACT)]
        if fix:
            blocks += [Blank(), Steps(tuple(fix))]
        return cls(title=title, blocks=tuple(blocks))

    @property
    def claim(self) -> str:
        """Its first sentence; "" where it begins with something else."""
        first = self.blocks[0] if self.blocks else None
        return first.text if isinstance(first, Text) and isinstance(first.text, str) else ""

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All its facts."""
        return tuple(
            fact for block in self.blocks if isinstance(block, Facts) for fact in block.facts
        )

    @property
    def impact(self) -> str:
        """Its consequence; "" where it names none."""
        labelled = (block for block in self.blocks if isinstance(block, Text))
        return next((str(block.text) for block in labelled if block.label == IMPACT), "")

    @property
    def fix(self) -> tuple[Fix, ...]:
        """All its actions."""
        return tuple(
            step for block in self.blocks if isinstance(block, Steps) for step in block.fix
        )

    @property
    def fix_text(self) -> str:
        """All actions, each on its own line."""
        return "\n".join(line for fix in self.fix for line in fix.lines)

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands of the actions, to be copied one by one."""
        return tuple(fix.command for fix in self.fix if fix.command)


def table(rows: Iterable[Sequence[str]]) -> Table:
    """A table of rows, the first of which is the head."""
    head, *rest = [tuple(row) for row in rows]
    return Table(tuple(Column(title) for title in head), tuple(rest))
