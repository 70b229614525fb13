"""What RCCL's tuning looks at, and its tables (graph/tuning.cc)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

import msgspec

from ...toml import tomllib
from ..prediction import SearchGraph

BY_ARCH = (("gfx942", 5), ("gfx950", 6), ("gfx1200", 7), ("gfx1201", 7))
"""Tuning model by GPU, all others the first (rccl_wrap.cc:rcclGetTuningIndexForArch)."""


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
    text = Path(__file__).with_name("rccl.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text)["model"], tuple[RcclTable, ...])


@dataclass(frozen=True, kw_only=True)
class RcclInput:
    """One communicator, as RCCL's tuning sees it."""

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
    base_counts: bool = True
    """2.27.7: the option baseBw is the bandwidth of a graph."""

    @property
    def near(self) -> bool:
        """XGMI joins all GPUs over one other at most."""
        return self.joined is not None and self.joined <= 1

    @property
    def instinct3(self) -> bool:
        """MI300 and MI350."""
        return self.arch in ("gfx942", "gfx950")

    @cached_property
    def table(self) -> RcclTable:
        """The tuning model (rccl_wrap.cc and graph/rome_models.cc:parseOptions)."""
        number = next((n for name, n in BY_ARCH if self.arch.startswith(name)), 0)
        if self.known:
            number = int(self.options.get("tuning", number))
            number = 6 if self.arch == "gfx950" else number
        return tables()[number]

    @property
    def ll128(self) -> bool:
        """LL128 is allowed by the known node."""
        return self.options.get("ll128Enabled", 0) != 0
