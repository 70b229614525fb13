"""What is wrong on which of the sixteen nodes, and what has to be said of it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

NODES = tuple(f"g{number}" for number in range(1, 17))
LIST = "g[1-16]"
DEAD, STUCK, HANGS = "dead", "stuck", "hangs"
SLOW, BROKEN, CLOCK = "slow", "broken", "clock"
KILLED, CUT = "killed", "cut"
OTHER, OLD, FUTURE = "other version", "old", "future"
TWIN, TWINNED = "twin", "twinned"


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a node is not like the others."""

    means: str
    """What happens on the node."""
    named: tuple[str, ...]
    """Ids of findings that have to name the node."""


KINDS: Mapping[str, Kind] = {
    DEAD: Kind(means="nothing answers there, which nobody knows yet", named=("missing",)),
    STUCK: Kind(means="the program never gets as far as to start", named=("missing",)),
    HANGS: Kind(means="a call of the driver never returns", named=("driver-not-answering",)),
    SLOW: Kind(means="one GPU lacks two NVLinks", named=("nvlink-down",)),
    BROKEN: Kind(means="the driver has lost a GPU", named=("gpu-lost",)),
    CLOCK: Kind(means="its clock is ten minutes ahead", named=("clock-off",)),
    KILLED: Kind(means="it dies while it writes its file", named=("missing",)),
    CUT: Kind(means="half of its file arrives", named=("missing", "file-cut-off")),
    OTHER: Kind(means="another version of gputop wrote its file", named=("mixed-gputop",)),
    OLD: Kind(means="a gputop without fleets wrote its file", named=("mixed-gputop",)),
    FUTURE: Kind(means="its file has a schema of tomorrow", named=("missing", "file-newer")),
    TWIN: Kind(means="it takes itself for the node before it", named=("missing",)),
    TWINNED: Kind(means="the next node takes itself for this one", named=("two-machines",)),
}


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A run of an engine over all nodes."""

    name: str
    kinds: Mapping[str, str] = {}
    """Node -> key of KINDS; the others are healthy."""

    def of(self, kind: str) -> tuple[str, ...]:
        """The nodes of a kind."""
        return tuple(node for node, found in self.kinds.items() if found == kind)


def _together(*cases: Case) -> Case:
    return Case(name="all at once", kinds={k: v for case in cases for k, v in case.kinds.items()})


_SINGLE = (
    Case(name="one dead", kinds={"g3": DEAD}),
    Case(name="one hangs", kinds={"g7": HANGS}),
    Case(name="one never starts", kinds={"g8": STUCK}),
    Case(name="one slow, one broken", kinds={"g5": SLOW, "g9": BROKEN}),
    Case(name="half a file", kinds={"g10": KILLED, "g11": CUT}),
    Case(name="other versions", kinds={"g12": OTHER, "g2": OLD, "g4": FUTURE}),
    Case(name="two of one name", kinds={"g13": TWINNED, "g14": TWIN}),
    Case(name="clock 10 minutes off", kinds={"g15": CLOCK}),
)
CASES = (Case(name="all fine"), *_SINGLE, _together(*_SINGLE))
