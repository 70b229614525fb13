"""The tuning rules of one NCCL version: data/nccl_tuning.toml, step by step."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
PROTOCOLS = ("LL", "LL128", "SIMPLE")
COLLECTIVES = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
GENERATIONS = ((100, "blackwell"), (90, "hopper"), (80, "ampere"), (0, "volta"))
"""Lowest compute capability x10 of each row of the tables, newest first."""

VERSION = re.compile(r"v?(\d+(?:\.\d+){1,3})")
Row = tuple[float, float, float]


class TuningRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one version computes with; the fields are explained in data/nccl_tuning.toml."""

    since: str
    tested: bool
    algorithms: tuple[str, ...]
    grammar: str
    ring_fallback: str
    ll_rule: str
    one_gpu_ll128: float
    inter_steps: str
    net_as_tree: bool
    pattern_of: str
    nvls_model: str
    nvls_gather_ratio: bool
    ll128_sms: tuple[int, ...]
    ll128_mixed_from: int
    ll128_paths: tuple[str, ...]
    ll128_paths_sm90: tuple[str, ...]
    ll128_paths_no_c2c: tuple[str, ...]
    pat_factor: float
    pat_min_sm: int
    nvls_tree_correction: bool
    max_channels: int
    quad_sm: str
    nvls_channels: dict[str, int]
    nvls_by_net: bool
    nvls_raises: str
    nvls_ranks: int
    schedule: str
    cell_traffic: int
    ll_traffic: int
    share: str
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

    def at_least(self, version: str) -> bool:
        """Whether these are the rules of `version` or of a later one."""
        return numbers(self.since) >= numbers(version)


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers that compare; what follows them ("+cuda13.0") is left out."""
    match = VERSION.match(version.strip())
    if match is None:
        raise ValueError(f"{version[:40]!r} is no version of NCCL; write 2.28.9")
    return tuple(int(part) for part in match[1].split("."))


@cache
def steps() -> tuple[TuningRules, ...]:
    """Every version that changed something, oldest first."""
    text = files(__package__).joinpath("tuning.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    made: dict[str, Any] = {
        "tree_correction": table["tree_correction"],
        "nvls_efficiency": table["nvls_efficiency"],
    }
    found = []
    for step in table["step"]:
        made = dict(made)
        for name, value in step.items():
            old = made.get(name)
            made[name] = {**old, **value} if isinstance(old, dict) else value
        found.append(msgspec.convert(made, TuningRules))
    return tuple(found)


def rules_of(library: str, version: str) -> TuningRules | None:
    """The rules that a version follows, the oldest ones for a version before all; None for RCCL.

    Raises ValueError for text that is no version.
    """
    wanted = numbers(version)
    if library != "nccl":
        return None
    older = [step for step in steps() if numbers(step.since) <= wanted]
    return older[-1] if older else steps()[0]


def assumption(library: str, version: str) -> str | None:
    """What has to be taken on trust about a version's tuning rules, in one sentence."""
    rules = rules_of(library, version)
    if rules is None:
        return (
            "RCCL's choice of algorithm is not predicted: it hangs on tables that its node models "
            "select, and no recorded choice was at hand to check them"
        )
    if numbers(version) == numbers(rules.since) and rules.tested:
        return None
    if numbers(version) < numbers(rules.since):
        return f"no tuning rules for NCCL {version}: those of {rules.since}, the oldest known"
    if numbers(version) > numbers(steps()[-1].since):
        return f"no tuning rules for NCCL {version}: those of {rules.since}, the newest known"
    return (
        f"the tuning rules of NCCL {version} were read from its source and are untested: "
        "no recording of that version was at hand"
    )


def generation(sm: int) -> str:
    """The row of the tables for a compute capability x10 (graph/tuning.cc:ncclTopoTuneModel)."""
    return next(name for lowest, name in GENERATIONS if sm >= lowest)
