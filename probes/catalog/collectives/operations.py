"""The measured collectives: what goes where, which bytes count, and what must arrive.

Sizes and bandwidths follow nccl-tests (its `src/*.cu`, GetCollByteCount and GetBw). For all-gather,
reduce-scatter and all-to-all the size S covers the parts of all ranks, and each part is a multiple
of 16 bytes; for the others S is the buffer of one rank. algbw = S / time, busbw = algbw x factor.

"In place" also follows nccl-tests: all-gather sends from its own part of the result, and
reduce-scatter receives into its own part of the input. All-to-all and send/receive in place are
left out because their data is undefined, so nccl-tests prints no verdict for them. All-reduce and
broadcast out of place are left out because torch.distributed, and so training, has no call for
them.
"""

from dataclasses import dataclass
from typing import Any

from ...crew.accelerator import Call, RankGroup
from ...protocol.quantity import RANKS, Quantity

FLOAT_BYTES = 4
_PART_NUMBERS = 16 // FLOAT_BYTES
OUT_OF_PLACE, IN_PLACE = "out of place", "in place"
MISSING_FORMS = (
    "All-reduce and broadcast are measured in place only, the one form that torch.distributed has; "
    "all-to-all and send/receive out of place only, as in place they give no defined data."
)
_ROOT = 0


@dataclass(frozen=True)
class Arrival:
    """A part of a result: it must be the sum of the patterns of these ranks."""

    data: Any
    ranks: "tuple[int, ...]"
    start: int
    """Position in the ranks' own data."""


class Operation:
    """One collective on numbers of float32."""

    name = ""
    """Its name in the keys of quantities."""
    title = ""
    """Its name for people."""
    forms: "tuple[str, ...]" = ()
    """The form that training uses comes first."""
    counted = ""
    main_variant: "str | None" = None
    in_parts = False
    """Whether S covers the parts of all ranks."""

    @property
    def quantity(self) -> Quantity:
        """Its bus bandwidth, the quantity of its figures."""
        return Quantity(
            f"{self.name}_busbw",
            self.name.replace("_", " "),
            per=RANKS,
            counted=self.counted,
            over_sizes=True,
            heading="bus bandwidth",
            main_variant=self.main_variant,
        )

    def factor(self, ranks: int) -> float:
        """Ratio of bus bandwidth to algorithm bandwidth."""
        return 1.0

    def numbers(self, size_bytes: int, ranks: int) -> int:
        """S as a count of numbers, for a size in bytes."""
        count = size_bytes // FLOAT_BYTES
        if not self.in_parts:
            return count
        return count // ranks // _PART_NUMBERS * _PART_NUMBERS * ranks

    def places(
        self, send: Any, receive: Any, rank: int, ranks: int, form: str
    ) -> "tuple[Any, Any]":
        """The input and output of this rank, inside two buffers of size S."""
        return send, receive

    def call(self, group: RankGroup, given: Any, result: Any, rank: int, ranks: int) -> Call:
        """The call."""
        raise NotImplementedError

    def arrivals(self, result: Any, rank: int, ranks: int) -> "list[Arrival]":
        """The parts that the result must have when each rank sends its own pattern."""
        raise NotImplementedError


class _AllReduce(Operation):
    name, title, forms = "all_reduce", "all-reduce", (IN_PLACE,)
    counted = "bytes of one rank's buffer x 2(n-1)/n"
    main_variant = IN_PLACE

    def factor(self, ranks: int) -> float:
        return 2 * (ranks - 1) / ranks

    def places(
        self, send: Any, receive: Any, rank: int, ranks: int, form: str
    ) -> "tuple[Any, Any]":
        return receive, receive

    def call(self, group: RankGroup, given: Any, result: Any, rank: int, ranks: int) -> Call:
        return group.all_reduce(result)

    def arrivals(self, result: Any, rank: int, ranks: int) -> "list[Arrival]":
        return [Arrival(result, tuple(range(ranks)), 0)]


class _InParts(Operation):
    forms: "tuple[str, ...]" = (OUT_OF_PLACE, IN_PLACE)
    counted = "bytes of all ranks' parts together x (n-1)/n"
    in_parts = True

    def factor(self, ranks: int) -> float:
        return (ranks - 1) / ranks


class _AllGather(_InParts):
    name, title = "all_gather", "all-gather"

    def places(
        self, send: Any, receive: Any, rank: int, ranks: int, form: str
    ) -> "tuple[Any, Any]":
        part = receive.numel() // ranks
        own = receive[rank * part : (rank + 1) * part]
        return (own if form == IN_PLACE else send[:part]), receive

    def call(self, group: RankGroup, given: Any, result: Any, rank: int, ranks: int) -> Call:
        return group.all_gather(given, result)

    def arrivals(self, result: Any, rank: int, ranks: int) -> "list[Arrival]":
        part = result.numel() // ranks
        return [Arrival(result[r * part : (r + 1) * part], (r,), 0) for r in range(ranks)]


class _ReduceScatter(_InParts):
    name, title = "reduce_scatter", "reduce-scatter"

    def places(
        self, send: Any, receive: Any, rank: int, ranks: int, form: str
    ) -> "tuple[Any, Any]":
        part = receive.numel() // ranks
        if form == IN_PLACE:
            return receive, receive[rank * part : (rank + 1) * part]
        return send, receive[:part]

    def call(self, group: RankGroup, given: Any, result: Any, rank: int, ranks: int) -> Call:
        return group.reduce_scatter(given, result)

    def arrivals(self, result: Any, rank: int, ranks: int) -> "list[Arrival]":
        return [Arrival(result, tuple(range(ranks)), rank * result.numel())]


class _AllToAll(_InParts):
    name, title, forms = "all_to_all", "all-to-all", (OUT_OF_PLACE,)

    def call(self, group: RankGroup, given: Any, result: Any, rank: int, ranks: int) -> Call:
        return group.all_to_all(given, result)

    def arrivals(self, result: Any, rank: int, ranks: int) -> "list[Arrival]":
        part = result.numel() // ranks
        return [Arrival(result[r * part : (r + 1) * part], (r,), rank * part) for r in range(ranks)]


class _Broadcast(Operation):
    name, title, forms = "broadcast", "broadcast", (IN_PLACE,)
    counted = "bytes of one rank's buffer"

    def places(
        self, send: Any, receive: Any, rank: int, ranks: int, form: str
    ) -> "tuple[Any, Any]":
        return receive, receive

    def call(self, group: RankGroup, given: Any, result: Any, rank: int, ranks: int) -> Call:
        return group.broadcast(result, _ROOT)

    def arrivals(self, result: Any, rank: int, ranks: int) -> "list[Arrival]":
        return [Arrival(result, (_ROOT,), 0)]


class _SendReceive(Operation):
    """All ranks at once send to the next rank and receive from the one before."""

    name, title, forms = "send_receive", "send/receive", (OUT_OF_PLACE,)
    counted = "bytes that each rank sends"

    def call(self, group: RankGroup, given: Any, result: Any, rank: int, ranks: int) -> Call:
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        return group.exchange([(given, after)], [(result, before)])

    def arrivals(self, result: Any, rank: int, ranks: int) -> "list[Arrival]":
        return [Arrival(result, ((rank - 1) % ranks,), 0)]


OPERATIONS: "tuple[Operation, ...]" = (
    _AllReduce(), _AllGather(), _ReduceScatter(), _AllToAll(), _Broadcast(), _SendReceive(),
)  # fmt: skip
BY_NAME = {operation.name: operation for operation in OPERATIONS}
