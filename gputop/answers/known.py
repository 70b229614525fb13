"""What the tables hold about one name: a GPU, node, cluster, link, NIC, variable or code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache, partial
from typing import Any

import msgspec

from gputop.answers.naming import alike, told_apart
from gputop.topology.diagnosis.mechanism.codes import by_name
from gputop.topology.expectation.reference import UnknownReferenceError, every_name, named
from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.hardware.faults.catalogue import faults
from gputop.topology.hardware.specs import PublishedFigure, sku_for, skus, table
from gputop.topology.hardware.statements import Backing, Statement, backing, figures_of
from gputop.topology.hardware.terms import terms_for
from gputop.topology.model.kernel_event import KernelSource
from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.model.severity import Word


class KnownKind(Word):
    """What a name stands for."""

    GPU = "gpu"
    NODE = "node"
    CLUSTER = "cluster"
    LINK = "link"
    NIC = "nic"
    VARIABLE = "variable"
    CODE = "code"


class KnownFact(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is known of it."""

    what: str
    value: float | str
    unit: str = ""
    confirmed: bool = True
    """Whether a source says so that was read; else nothing is compared with it."""
    agree: tuple[str, ...] | None = None
    """Sources that bear a figure of a data sheet out; None of what is no such figure."""
    differ: tuple[Statement, ...] = ()
    """What other sources say instead."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one name."""

    name: str
    kind: KnownKind
    facts: tuple[KnownFact, ...]
    figures: tuple[PublishedFigure, ...] = ()
    """What others measured on healthy hardware; a floor is a pass line of an acceptance test."""
    sources: tuple[str, ...] = ()


WORDS = {
    "arch": "architecture",
    "gfx": "target",
    "llc_mb": "last-level cache",
    "l3_mb": "L3 cache",
    "link_kind": "kind of its links",
    "link_count": "links of a GPU",
    "link_print_gbps": "each link as nvidia-smi prints it",
    "sm_or_cu_count": "SMs or CUs",
    "memory_gb": "memory",
    "hbm_gbps": "memory bandwidth",
    "l2_mb": "L2 cache",
    "tdp_w": "power limit",
    "fabric": "how its links run",
    "world_size": "GPUs in one domain of links",
    "link_gbps_per_direction_each": "each link, one way",
    "link_total_gbps_per_direction": "all links, one way",
    "p2p_pair_gbps_per_direction": "one pair at most, one way",
    "c2c_gbps_per_direction": "to the CPU over C2C, one way",
    "enumerates_as": "GPUs that one package shows as",
    "sku": "GPU",
    "topo_pair": "what topo -m prints for a pair of GPUs",
    "topo_gpu_nic": "what topo -m prints for a GPU and its NIC",
    "network_gbps": "network, one way",
    "allreduce_floor_gbps": "pass line of all-reduce in the node",
    "multinode_floor_gbps": "pass line of all-reduce between nodes",
    "visible_topology": "PCI tree that a guest sees",
    "ports_gbit": "rate of its port",
    "nic_gbit": "rate of a NIC",
    "gbps": "one way",
    "line_gbps": "one way after line coding",
    "lane_gbps": "each lane, one way",
    "gt_s": "GT/s of a lane",
    "gt_s_per_lane": "GT/s of a lane",
    "link_gbps": "each link, one way",
    "total_gbps": "all links, one way",
    "marketing_bidir_gbps": "both ways added, as advertised",
    "memory_reported_mib": "MiB of memory that the driver reports",
}
"""Keys of the tables that say too little by themselves -> words."""
_VALUES = {
    "point_to_point": "from each GPU to the others",
    "switched": "through switches",
    "bridge": "over bridges between cards",
}
"""Values of the tables, as somebody says them."""
_UNITS = (
    ("_gbit", "Gbit/s"), ("_gbps", "GB/s"), ("_gb", "GB"), ("_mb", "MB"), ("_mhz", "MHz"),
    ("_w", "W"),
)  # fmt: skip
_CAPITALS = {"gpus": "GPUs", "nics": "NICs", "pcie": "PCIe"} | {
    word: word.upper() for word in ("cpu", "gpu", "nic", "nccl", "nvml", "pci", "numa", "l2")
}
_SILENT = ("name_patterns", "realistic", "realistic_fraction", "unconfirmed", "source", "family")
_LINKS = ("pcie", "nvlink", "nvswitch", "xgmi", "socket", "infiniband", "efa")
"""Groups of links.toml; in those before "socket" a number follows: "nvlink4", "pcie5"."""
_PUBLISHED = "_published"
"""Ending of the key of several values, where sources say different ones."""
_AZURE = "Standard_"
"""In front of every size of Azure."""
_NOTES = ("notes", "checks", "nccl_constants")
_FAMILY = re.compile("^(?:nvidia|amd(?!smi))?(?:tesla|geforce|instinct)?(?=.)")
"""Words before the name of a model that do not tell it apart."""


