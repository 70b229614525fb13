"""English names of collectives."""

import re
from collections.abc import Sequence

SPOKEN = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "allgatherbase": "all-gather",
    "allgatherintotensor": "all-gather",
    "reducescatter": "reduce-scatter",
    "reducescatterbase": "reduce-scatter",
    "reducescattertensor": "reduce-scatter",
    "alltoall": "all-to-all",
    "alltoallbase": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "barrier": "barrier",
}
"""Names of NCCL and PyTorch without signs, in small letters -> the field's word."""


def spoken(name: str) -> str:
    """The field's word for a collective: "all-reduce" for AllReduce and all_reduce."""
    return SPOKEN.get(re.sub(r"[^a-z]", "", name.lower()), name.replace("_", "-"))


def last_of(launched: Sequence[tuple[str, int]]) -> str:
    """What was launched last of each kind: "all-reduce 1042 or broadcast 3"."""
    return " or ".join(f"{spoken(name)} {count}" for name, count in launched[:3])
