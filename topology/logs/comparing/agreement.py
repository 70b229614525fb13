"""The result of comparing a log with a prediction."""

import msgspec

from ...model.severity import Word


class PairAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """The transport of one ordered pair of ranks, by the log's numbering."""

    src: int
    dst: int
    src_bus_id: str
    dst_bus_id: str
    logged: tuple[str, ...] = ()
    """Labels in the log; empty when it shows none, for example between ranks that never talked."""
    predicted: tuple[str, ...] = ()
    agrees: bool | None = None
    """None where the log shows nothing."""
    line: int | None = None


class LogTopic(Word):
    """What both a log and a prediction say."""

    PATH = "path"
    NET = "net"
    GRAPH = "graph"
    RINGS = "rings"
    TREES = "trees"
    CHANNELS = "channels"
    NODES = "nodes"
    TUNING = "tuning"
    CHOICE = "choice"


class ComparedItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that both the log and the prediction have."""

    topic: LogTopic
    subject: str
    """"path 0 to 1", "ring", "AllReduce of 4 MiB"."""
    logged: str
    predicted: str
    agrees: bool
    line: int | None = None
    """The line of the log that says it."""


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """A log and a prediction."""

    comparable: bool = True
    why_not: str | None = None
    """Why there is no comparison."""
    library: str = ""
    """Whose rules were followed: "nccl-2.28.9"."""
    ranks: dict[str, int] = {}
    """Rank in the log -> rank in the prediction."""
    outside: tuple[int, ...] = ()
    """Ranks outside the prediction: those on other hosts or on GPUs that it does not know."""
    pairs: tuple[PairAgreement, ...] = ()
    items: tuple[ComparedItem, ...] = ()
    skipped: tuple[str, ...] = ()
    """What could not be compared, and why."""
    reasons: tuple[str, ...] = ()
    """Why the two may differ; empty when they agree."""

    @property
    def agree(self) -> int:
        """How many things agree."""
        pairs = sum(pair.agrees is True for pair in self.pairs)
        return pairs + sum(item.agrees for item in self.items)

    @property
    def differing(self) -> tuple[PairAgreement | ComparedItem, ...]:
        """What differs."""
        pairs = [pair for pair in self.pairs if pair.agrees is False]
        return (*pairs, *(item for item in self.items if not item.agrees))

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        if not self.comparable:
            return f"not compared: {self.why_not}"
        total = self.agree + len(self.differing)
        if not total:
            return "the log shows nothing that a prediction could be compared with"
        if not self.differing:
            compared = "the one thing" if total == 1 else f"all {total} things"
            return f"the prediction agrees with the log in {compared} compared"
        return f"{len(self.differing)} of {total} things differ from the prediction"
