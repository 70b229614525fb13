"""Words with one meaning, one sign, one colour and one order, wherever they are shown.

This is the only table of signs. A member is a string too: its value is what JSON holds.
"""

from __future__ import annotations

from enum import Enum
from typing import Any


class Word(str, Enum):
    """A closed word, which is a string too: JSON, comparisons and texts hold its value."""

    __str__ = str.__str__

    def __format__(self, format_spec: str) -> str:
        """Format the value; Python 3.12 would give the name of the member."""
        return str.__format__(self, format_spec)


class OpenWord(Word):
    """A closed word that files and newer versions may add to: an unknown one is kept as it is."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        if not isinstance(value, str):
            return None
        member = str.__new__(cls, value)
        member._name_ = member._value_ = value
        return member


class Mark(Word):
    """A closed word and how it is shown. Members stand in the order of harm, the worst first."""

    sign: str
    """One character, so that nothing is said by colour alone."""
    ink: str
    """Name of the ink of a theme."""
    word: str
    """The word for people: "cannot tell" for cannot-tell."""
    exit_code: int
    """Exit code of a command whose worst answer this is."""
    order: int
    """Its place among the members: 0 for the first, the worst."""

    @property
    def shown(self) -> tuple[str, str, str]:
        """Sign, ink and word."""
        return self.sign, self.ink, self.word

    def __new__(
        cls, value: str, sign: str = "", ink: str = "", word: str = "", exit_code: int = 0
    ) -> Any:
        """Make a member of its value and of what is shown."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.sign, member.ink = sign, ink
        member.word, member.exit_code = word or value, exit_code
        member.order = len(cls.__members__)
        return member


class Severity(Mark):
    """How harmful a finding is.

    broken: a job hangs, crashes or computes wrong; slow: it takes longer than this hardware needs;
    cannot-tell: something that decides could not be examined; notice: worth knowing, harmless by
    itself; by-design: looks odd and is right.
    """

    BROKEN = "broken", "✗", "bad", "broken", 2
    SLOW = "slow", "▼", "warn", "slow", 1
    CANNOT_TELL = "cannot-tell", "?", "warn", "cannot tell", 3
    NOTICE = "notice", "•", "muted"
    BY_DESIGN = "by-design", "○", "muted", "by design"

    @property
    def counts(self) -> bool:
        """Whether a finding of it decides the verdict, and marks its device."""
        return self.order <= Severity.CANNOT_TELL.order


class Verdict(Mark):
    """The answer about a node or a fleet, from the severities of its findings."""

    BROKEN = "broken", "✗", "bad", "broken", 2
    SLOW = "slow", "▼", "warn", "slow", 1
    CANNOT_TELL = "cannot tell", "?", "warn", "cannot tell", 3
    HEALTHY = "healthy", "✓", "good"

    @classmethod
    def of(cls, severities: Any) -> Verdict:
        """The verdict that the worst of some severities gives; healthy where none counts."""
        worst = min(severities, key=lambda severity: severity.order, default=Severity.NOTICE)
        return _VERDICT_OF.get(worst, cls.HEALTHY)


_VERDICT_OF = {
    Severity.BROKEN: Verdict.BROKEN,
    Severity.SLOW: Verdict.SLOW,
    Severity.CANNOT_TELL: Verdict.CANNOT_TELL,
}


class NodeState(Mark):
    """What becomes of one node of a fleet.

    missing: it was asked for and wrote nothing; odd: it differs from equal nodes in a way that
    costs a job something.
    """

    BROKEN = "broken", "✗", "bad"
    MISSING = "missing", "□", "bad"
    SLOW = "slow", "▼", "warn"
    ODD = "odd", "▽", "warn"
    CANNOT_TELL = "cannot-tell", "?", "warn", "cannot tell"
    HEALTHY = "healthy", "·", "good"


