"""Why a variable changes nothing on a node, in plain words."""

from __future__ import annotations

from collections import Counter

from ...model.versions import numbers
from ...nccl.prediction import Prediction
from ..catalogue.catalogue import Flag
from ..values.reading import Reading
from .effects import described, untold

NETWORK = ("net", "gdr", "pxn")
_OF_NETWORKS = ("NCCL_CROSS_NIC", "NCCL_COLLNET_ENABLE")
NEAR = ("LOC", "NVL", "XGMI", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")


def unpredicted(flag: Flag, reading: Reading, before: Prediction, after: Prediction) -> str:
    """Say in a clause why equal predictions prove nothing about a variable; "" where they do."""
    if before.choices and untold(after):
        title = f"{after.library.name.upper()} {after.library.version}"
        return f"under it the choices of {title} are not followed"
    if reading.ignored or flag.libraries in (("images",), ("builds",)):
        return ""
    if not flag.of_library or flag.group == "rocm":
        return "it does not enter into the decisions that are predicted here"
    if flag.name in SPECIAL or (flag.type == "level" and flag.kind == "p2p"):
        return ""
    if flag.name.startswith("RCCL_MSCCL"):
        return "MSCCL and MSCCL++ are not timed; what is assumed says which sizes they run"
    if flag.kind == "none":
        return "the prediction does not model it"
    if flag.kind in NETWORK or flag.name in _OF_NETWORKS:
        return ""
    if not before.choices and (flag.subject == "channels" or flag.kind == "tuning"):
        return f"channels and algorithms are not predicted for {before.library.name.upper()}"
    return ""


def verdict(flag: Flag, reading: Reading, before: Prediction, after: Prediction) -> str:
    """Write a clause for equal predictions: nothing changes, or the effect is not predicted."""
    why = because(flag, reading, before, after)
    if unpredicted(flag, reading, before, after):
        return f"what it does is not predicted: {why}"
    return f"nothing changes here, because {why}"


def because(flag: Flag, reading: Reading, before: Prediction, after: Prediction) -> str:
    """Say why nothing changes, in a clause in lower case without a full stop."""
    if reading.ignored:
        return reading.why
    if flag.libraries in (("images",), ("builds",)):
        return "no library reads it at run time"
    unknown = unpredicted(flag, reading, before, after)
    if unknown:
        return unknown
    if flag.type == "level" and flag.kind == "p2p":
        return _level(reading, before, _default(flag, before))
    special = SPECIAL.get(flag.name)
    if special is not None:
        return special(reading, before)
    if flag.kind in NETWORK or flag.name in _OF_NETWORKS:
        return _network(before)
    if flag.subject == "channels":
        return f"the {before.coll_channels} channels found are within it already"
    if flag.kind == "search":
        return "the search comes to the same graphs"
    if flag.kind == "tuning":
        return "the same algorithm and protocol win at every size looked at"
    return "the decisions come out the same"


def _default(flag: Flag, before: Prediction) -> str:
    """Find the level that holds for an unset flag; "" where that depends on the machine."""
    library = before.library
    first = flag.default_of(library.name, numbers(library.version)).split(";")[0]
    return "" if " " in first else first


def _level(reading: Reading, before: Prediction, default: str) -> str:
    paths = Counter(pair.path for pair in before.pairs if pair.src < pair.dst)
    if not paths:
        return "there is no second GPU"
    name = reading.effective
    if len(paths) > 1 and name == default:
        return "it is the default"
    if len(paths) == 1:
        only = next(iter(paths))
        if sum(paths.values()) == 1:
            return f"the one pair is {only}, and its transport does not change"
        return f"all {sum(paths.values())} pairs are {only}, and their transport does not change"
    place = NEAR.index(name) if name in NEAR else 0
    p2p = {pair.path for pair in before.pairs if pair.transport == "P2P"}
    farthest = max((NEAR.index(path) for path in p2p if path in NEAR), default=0)
    if place > farthest:
        if all(pair.transport == "P2P" for pair in before.pairs):
            return f"no pair is farther apart than {NEAR[farthest]}"
        return f"it takes in no pair beyond {NEAR[farthest]}"
    return f"no pair that uses P2P lies beyond {name}"


def _disable(reading: Reading, before: Prediction) -> str:
    if reading.effective != "1":
        return f"it reads as {reading.effective}, which leaves P2P on"
    return "no pair of this node uses P2P anyway"


def _shm(reading: Reading, before: Prediction) -> str:
    if reading.effective != "1":
        return f"it reads as {reading.effective}, which leaves shared memory on"
    used = Counter(pair.transport for pair in before.pairs if pair.src < pair.dst)
    every = " and ".join(f"{count} by {name}" for name, count in sorted(used.items()))
    return f"no pair uses shared memory ({every})"


def _relays(_reading: Reading, before: Prediction) -> str:
    links = "xGMI" if before.library.name == "rccl" else "NVLink"
    return f"no path of this node goes over {links} through another GPU"


def _nvls(reading: Reading, before: Prediction) -> str:
    nvls = before.graphs.nvls
    if before.library.name == "rccl":
        return "RCCL has no NVLS"
    if nvls is None or not nvls.channels:
        return "NVLS needs Hopper or newer behind an NVSwitch, which is not what is here"
    if any(choice.algorithm.startswith("NVLS") for choice in before.choices):
        return f"NVLS ({described(nvls)}) is used either way"
    return "NVLS could be set up here, but Ring or Tree is predicted to be faster at every size"


def _cumem(reading: Reading, before: Prediction) -> str:
    if not any(pair.transport == "P2P" for pair in before.pairs):
        return "no pair uses P2P, and only its label and registration depend on it"
    return "the labels stay as they are"


def _network(before: Prediction) -> str:
    if before.nodes > 1 or any(pair.transport == "NET" for pair in before.pairs):
        return "the decisions about NICs come out the same"
    return "inside one node no pair uses the network; it counts for jobs of several nodes"


SPECIAL = {
    "NCCL_P2P_DISABLE": _disable,
    "NCCL_SHM_DISABLE": _shm,
    "NCCL_NVB_DISABLE": _relays,
    "NCCL_NVLS_ENABLE": _nvls,
    "NCCL_CUMEM_ENABLE": _cumem,
}
"""Variable -> the function that finds the reason on this node."""
