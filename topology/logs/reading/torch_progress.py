"""How far each rank came, as PyTorch's watchdog says it when a collective does not end.

Lines of ProcessGroupNCCL.cpp, of which two name a rank's last work and one the work that hangs:
`.. Rank 0] failure detected by watchdog at work sequence id: 3 PG status: last enqueued work: 3,
last completed work: 2`, `.. Rank 1] .. Last enqueued NCCL work: 5, last completed NCCL work: 5`
and `[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE,
NumelIn=4, NumelOut=4, ..`.
"""

import re

from ..report.report import RankProgress
from ..report.text import plain

MAX_RANKS = 4096
MARKS = (b"nqueued ", b"WorkNCCL(")
_RANK = re.compile(
    rb"(?:\bPG (?:ID \d+ PG GUID |ID )?([^\s(\]]{1,60})[^\]]{0,80}?)?\b[Rr]ank (\d{1,7})\]"
)
"""Of `[PG ID 0 PG GUID 0(default_pg) Rank 1]`, before PyTorch 2.5 `[PG 1 Rank 0]` or `[Rank 0]`."""
_LAST = re.compile(
    rb"[Ll]ast enqueued (?:NCCL )?work: (-?\d{1,12}), last completed (?:NCCL )?work: (-?\d{1,12})"
)
_WORK = re.compile(
    rb"WorkNCCL\((?:SeqNum=|)(\d{1,12}), OpType=(\w{1,40})"
    rb"(?:, (?:TensorShape=\[[\d, ]*\]|NumelIn=(\d{1,15}), NumelOut=(\d{1,15})))?"
)


class TorchProgress:
    """Gathers the last word of each rank and group."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], RankProgress] = {}
        self._works: dict[int, RankProgress] = {}
        self.left_out = 0
        """Lines of further ranks."""

    @property
    def full(self) -> bool:
        """Whether lines of further ranks are only counted."""
        return max(len(self._last), len(self._works)) >= MAX_RANKS

    def read(self, line: bytes, number: int) -> None:
        """Read one line, which holds one of MARKS."""
        found = _RANK.findall(line)
        if not found:
            return
        group = plain(next((name for name, _ in found if name), b""), 20)
        rank = int(found[-1][1])
        last, work = _LAST.search(line), _WORK.search(line)
        if self.full:
            new = rank not in self._works if last is None else (group, rank) not in self._last
            self.left_out += new and (last or work) is not None
        elif last is not None:
            self._last.setdefault(
                (group, rank),
                RankProgress(
                    group=group,
                    rank=rank,
                    enqueued=int(last[1]),
                    completed=int(last[2]),
                    line=number,
                    text=plain(line[found_at(line) :].strip()),
                ),
            )
        elif work is not None:
            self._works.setdefault(
                rank,
                RankProgress(
                    group=group,
                    rank=rank,
                    work=int(work[1]),
                    operation=plain(work[2], 40),
                    elements=None if work[3] is None else (int(work[3]), int(work[4])),
                    line=number,
                    text=plain(line[found_at(line) :].strip()),
                ),
            )

    def built(self) -> tuple[RankProgress, ...]:
        """Everything that was said, by line."""
        found = [*self._last.values(), *self._works.values()]
        return tuple(sorted(found, key=lambda progress: progress.line))


def found_at(line: bytes) -> int:
    """Where the message begins, behind the marks of launchers and of PyTorch's logger."""
    place = line.find(b"ProcessGroupNCCL.cpp")
    end = line.find(b"] ", place) if place >= 0 else -1
    return end + 2 if end >= 0 else 0
