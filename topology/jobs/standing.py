"""Where a running job stands: records of what is known of it and from where."""

from __future__ import annotations

import msgspec

from .activity import Activity
from .grouping import Job
from .ras.answer import Process

PROC, RAS, RECORDER, DRIVER = "/proc", "RAS", "flight recorder", "driver"
"""Where a fact is from."""
HANGS, WAITS, RUNS, FAULTY, UNTOLD = "hangs", "waits", "runs", "faulty", "unknown"
"""HANGS: ranks wait for a rank that does not come, by proof (sentence.py:hangs); WAITS: ranks wait
for one that may be only slow; RUNS: collectives were launched between two readings; FAULTY:
something is wrong, and whether it hangs is not known; UNTOLD: nothing proves any of these."""
ASLEEP_SECONDS = 120.0
"""From here on one uninterruptible sleep is no slow file system: the kernel itself complains of it
(hung_task_timeout_secs)."""
LONG_SECONDS = 600.0
"""From here on no progress is a hang whatever the rank does that is behind: PyTorch gives up a
collective of NCCL after so long by default. An evaluation or a checkpoint of one rank takes
minutes, and looks the same."""
BAD, NOTE = "bad", "note"
GONE = "has ended: no such process"
ZOMBIE = "has ended and waits for its parent (Z)"


class JobFact(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is known."""

    text: str
    origin: str
    """PROC, RAS, RECORDER or DRIVER."""
    weight: str = NOTE
    """BAD where it explains a hang or costs much by itself."""
    ranks: tuple[int, ...] = ()
    brief: str = ""
    """The same in a few words, for the sentence; "" where it has no place there."""


class RankStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One rank."""

    rank: int | None
    pid: int | None
    """On this machine."""
    elsewhere: Process | None = None
    """Its process as RAS names it, where that is none of this machine that is known."""
    gpus: tuple[str, ...] = ()
    """PCI addresses."""
    label: str = ""
    """ "rank 2 (pid 4711, GPU2)"."""
    trouble: str | None = None
    """What is wrong with it: "is stopped (T)"."""
    origin: str | None = None
    """Where the trouble is known from."""
    weak: bool = False
    """Whether the trouble names no cause: it is behind, left, or says that another rank failed."""
    short: bool = False
    """Whether the trouble lasted for less than ASLEEP_SECONDS so far, and may be over soon."""
    follows: bool = False
    """Whether it only says that another rank failed."""
    left: bool = False
    """Whether it only gave up a communicator, or ended without a rank: neither need hold up
    anybody."""
    place: str | None = None
    """Its last collective: "all-reduce 1042"."""
    place_origin: str | None = None
    activity: Activity | None = None
    busy_percent: float | None = None
    """Utilisation of its GPU as the driver says; the mean over several."""
    busiest_percent: float | None = None
    """The same of the busiest of them; None unless it is known of all."""

    @property
    def who(self) -> Process | None:
        """Its process, apart from all others."""
        return self.elsewhere if self.pid is None else (None, self.pid)


class JobStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One job: a sentence, and what proves it."""

    name: str
    """As the list of jobs has it: "torchrun run-7"."""
    program: str
    """ "train.py", else the name of its processes."""
    sentence: str
    verdict: str
    """HANGS, WAITS, RUNS, FAULTY or UNTOLD."""
    ranks: tuple[RankStanding, ...] = ()
    facts: tuple[JobFact, ...] = ()
    steps: tuple[str, ...] = ()
    """Commands that would tell more; gputop never starts them."""
    unknown: tuple[str, ...] = ()
    """What is not known, and what would tell."""
    job: Job | None = None
    """None for a job that RAS alone knows."""
    seconds: float | None = None
    """Between the two readings."""
    quiet_seconds: float | None = None
    """For how long RAS saw nothing launched in any of its communicators; None where not known."""
