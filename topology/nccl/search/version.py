"""How one version of a library searches; the figures are in search.toml."""

from functools import cache
from pathlib import Path
from typing import Literal

from ...model.severity import Word
from ..versions import PathName, Version, VersionEntry, load_table, nearest


class Duplicates(Word):
    """When a channel is doubled."""

    AT_LAST = "at last"
    BEFORE_RAISING = "before raising"


class FirstGpus(Word):
    """The GPUs at which a channel from a NIC may begin."""

    IDLE = "idle"
    FEWEST_HOPS = "fewest-hops"
    LOCAL = "local"
    OWNER = "owner"


IDLE = FirstGpus.IDLE


class NvlsHeads(Word):
    """The heads of NVLS that have channels."""

    LISTED = "listed"
    FIRST = "first"
    DISTINCT = "distinct"


Ladder = tuple[int, ...]
"""Speeds per channel in MB/s (10^6 bytes), highest first: whole numbers stay exact."""


class SearchVersion(VersionEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules of one version's search; search.toml explains the fields."""

    intra_sm100_gbs: tuple[float, ...] = ()
    intra_sm90_gbs: tuple[float, ...]
    intra_sm0_gbs: tuple[float, ...]
    inter_sm100_gbs: tuple[float, ...] = ()
    inter_sm90_gbs: tuple[float, ...]
    inter_sm0_gbs: tuple[float, ...]
    max_channels: int
    most_nvls_heads: int
    cross_nic: int
    one_gpu_bounded: bool
    all_steps: int
    index_beside_switch: bool
    neighbours: Literal["any", "first", "only"]
    turns_nics: bool
    crosses_first: bool
    cross_pairs: bool
    cross_share: float
    amd_stays_same: bool
    duplicates: Duplicates
    raises: Literal["intra", "trees", "all"]
    nvls_most: Literal["all", "gpus"]
    nvls_by_speed: bool
    bounded_types: bool
    split_nvlink: bool
    first_gpus: FirstGpus
    replays: Literal["always", "same"]
    nvls_heads: NvlsHeads
    widest_inter: PathName | Literal[""]
    fallback_nets: bool
    needs_nics: bool
    inter_without_nets: bool
    counts_links: bool
    thin_trees: bool

    def ladder(self, min_sm: int, *, inter: bool) -> Ladder:
        """The speeds to try, by the lowest compute capability x10 among the GPUs."""
        if inter:
            ladders = (self.inter_sm100_gbs, self.inter_sm90_gbs, self.inter_sm0_gbs)
        else:
            ladders = (self.intra_sm100_gbs, self.intra_sm90_gbs, self.intra_sm0_gbs)
        lowest = 0 if min_sm >= 100 else 1 if min_sm >= 90 else 2
        fitting = next(speeds for speeds in ladders[lowest:] if speeds)
        return tuple(round(speed * 1000) for speed in fitting)


@cache
def search_versions() -> tuple[SearchVersion, ...]:
    """Every version that changed the search, oldest first."""
    return load_table(Path(__file__).with_name("search.toml"), SearchVersion)


def search_version(version: Version) -> SearchVersion:
    """How a version searches: as the nearest older one in the table, else as the oldest one."""
    if isinstance(version.searches, SearchVersion):
        return version.searches
    return nearest(search_versions(), version.library, version.number)
