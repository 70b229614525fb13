"""The input of RCCL's tuning, and its tables (graph/tuning.cc)."""

from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from ...model.severity import Word
from ...toml import tomllib
from ..prediction import SearchGraph
from ..versions import VersionEntry, load_table

FileRange = tuple[int, int, str]
"""Sizes that a file of MSCCL is for: first and last byte, protocol."""
FILE = Path(__file__).with_name("rccl.toml")


class InterSteps(Word):
    """Steps between nodes of one way of an all-reduce."""

    NODES = "nodes"
    FEWER = "nodes-1"


class RcclRules(VersionEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one version of RCCL tunes; rccl.toml explains the fields."""

    built_for: tuple[str, ...]
    instinct3: tuple[str, ...]
    ll128: tuple[str, ...]
    ll128_picked: bool
    without_ll: tuple[str, ...]
    models: dict[str, int]
    fixed_models: tuple[str, ...]
    renumbered: tuple[tuple[int, int], ...]
    base_counts: bool
    inter_steps: InterSteps
    nic_latency: Literal["instead", "added"]
    doubled: tuple[str, ...]
    units_count: tuple[int, ...]
    overrides: bool
    msccl_in_place: tuple[FileRange, ...]
    msccl_out_of_place: tuple[FileRange, ...]
    mscclpp_built: bool
    mscclpp_bytes: int
    mscclpp_gpus: tuple[str, ...]
    mscclpp_when: str


class RcclTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tuning model; rccl.toml explains the fields."""

    latency_us: tuple[tuple[tuple[float, ...], ...], ...]
    share: tuple[tuple[tuple[float, ...], ...], ...]
    tree_size: tuple[tuple[float, ...], ...]
    ring_size: tuple[tuple[float, ...], ...]
    ranges: tuple[tuple[tuple[int, ...], ...], ...] = ()
    channels: tuple[tuple[tuple[int, ...], ...], ...] = ()


@cache
def tables() -> tuple[RcclTable, ...]:
    """Every tuning model by its number."""
    return msgspec.convert(
        tomllib.loads(FILE.read_text(encoding="utf-8"))["model"], tuple[RcclTable, ...]
    )


@lru_cache(64)
def rccl_rules(number: str) -> RcclRules | None:
    """How version `number` tunes; None for one whose own code was not compared."""
    return next((rules for rules in rccl_versions() if rules.number == number), None)


@cache
def rccl_versions() -> tuple[RcclRules, ...]:
    """Every version that is followed, oldest first."""
    return load_table(FILE, RcclRules)


@dataclass(frozen=True, kw_only=True)
class RcclInput:
    """One communicator, as RCCL's tuning sees it."""

    rules: RcclRules
    ring: SearchGraph
    tree: SearchGraph
    ranks: int
    nodes: int
    arch: str
    """"gfx942"."""
    units: int
    """Compute units of a GPU (`sm` of the topology file)."""
    joined: int | None
    """GPUs between the two that are farthest apart over xGMI; None where xGMI does not join all."""
    amd_cpu: bool
    known: bool = False
    """A hand-made graph fits the node."""
    options: dict[str, float] = field(default_factory=dict)
    """Of the known node; {} without one."""
    chordal: bool = False
    """The node is a chordal ring."""

    @property
    def near(self) -> bool:
        """XGMI joins all GPUs over one other at most."""
        return self.joined is not None and self.joined <= 1

    @property
    def instinct3(self) -> bool:
        """MI300 and, where the version knows it, MI350."""
        return self.arch.startswith(self.rules.instinct3)

    @property
    def instinct350(self) -> bool:
        """MI350, where the version knows it."""
        return self.instinct3 and self.arch == "gfx950"

    @cached_property
    def table(self) -> RcclTable:
        """The tuning model (rccl_wrap.cc and graph/rome_models.cc:parseOptions)."""
        rules = self.rules
        number = next((n for name, n in rules.models.items() if self.arch.startswith(name)), 0)
        if self.known and not self.arch.startswith(rules.fixed_models):
            number = int(self.options.get("tuning", number))
        return tables()[dict(rules.renumbered).get(number, number)]

    @property
    def ll128(self) -> bool:
        """LL128 is allowed by the known node."""
        return self.options.get("ll128Enabled", 0) != 0
