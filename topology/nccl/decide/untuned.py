"""Decisions before the tuning, kept for predictions that would decide the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as field_of
from typing import NamedTuple

from ...model.snapshot import NodeSnapshot
from ..nodes import PathType
from ..prediction import DecisionStep, DomainView, Graphs, PairDecision
from ..settings import Settings
from ..system.gdr import GdrDistance
from ..system.networks import Network
from ..versions import Version
from .labels import SendUse
from .timing import Hardware

KEPT = 2


@dataclass(frozen=True)
class TrackedSettings(Settings):
    """Settings that note which variables were asked for."""

    asked: dict[str, str | None] = field_of(default_factory=dict)
    """Name -> value; None where the variable is not set."""

    def text(self, name: str) -> str | None:
        """The value as written, noted."""
        self.asked[name] = self.values.get(name)
        return super().text(name)

    def integer(self, name: str, default: int) -> int:
        """The value as a number, noted."""
        self.asked[name] = self.values.get(name)
        return super().integer(name, default)


class Reach(NamedTuple):
    """How far P2P may go, and all paths between GPUs that were compared with it."""

    limit: PathType
    default: PathType
    asked: frozenset[PathType]
    near: Mapping[DecisionStep, PathType]
    """The answers of the comparison, with the path that each is about."""
    vendor: str
    """Of the CPU."""


@dataclass(frozen=True, kw_only=True)
class UntunedDecision:
    """Pairs, views and graphs of one communicator."""

    version: Version
    library: str
    """As it was named, "nccl-2.28.9"."""
    assumptions: tuple[str, ...]
    pairs: tuple[PairDecision, ...]
    views: tuple[DomainView, ...]
    all_graphs: tuple[Graphs, ...]
    """Of each view."""
    graphs: Graphs
    """Those of rank 0's view."""
    hardware: Hardware
    ranks: int
    """On one host."""
    failure: str | None
    reach: Reach | None = None
    """What P2P levels were compared with; None where that does not tell whether others decide the
    same."""
    gdr: GdrDistance | None = None
    """What levels of GPUDirect RDMA were compared with, or None as above."""
    network: Network
    nic_assumed: bool = False
    """The source names no NIC, and a socket interface is taken for granted."""
    sends: tuple[SendUse, ...] = ()
    """How GPUs of several hosts send to each other; empty where all hosts are one."""


Key = tuple[str | Version | None, tuple[str, ...] | None, int]
"""Library, GPUs and hosts that were asked for."""
_kept: list[tuple[NodeSnapshot, Key, Mapping[str, str | None], UntunedDecision]] = []
"""The last ones, with the variables that were asked for on the way."""


def known_untuned(snapshot: NodeSnapshot, key: Key, settings: Settings) -> UntunedDecision | None:
    """The decision for the same snapshot, if all variables asked for have the values of then."""
    for node, what, asked, untuned in tuple(_kept):
        same = node is snapshot and what == key
        if same and all(settings.values.get(name) == value for name, value in asked.items()):
            return untuned
    return None


def keep_untuned(
    snapshot: NodeSnapshot, key: Key, asked: Mapping[str, str | None], untuned: UntunedDecision
) -> None:
    """Keep a decision in place of the oldest."""
    _kept[:] = [(snapshot, key, asked, untuned), *_kept[: KEPT - 1]]
