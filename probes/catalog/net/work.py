"""What one rank does in one task: known data once, then samples by the clock of its device."""

from typing import Any, Protocol

from ...crew.accelerator import Accelerator, Call, RankGroup

NUMBER_BYTES = 4
_WARM = 2
"""Samples before the first that counts: links and clocks are slow at first."""
_TURNS = 20
"""Round trips in a sample."""
_PART_NUMBERS = 4
"""A part of an all-to-all is a multiple of so many numbers, as in nccl-tests."""


class Work(Protocol):
    """One rank's side of a task."""

    def tried(self) -> "dict[str, Any]":
        """Do it with known data: seconds of a second call, wrong bytes, compared bytes."""

    def samples(self, samples: int, calls: int) -> "list[float]":
        """Seconds of one call, by sample; empty for a rank whose time does not count."""


class Transfer:
    """Send to another rank, or receive from it; the receiver's time counts."""

    def __init__(
        self, here: Accelerator, group: RankGroup, data: Any, peer: int, rail: int, *, sends: bool
    ) -> None:
        """`data`: numbers to send or to receive. `peer`: the other rank of the group."""
        self.here = here
        self.group = group
        self.peer = peer
        self.sends = sends
        self._data = data
        self._seed = 1000 + 97 * rail
        self._move = self.one_way(data, sends=sends)

    def one_way(self, data: Any, *, sends: bool) -> Call:
        """A call that sends these numbers or receives them."""
        ends = [(data, self.peer)]
        return self.group.exchange(ends, []) if sends else self.group.exchange([], ends)

    def tried(self) -> "dict[str, Any]":
        """See Work."""
        here, data = self.here, self._data
        if self.sends:
            here.fill(data, self._seed)
        else:
            here.clear(data)
        self._move()
        here.wait()
        wrong = 0 if self.sends else here.wrong_bytes(data, (self._seed,))
        checked = 0 if self.sends else NUMBER_BYTES * data.numel()
        return {"once": here.seconds(self._move, 1), "wrong": wrong, "checked": checked}

    def samples(self, samples: int, calls: int) -> "list[float]":
        """See Work."""
        found = []
        for _ in range(_WARM * (calls > 1) + samples):
            self._move()  # both count from its end, so it does not matter who arrived first
            found.append(self.here.seconds(self._move, calls))
        return [] if self.sends else found[-samples:]


def ping_pong(transfer: Transfer, data: Any, samples: int) -> "list[float]":
    """Seconds of half a round trip of these numbers, by sample."""
    there = transfer.one_way(data, sends=transfer.sends)
    back = transfer.one_way(data, sends=not transfer.sends)

    def turn() -> None:
        there()
        back()

    turn()
    turns = [turn] * _TURNS
    return [transfer.here.in_a_row(turns)[0] / 2 for _ in range(samples)]


class Collective:
    """All-reduce in place, or all-to-all, by all ranks of the group."""

    def __init__(
        self,
        here: Accelerator,
        group: RankGroup,
        send: Any,
        receive: Any,
        tiny: Any,
        rank: int,
        ranks: int,
        numbers: int,
        summed: bool,
    ) -> None:
        """`summed`: an all-reduce. `rank`: in the group. `numbers`: of all parts together."""
        self._here = here
        self._rank = rank
        self._ranks = ranks
        self._summed = summed
        part = numbers // ranks // _PART_NUMBERS * _PART_NUMBERS
        count = numbers if summed else part * ranks
        self._send, self._receive = send[:count], receive[:count]
        self._call = (
            group.all_reduce(self._receive)
            if summed
            else group.all_to_all(self._send, self._receive)
        )
        self._align = group.all_reduce(tiny[:1])

    def tried(self) -> "dict[str, Any]":
        """See Work."""
        here, result = self._here, self._receive
        here.clear(result)
        here.fill(result if self._summed else self._send, self._rank)
        self._call()
        here.wait()
        if self._summed:
            wrong = here.wrong_bytes(result, range(self._ranks))
        else:
            part = result.numel() // self._ranks
            wrong = sum(
                here.wrong_bytes(result[rank * part : (rank + 1) * part], (rank,),
                                 self._rank * part)
                for rank in range(self._ranks)
            )  # fmt: skip
        once = here.seconds(self._call, 1)
        return {"once": once, "wrong": wrong, "checked": NUMBER_BYTES * result.numel()}

    def samples(self, samples: int, calls: int) -> "list[float]":
        """See Work; each sample begins with a small all-reduce, which aligns the ranks."""
        found = []
        for _ in range(_WARM * (calls > 1) + samples):
            self._align()
            found.append(self._here.in_a_row([self._call] * calls)[0])
        return found[-samples:]
