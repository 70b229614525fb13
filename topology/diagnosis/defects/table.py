"""The rows: a product, the versions with a defect, where it matters, what it does, what helps.

`what` and `workaround` are facts in our words; `sources` name where each was read.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from ...model.severity import BROKEN, NOTICE, SLOW, Severity, Sureness, Word
from ...model.versions import Product, numbers
from ...toml import tomllib

FILES = ("nccl.toml", "rccl.toml", "driver.toml", "network.toml", "framework.toml")
COMPARED = re.compile(r"(.+) (<|>=) ([\d.]+)")
"""What stands in `beside`: "NVIDIA driver < 570"."""


class Harm(Word):
    """What a defect does to a job, the worst first."""

    CORRUPTS = "corrupts data"
    HANGS = "hangs"
    CRASHES = "crashes"
    FAILS = "fails"
    SLOWS = "slows down"
    LEAKS = "leaks"
    MISLEADS = "misleads"

    @property
    def severity(self) -> Severity:
        """How harmful it is to the job in which it shows."""
        if self in (Harm.SLOWS, Harm.LEAKS):
            return SLOW
        return NOTICE if self is Harm.MISLEADS else BROKEN


class Trait(Word):
    """Something that is true of a node, or of what runs on it, or is not."""

    INFINIBAND = "InfiniBand"
    ROCE = "RoCE"
    EFA = "EFA"
    SOCKETS = "sockets"
    NVSWITCH = "NVSwitch"
    C2C = "NVLink-C2C"
    MNNVL = "multi-node NVLink"
    WITHOUT_NVLINK = "no NVLink"
    SEVERAL_GPUS = "several GPUs"
    MANY_GPUS = "more than two GPUs"
    SEVERAL_HOSTS = "several hosts"
    MIXED_GPUS = "several models of GPUs"
    CONTAINER = "a container"
    VIRTUAL = "a virtual machine"
    ARM = "an ARM CPU"
    AMD_CPU = "an AMD CPU"


class Defect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One defect of one product."""

    id: str
    product: Product
    harm: Harm
    what: str
    """What it does, without a full stop: "hangs on teardown"."""
    since: str = ""
    """The first version that is known to have it; "" where no source says."""
    fixed: tuple[str, ...] = ()
    """The first version without it, one for each branch (the number before the first dot)."""
    gpu: tuple[str, ...] = ()
    """Compute capabilities, one of which a GPU has: "sm90", "gfx942"."""
    model: tuple[str, ...] = ()
    """Words, one of which a GPU's name holds: "B200"."""
    needs: tuple[Trait, ...] = ()
    """All of these are true."""
    one_of: tuple[Trait, ...] = ()
    """One of these is true."""
    beside: tuple[str, ...] = ()
    """Versions of other products: all hold."""
    set: tuple[str, ...] = ()
    """Variables, one of which is set: "NAME=VALUE", or "NAME" for any value."""
    avoided: tuple[str, ...] = ()
    """Variables that avoid it, where they are set."""
    only: str = ""
    """What a program must do, which no node shows: then the version alone is never said."""
    says: tuple[str, ...] = ()
    """Patterns of lines that it prints."""
    shown: tuple[str, ...] = ()
    """Lines that `says` matches, as they are printed; a test reads them."""
    workaround: tuple[str, ...] = ()
    """Settings and commands that help without another version."""
    sources: tuple[str, ...]
    sureness: Sureness = Sureness.CERTAIN
    """certain: the maker says so; likely: users and maintainers agree; possible: one report."""

    @property
    def cure(self) -> str:
        """The version to move to, in words; "" where none is known."""
        return f"{self.product} {' or '.join(self.fixed)} or later" if self.fixed else ""

    def has(self, version: str) -> bool | None:
        """Whether a version has the defect; None where its number does not tell."""
        if self.product is Product.FIRMWARE and numbers(version)[:1] != numbers(self.since)[:1]:
            return False  # it is of another chip
        if self.since and (late := reaches(version, (self.since,))) is not True:
            return late
        fixed = reaches(version, self.fixed)
        return None if fixed is None else not fixed

    def matches(self, text: str) -> bool:
        """Whether a line is one that it prints."""
        return any(re.search(pattern, text) for pattern in self.says)


@lru_cache(maxsize=4096)
def reaches(version: str, firsts: tuple[str, ...]) -> bool | None:
    """Whether a version is one of these or a later one, each of a branch of its own.

    A branch without an entry is later than all smaller ones; between two that have one it is not
    known. "2.19" does not tell whether it is 2.19.4.
    """
    own = numbers(version)
    every = sorted(numbers(first) for first in firsts)
    if not own or not every:
        return None if not own else False
    for first in every:
        if first[0] == own[0]:
            return None if own != first and first[: len(own)] == own else own >= first
    if every[0] < own < every[-1]:
        return None
    return own > every[-1]


@cache
def defects() -> tuple[Defect, ...]:
    """Every row, in the order of the files."""
    texts = [Path(__file__).with_name(name).read_text(encoding="utf-8") for name in FILES]
    rows = [row for text in texts for row in tomllib.loads(text).get("defect", ())]
    return tuple(msgspec.convert(row, Defect) for row in rows)
