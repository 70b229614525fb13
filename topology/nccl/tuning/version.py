"""How one version of NCCL tunes; the figures are in tuning.toml."""

from functools import cache
from pathlib import Path
from typing import Literal

from ...model.severity import Word
from ...model.versions import numbers
from ..versions import PathName, VersionEntry, load_table, nearest, versions
from .rccl_inputs import InterSteps, rccl_versions


class NvlsModel(Word):
    """How the bandwidth of NVLS is computed."""

    STEPS = "steps"
    MIN = "min"
    GATHER = "gather"
    EFFICIENCY = "efficiency"


class NvlsRaises(Word):
    """Whether NVLS raises the number of channels of all."""

    LOG = "log"
    ALL = "all"
    NO = "no"


class TreePatterns(Word):
    """Whose tree decides whether trees are unbalanced."""

    NONE = "none"
    OWN = "own"
    ALL = "all"


class Schedule(Word):
    """How bytes are dealt out to channels."""

    EVEN = "even"
    BLOCKS = "blocks"
    CELLS_2_22 = "cells-2.22"
    CELLS = "cells"


ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
PROTOCOLS = ("LL", "LL128", "SIMPLE")
COLLECTIVES = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
GENERATIONS = ((100, "blackwell"), (90, "hopper"), (80, "ampere"), (0, "volta"))
"""Lowest compute capability x10 of each row of the tables, newest first."""

Row = tuple[float, float, float]


class TuningVersion(VersionEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The figures that one version computes with; tuning.toml explains the fields."""

    alike: tuple[str, ...] = ()
    """Later versions that were tested too and tune in the same way."""
    algorithms: tuple[str, ...]
    grammar: Literal["list", "functions"]
    ring_fallback: Literal["others", "all", "enabled", "no"]
    ll_share: Literal["2.20", "half"]
    one_gpu_ll128: float
    inter_steps: InterSteps
    net_as_tree: bool
    pattern_of: TreePatterns
    nvls_model: NvlsModel
    nvls_ratio: float
    nvls_gather_ratio: bool
    nvls_all_gather: bool
    direct_gathers: bool
    ll128_relays: bool
    ll128_sms: tuple[int, ...]
    ll128_mixed_from: int
    ll128_paths: tuple[PathName, ...]
    ll128_paths_sm90: tuple[PathName, ...]
    ll128_paths_no_c2c: tuple[PathName, ...]
    pat_factor: float
    pat_min_sm: int
    tiny_correction: bool
    nvls_tree_correction: bool
    max_channels: int
    quad_sm: Literal["90", "90+"]
    quad_below: int
    nvls_channels: dict[str, int]
    nvls_by_net: bool
    nvls_raises: NvlsRaises
    nvls_kept: bool
    nvls_ranks: int
    nvls_zero_chooses: bool
    mixed_as_amd: bool
    schedule: Schedule
    cell_traffic: int
    ll_traffic: int
    share: Literal["floor", "round"]
    base_us: dict[str, Row]
    nvlink_us: dict[str, Row]
    pci_us: dict[str, Row]
    net_us: dict[str, Row]
    ll_max_gbs: dict[str, Row]
    ring_ll128_gbs: dict[str, Row]
    tree_ll128_gbs: dict[str, Row]
    tree_gbs: dict[str, Row]
    nvls_tree_gbs: dict[str, Row]
    tree_correction: dict[str, tuple[float, ...]]
    nvls_efficiency: dict[str, float]

    @property
    def tested_numbers(self) -> tuple[str, ...]:
        """The versions whose own code was compared with these rules."""
        return (self.number, *self.alike) if self.tested else self.alike

    def tested_before(self, number: str) -> str:
        """The last of them up to version `number`; this one's own where there is none."""
        older = [one for one in self.tested_numbers if numbers(one) <= numbers(number)]
        return older[-1] if older else self.number


@cache
def tuning_versions() -> tuple[TuningVersion, ...]:
    """Every version that changed the tuning model, oldest first."""
    return load_table(Path(__file__).with_name("tuning.toml"), TuningVersion)


def tuning_version(library: str, number: str) -> TuningVersion | None:
    """How version `number` tunes: as the nearest older one in the table; None for RCCL.

    A version before all of them gets the oldest. Raises ValueError for text that is no version.
    """
    if not numbers(number):
        raise ValueError(f"{number[:40]!r} is no version of NCCL; write 2.28.9")
    return nearest(tuning_versions(), library, number) if library == "nccl" else None


def assumption(library: str, number: str) -> str | None:
    """The assumption about how a version tunes, in one sentence; None when it was tested."""
    followed = tuning_version(library, number)
    if followed is None:
        *some, last = (rules.number for rules in rccl_versions())
        return (
            f"the choice of algorithm of RCCL {number} is not predicted: {', '.join(some)} and "
            f"{last} are followed, whose own code was compared"
        )
    if numbers(number) in map(numbers, followed.tested_numbers):
        return None
    if numbers(number) < numbers(followed.number):
        return f"no tuning rules for NCCL {number}: those of {followed.number}, the oldest known"
    newest = max(
        (version.number for version in versions() if version.library == library), key=numbers
    )
    before = followed.tested_before(number)
    if numbers(number) > numbers(newest):
        return f"no tuning rules for NCCL {number}: those of {before}, the newest known"
    return f"the tuning rules of NCCL {number} are those of {before}, taken over and untested"


def generation(sm: int) -> str:
    """The row of the tables for a compute capability x10 (graph/tuning.cc:ncclTopoTuneModel)."""
    return next(name for lowest, name in GENERATIONS if sm >= lowest)
