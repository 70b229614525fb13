"""The nodes that RCCL has a list of (its graph/rome_models.cc), and a system in the same terms."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from ...toml import tomllib
from ..nodes import CPU, GPU, NET, NVLINK, PathType, System, SystemNode
from ..settings import Settings
from ..system.constants import nvlink_gbs
from ..versions import Version


class RcclModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node of RCCL's list; the fields are explained in rccl_models.toml."""

    name: str
    cpus: int
    most_links: int
    near: str
    gpu_ids: tuple[int, ...]
    gpu_numa: tuple[int, ...]
    nic_numa: tuple[int, ...]
    links: tuple[str, ...]
    gdr: tuple[str, ...]
    rings: tuple[str, ...]
    options: dict[str, float] = {}
    rails: tuple[str, ...] = ()
    rails_since: str = ""
    later: dict[str, float] = {}

    def has(self, option: str) -> bool:
        """Whether an option is on."""
        return int(self.options.get(option, 0)) != 0

    def rail_trees(self, version: Version) -> tuple[str, ...]:
        """The trees that keep to one NIC over several hosts, as a version knows them."""
        if not self.rails or not version.at_least(self.rails_since):
            return ()
        count = len(self.rails)
        return tuple(
            self.rails[(2 * turn + i) % count] for turn in range(count) for i in range(count)
        )

    def options_of(self, version: Version) -> dict[str, float]:
        """The options as a version knows them."""
        later = self.later if self.rails and version.at_least(self.rails_since) else {}
        return {**self.options, **later}


@cache
def models() -> tuple[RcclModel, ...]:
    """Every model, in the order in which RCCL tries them."""
    text = Path(__file__).with_name("rccl_models.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text)["model"], tuple[RcclModel, ...])


class RcclShape(NamedTuple):
    """The part of a system that is compared with the models (parseRomeSystem)."""

    gpu_ids: tuple[int, ...]
    gpu_numa: tuple[int, ...]
    nic_numa: tuple[int, ...]
    links: tuple[tuple[int, ...], ...]
    gdr: tuple[tuple[str, ...], ...]
    near: str
    cpus: int
    most_links: int
    directly: bool
    """Every GPU hangs on a CPU with no more than one switch between."""
    near_alike: bool
    """A NIC one switch away (PIX) fits one that is several away (PXB), and the other way round."""


def shape_of(system: System, version: Version) -> RcclShape:
    """The shape of a system whose paths are computed; GPUs and NICs by device number."""
    gpus = sorted(system.nodes[GPU], key=lambda gpu: gpu.dev)
    nets = sorted(system.nodes[NET], key=lambda net: net.dev)
    cpus = system.nodes[CPU]
    links = _linked(gpus, version)
    numa = [cpus[_nearest(gpu)].ident for gpu in gpus]
    nic_numa = [cpus[_nearest(net)].ident for net in nets]
    order = sorted(cpu.ident for cpu in cpus)
    # As characters above "0", so that 16 is "@".
    near = "".join(chr(48 + numa.count(ident)) + chr(48 + nic_numa.count(ident)) for ident in order)
    return RcclShape(
        gpu_ids=tuple(gpu.ident for gpu in gpus),
        gpu_numa=tuple(numa),
        nic_numa=tuple(nic_numa),
        links=links,
        gdr=tuple(
            tuple(version.name_of(gpu.paths[NET][net.index].type) for gpu in gpus) for net in nets
        ),
        near=near,
        cpus=len(cpus),
        most_links=max((sum(1 for count in row if count) for row in links), default=0),
        directly=all(gpu.paths[CPU][_nearest(gpu)].hops <= 2 for gpu in gpus),
        near_alike=version.near_nics_alike,
    )


def _linked(gpus: list[SystemNode], version: Version) -> tuple[tuple[int, ...], ...]:
    """Count xGMI links between GPUs that are in the order of device numbers."""
    if version.linked_by_path:
        return tuple(_paths(gpu, gpus, version) for gpu in gpus)
    return tuple(_links(gpu, len(gpus), version) for gpu in gpus)


def _links(gpu: SystemNode, count: int, version: Version) -> tuple[int, ...]:
    """How many xGMI links lead to each GPU, by device number; the first link to a GPU counts."""
    found: dict[int, float] = {}
    for link in gpu.links:
        if link.kind is NVLINK and link.to.kind is GPU:
            found.setdefault(link.to.dev, link.bandwidth_gbs)
    each = nvlink_gbs(version, gpu) if found else 0.0
    return tuple(int(found[dev] / each) if dev in found else 0 for dev in range(count))


def _paths(gpu: SystemNode, gpus: list[SystemNode], version: Version) -> tuple[int, ...]:
    """How many xGMI links' worth the path to each GPU carries, where it is of xGMI alone.

    A path over another GPU, of which only 2.30.4 has some, does not count: with it no known node
    would be one (ROCm/rocm-systems pull request 7792).
    """
    each = nvlink_gbs(version, gpu)
    paths = [gpu.paths[GPU][other.index] for other in gpus]
    return tuple(
        int(path.bandwidth_gbs / each) if path.type is PathType.NVL and len(path.links) == 1 else 0
        for path in paths
    )


def _nearest(node: SystemNode) -> int:
    """The CPU that is the fewest hops away, the first of equals."""
    hops = [path.hops for path in node.paths[CPU]]
    return hops.index(min(hops))


def is_asked(settings: Settings) -> bool:
    """Whether RCCL looks at its models at all (search.cc:ncclTopoCompute)."""
    own = settings.text("NCCL_RINGS") or settings.text("RCCL_TREES")
    return not own and not settings.integer("RCCL_MODEL_MATCHING_DISABLE", 0)


def is_rome_like(system: System, version: Version, settings: Settings) -> bool:
    """Up to eight GPUs, more than four, with xGMI: RCCL limits its search there (parseRome4P2H).

    It finds that out while it looks for a model, and never where it looks for none.
    """
    gpus = sorted(system.nodes[GPU], key=lambda gpu: gpu.dev)
    sized = 4 < len(gpus) <= 8 and is_asked(settings)
    return sized and any(map(any, _linked(gpus, version)))


def shape_words(system: System, version: Version) -> str:
    """The properties that match, in words: "7 xGMI links each, 2 NUMA nodes, no NICs"."""
    shape = shape_of(system, version)
    counts = [sum(row) for row in shape.links]
    low, high = min(counts, default=0), max(counts, default=0)
    span = str(high) if low == high else f"{low} to {high}"
    links = f"{span} xGMI link{'s' * (span != '1')} each"
    nets = len(shape.nic_numa)
    nodes = f"{shape.cpus} NUMA node{'s' * (shape.cpus != 1)}"
    nics = f"{nets} NIC{'s' * (nets != 1)}" if nets else "no NICs in its graph"
    return f"{links if high else 'no xGMI'}, {nodes}, {nics}"
