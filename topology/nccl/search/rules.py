"""How one library version searches; the figures are in data/nccl_search.toml."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from ..versions import Rules, numbers

Ladder = tuple[int, ...]
"""Speeds per channel in MB/s (10^6 bytes), highest first: whole numbers stay exact."""


class SearchRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What differs between versions; the fields are explained in data/nccl_search.toml."""

    library: str
    version: str
    after: str | None = None
    intra_sm100_gbs: tuple[float, ...] = ()
    intra_sm90_gbs: tuple[float, ...]
    intra_sm0_gbs: tuple[float, ...]
    inter_sm100_gbs: tuple[float, ...] = ()
    inter_sm90_gbs: tuple[float, ...]
    inter_sm0_gbs: tuple[float, ...]
    max_channels: int
    most_nvls_heads: int
    cross_nic: int
    neighbours_only: bool
    bounded_types: bool
    split_nvlink: bool
    first_gpus: str
    replays: str
    nvls_first_net_only: bool
    widest_inter: str
    fallback_nets: bool
    counts_links: bool

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
def all_rules() -> tuple[SearchRules, ...]:
    """The rules of every version that brought a change, oldest first."""
    text = files(__package__).joinpath("search.toml").read_text(encoding="utf-8")
    made: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in tomllib.loads(text)["search"]:
        base = made.get(("nccl", entry.get("after", "")), {})
        made[entry["library"], entry["version"]] = {**base, **entry}
    return tuple(msgspec.convert(one, SearchRules) for one in made.values())


def search_rules(rules: Rules) -> SearchRules:
    """Those of the nearest older version, else of the oldest one known."""
    known = [one for one in all_rules() if one.library == rules.library]
    older = [one for one in known if numbers(one.version) <= numbers(rules.version)]
    return older[-1] if older else known[0]