class JobVerdict(Mark):
    """Where a running job stands.

    hangs: ranks wait for a rank that does not come, by proof; faulty: something is wrong, and
    whether it hangs is not known; waits: ranks wait for one that may be only slow; slow: it goes
    on, and ranks wait for one that comes last nearly always; runs: collectives were launched
    between two readings; unknown: nothing proves any of these.
    """

    HANGS = "hangs", "✗", "bad", "hangs", 2
    FAULTY = "faulty", "▼", "warn", "faulty", 1
    WAITS = "waits", "▼", "warn", "waits", 1
    SLOW = "slow", "▼", "warn", "slow", 1
    UNKNOWN = "unknown", "?", "warn", "unknown", 3
    RUNS = "runs", "✓", "good"


class FigureVerdict(Mark):
    """How a figure compares with what is healthy."""

    LOW = "low", "▼", "bad"
    HIGH = "high", "▲", "warn"
    HEALTHY = "healthy", "✓", "good"
    NO_REFERENCE = "no reference", "·", "muted"


class FigureBasis(OpenWord):
    """What a figure to expect, or a pair of figures, rests on.

    typical: published, what to expect; best: published as the best run; floor: a published pass
    line; estimate: carried over from another model or counted from the link, which gives no
    verdict; predicted: by the library's own model; measured and simulated: a probe's figure here.
    """

    TYPICAL = "typical"
    BEST = "best"
    FLOOR = "floor"
    ESTIMATE = "estimate"
    PREDICTED = "predicted"
    MEASURED = "measured"
    SIMULATED = "simulated"
    UNSAID = ""


class RungState(Mark):
    """The answer to one of the questions about P2P of a pair.

    less: yes, with fewer lanes or links than there could be; assumed: yes, if what nobody asked
    holds; open: not asked, or not known.
    """

    NO = "no", "✗", "bad"
    LESS = "less", "▼", "warn"
    OPEN = "open", "–", "muted"
    ASSUMED = "assumed", "~", "muted"
    YES = "yes", "✓", "good"


class FlagStatus(Mark):
    """What a variable does in an environment."""

    FATAL = "fatal", "✗", "bad", "fails"
    UNKNOWN = "unknown", "?", "bad", "unknown name"
    IGNORED = "ignored", "!", "warn"
    NOTHING = "nothing", "!", "warn", "no effect here"
    CHANGES = "changes", "*", "strong", "has an effect"
    NOT_PREDICTED = "not predicted", "*", "muted", "set"


class Accord(Mark):
    """Whether what a log says agrees with the prediction.

    asks: the library's own diagnostics ask to look; open: not compared, or not known.
    """

    DIFFERS = "differs", "✗", "bad"
    ASKS = "asks", "!", "warn"
    OPEN = "open", "·", "muted"
    AGREES = "agrees", "✓", "good"

    @classmethod
    def of(cls, agrees: bool | None) -> Accord:
        """The word for yes, no or not known."""
        return cls.OPEN if agrees is None else cls.AGREES if agrees else cls.DIFFERS


class RunState(Mark):
    """How far a run came, by its last lines.

    silent: ranks are ready, and nothing follows; starting: some ranks never became ready; the text
    may also end too early in both.
    """

    ABORTED = "aborted", "✗", "bad"
    FAILED = "failed", "✗", "bad"
    STARTING = "starting", "?", "warn"
    SILENT = "silent", "?", "warn"
    RUNS = "runs", "✓", "good"
    FINISHED = "finished", "✓", "good"
    UNKNOWN = "unknown", "·", "muted"


class Sureness(Word):
    """How sure a cause is.

    certain: the lines say it; likely: it is their usual cause; possible: it is one of several.
    """

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"
    UNSAID = ""


class Origin(Word):
    """Who found something."""

    RULE = "rule"
    LOG = "log"
    FLEET = "fleet"
    JOB = "job"
    PROBE = "probe"


BROKEN, SLOW, NOTICE = Severity.BROKEN, Severity.SLOW, Severity.NOTICE
BY_DESIGN, CANNOT_TELL = Severity.BY_DESIGN, Severity.CANNOT_TELL
SILENCED_SIGN = "–"
"""Sign of a finding that the user or the site has silenced."""