@lru_cache(256)
def known(name: str) -> tuple[Known, ...]:
    """What the name stands for; () for one that is not known. "H100" is every H100."""
    made = _index().get(plain_name(name)) or _index().get(plain_name(told_apart(name)))
    if made is not None:
        return tuple(one() for one in made)
    found = sku_for(Gpu(address="", vendor="", name=" ".join(name.split())))
    if found is not None:
        return (of_gpu(found.name),)
    bare = name.strip().removeprefix(_AZURE)
    flag = catalogue().flag(bare) or catalogue().flag(bare.upper())
    if flag is not None:
        return (_of_variable(flag.name),)
    try:
        return (_of_node(named(bare).name),)
    except UnknownReferenceError:
        return _alike(name)


def _alike(name: str) -> tuple[Known, ...]:
    """The models whose names say more than this one, else the nodes."""
    if found := alike(name, skus(), _memory_gb):
        return tuple(map(of_gpu, found))
    nodes = alike(name, every_name(), lambda node: 0)
    return tuple(_of_node(node) for node in dict.fromkeys(named(node).name for node in nodes))


def _memory_gb(sku: str) -> float:
    found: float = table("specs")["sku"].get(sku, {}).get("memory_gb") or 0
    return found


def healthy(machine: Machine) -> tuple[Known, ...]:
    """What is known of each model among the GPUs of a node, with its healthy figures."""
    models = (sku_for(gpu) for gpu in machine.gpus)
    return tuple(of_gpu(name) for name in dict.fromkeys(sku.name for sku in models if sku))


def every_known_name() -> tuple[str, ...]:
    """All names, as they are written."""
    links = (f"{group}{key}" for group, key in _link_keys())
    nodes = every_name()
    flags = (flag.name for flag in catalogue().flags)
    codes = (name for name in by_name() if name)
    nics = (nic for nic in table("links")["nic"] if nic not in _NOTES)
    clusters = table("nodes")["cluster"]
    return (*skus(), *nodes, *clusters, *links, *nics, *flags, *codes)


def plain_name(name: str) -> str:
    """A name without what people write in different ways."""
    return _FAMILY.sub("", re.sub(r"[\s_\-]+", "", name.lower()))


@cache
def _index() -> Mapping[str, tuple[Callable[[], Known], ...]]:
    """Every plain name that stands in a table -> what makes its records."""
    found: dict[str, list[Callable[[], Known]]] = {}

    def add(name: str, made: Callable[[], Known]) -> None:
        found.setdefault(plain_name(name), []).append(made)

    for name, code in by_name().items():
        facts = {"whose": code.family.value, "number": code.number, "says": code.said}
        add(name, partial(_of_row, name, KnownKind.CODE, facts))
    for kind in (KernelSource.XID, KernelSource.SXID):
        for key in faults(kind):
            add(f"{kind}{key}", partial(_of_fault, kind, key))
    for group, key in _link_keys():
        add(f"{group}{key}", partial(_of_link, group, key))
    nics = table("links")["nic"]
    for nic, row in nics.items():
        if nic not in _NOTES:
            add(nic, partial(_of_row, nic, KnownKind.NIC, row, nics["notes"]["source"]))
    for cluster in table("nodes")["cluster"]:
        whole, _, _ = cluster.partition(" (")
        for called in {cluster, whole, whole.split()[-1], f"DGX {whole}"}:
            add(called, partial(_of_cluster, cluster))
    own = [*map(plain_name, skus())]
    for sku in skus():
        add(sku, partial(of_gpu, sku))
        short = sku.partition("-")[0]
        # "RTX" is no model.
        if plain_name(short) not in own and any(map(str.isdecimal, short)):
            add(short, partial(of_gpu, sku))
    return {name: tuple(made) for name, made in found.items()}


def _link_keys() -> Iterator[tuple[str, str]]:
    for group in _LINKS:
        for key in table("links")[group]:
            if key not in _NOTES:
                numbered = group in _LINKS[: _LINKS.index("socket")]
                yield (group, key) if numbered else ("", key)


def of_gpu(sku: str) -> Known:
    """A GPU model of specs.toml."""
    facts = table("specs")["sku"].get(sku, {})
    model = skus()[sku]
    made = _of_row(sku, KnownKind.GPU, facts, model.source)
    keys = {_heading(key): (key, value) for key, value in figures_of(sku)}
    told = tuple(
        _backed(fact, backing(sku, *keys[fact.what])) if fact.what in keys else fact
        for fact in made.facts
    )
    return msgspec.structs.replace(made, facts=told, figures=model.figures)


def _heading(key: str) -> str:
    """What a figure of a data sheet is, by its key."""
    kind = key.removeprefix("tflops.")
    return _dense(kind) if kind != key else _words(key)


