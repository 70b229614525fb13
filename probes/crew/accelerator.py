"""What a rank needs of its device and of the communication library.

Two implementations: torch with its NCCL or RCCL (gloo in the self-test), and the driver with the
library alone. Both run the same steps with the same sizes, repeats, events and checks.
"""

from collections.abc import Sequence
from typing import Any, Callable, Optional, Protocol

from ..protocol.status import DeviceKind

Call = Callable[[], object]
"""Queues one operation; it may return before the device has done it."""


class Accelerator(Protocol):
    """One device. Numbers are float32 in its memory: they have `numel()` and can be sliced."""

    @property
    def kind(self) -> DeviceKind:
        """What it is."""

    @property
    def library(self) -> str:
        """The name of the communication library in messages."""

    def wait(self) -> None:
        """Wait until all queued work is done."""

    def numbers(self, count: int) -> Any:
        """So many numbers, all zero; they live as long as the rank."""

    def clear(self, numbers: Any) -> None:
        """Make all of them zero."""

    def copy(self, to: Any, source: Any) -> None:
        """Queue a copy."""

    def fill(self, numbers: Any, seed: int) -> None:
        """Write the pattern of a seed: integers below 65536, of which up to 256 add up exactly."""

    def wrong_bytes(self, numbers: Any, seeds: Sequence[int], start: int = 0) -> int:
        """Bytes of the numbers that differ from the sum of these patterns from `start` on.

        `seeds`: consecutive ones.
        """

    def seconds(self, work: Call, times: int) -> float:
        """Seconds of one `work` in a row of calls, by device events; on a CPU by its clock."""

    def in_a_row(self, calls: Sequence[Call]) -> "tuple[float, float]":
        """Seconds of one call in a row, and seconds of queueing one call."""

    def held(self, lead: Call, calls: Sequence[Call], seconds: float) -> Optional[float]:
        """Seconds of one call when all calls are queued while the device is held.

        `lead` runs first, untimed. `seconds`: how long the hold may take. None if it ended before
        all were queued, and where nothing can be held.
        """


class Topics(Protocol):
    """What ranks tell each other: texts by topic; a topic is set once."""

    def set(self, topic: str, text: str) -> None:
        """Tell all ranks."""

    def get(self, topic: str) -> str:
        """Wait until some rank has told it."""


class NodesTopics(Topics, Protocol):
    """The same between the ranks of several nodes."""

    def torch_store(self, ranks: int) -> Any:
        """A store of torch.distributed in which so many ranks meet."""


class RankGroup(Protocol):
    """The ranks that communicate. Everything but these three prepares a call."""

    def across(self, topics: NodesTopics, rank: int, ranks: int) -> "RankGroup":
        """The same device as one rank of a group over several nodes, not opened."""

    def part(self, name: str, members: Sequence[int]) -> "Optional[RankGroup]":
        """Some ranks of an opened group, not opened; None for the others. All ranks call it."""

    def open(self, *, eager: bool) -> None:
        """Join; `eager`: with the communicator at once, where the library can choose."""

    def all_reduce(self, data: Any) -> Call:
        """Add up in place."""

    def all_gather(self, given: Any, result: Any) -> Call:
        """Gather the parts of all ranks."""

    def reduce_scatter(self, given: Any, result: Any) -> Call:
        """Add up, each rank its part."""

    def all_to_all(self, given: Any, result: Any) -> Call:
        """Send each rank its part."""

    def broadcast(self, data: Any, root: int) -> Call:
        """Send from one rank to all."""

    def exchange(
        self, sends: "Sequence[tuple[Any, int]]", receives: "Sequence[tuple[Any, int]]"
    ) -> Call:
        """Send and receive at once: numbers, and the other rank."""