def _backed(fact: KnownFact, by: Backing) -> KnownFact:
    return msgspec.structs.replace(fact, agree=by.agree, differ=by.differ)


def _dense(kind: str) -> str:
    return f"{kind.replace('_', ' ').upper()}, dense"


def _of_node(node: str) -> Known:
    facts = table("nodes")["node"][node]
    return _of_row(node, KnownKind.NODE, facts, str(facts.get("source", "")))


def _of_cluster(cluster: str) -> Known:
    facts = table("nodes")["cluster"][cluster]
    levels = {
        f"{level['name']} of {level['unit']} GPUs": f"{level['gbps_per_gpu_per_direction']} GB/s"
        for level in facts["levels"]
    }
    switches = {f"{name} switches": count for name, count in facts["switches"].items()}
    told = {"nodes": facts["nodes"], "gpus": facts["gpus"]} | levels | switches
    return _of_row(cluster, KnownKind.CLUSTER, told, str(facts["source"]))


def _of_link(group: str, key: str) -> Known:
    every = table("links")
    place = group or next(name for name in _LINKS if key in every[name])
    facts = every[place][key]
    return _of_row(f"{group}{key}", KnownKind.LINK, facts, str(facts.get("source", "")))


def _of_variable(name: str) -> Known:
    flag = catalogue().flag(name)
    assert flag is not None
    flag = flag.said(terms_for(None))
    facts = {
        "whose": flag.whose, "values": flag.values, "default": flag.default,
        "what it changes": flag.changes, "worth setting": flag.set_when, "trap": flag.trap,
        "since": flag.since, "until": flag.until, "also read as": ", ".join(flag.aliases),
    }  # fmt: skip
    return _of_row(flag.name, KnownKind.VARIABLE, facts, flag.source)


def _of_fault(kind: str, key: str) -> Known:
    fault = faults(kind)[key]
    facts = {
        "name": fault.name, "says": fault.told(), "harm": fault.severity.word,
        "what helps": "; ".join(fault.fix),
    }  # fmt: skip
    name = f"{'Xid' if kind == KernelSource.XID else 'SXid'} {key}"
    return _of_row(name, KnownKind.CODE, facts, fault.source)


def _of_row(name: str, kind: KnownKind, facts: Mapping[str, Any], source: str = "") -> Known:
    """A record of a row of a table, its keys in words."""
    unsure = facts.get("unconfirmed", ())
    told = tuple(_facts(facts, unsure))
    return Known(name=name, kind=kind, facts=told, sources=(_spelled(source),) if source else ())


def _spelled(source: str) -> str:
    """A source with the short names of the tables written out."""
    names: dict[str, str] = table("specs")["sources"]

    def whole(found: re.Match[str]) -> str:
        return names.get(found[0], found[0]).partition(" (")[0].partition(":")[0]

    return re.sub(r"(?:^|(?<=, )|(?<=; ))[a-z0-9_]+\b(?![/.:])", whole, source)


def _facts(row: Mapping[str, Any], unsure: tuple[str, ...]) -> Iterator[KnownFact]:
    for key, value in row.items():
        if key in _SILENT or value in ("", None):
            continue
        sure = key not in unsure
        if key == "tflops":
            for kind, rate in value.items():
                unit = "TOPS" if kind.startswith("int") else "TFLOP/s"
                dense = _dense(kind)
                known = sure and kind not in unsure
                yield KnownFact(what=dense, value=rate, unit=unit, confirmed=known)
            continue
        for what, told, unit in _said(key, value):
            yield KnownFact(what=what, value=told, unit=unit, confirmed=sure)


def _said(key: str, value: Any) -> Iterator[tuple[str, float | str, str]]:
    """What one cell of a table says, its value and its unit."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        yield _words(key), _VALUES.get(str(value), value) if key == "fabric" else value, _unit(key)
    elif isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        yield _words(key), ", ".join(value), ""
    elif isinstance(value, dict) and all(isinstance(one, float) for one in value.values()):
        for name, one in value.items():
            yield f"{name}, {_words(key)}", one, _unit(key)
    elif key.endswith(_PUBLISHED) and isinstance(value, list):
        bare = key.removesuffix(_PUBLISHED)
        if unit := _unit(bare):
            rates = ", ".join(f"{one:g}" for one in value)
            yield f"{_words(bare)}, by different sources", rates, unit


def _words(key: str) -> str:
    if key in WORDS:
        return WORDS[key]
    for ending, _ in _UNITS:
        key = key.removesuffix(ending)
    return " ".join(_CAPITALS.get(word, word) for word in key.split("_"))


def _unit(key: str) -> str:
    bare = key.replace("_per_direction", "").removesuffix("_each")
    return next((unit for ending, unit in _UNITS if f"_{bare}".endswith(ending)), "")
