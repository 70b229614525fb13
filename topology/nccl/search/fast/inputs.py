"""All that a search reads of a system, with numbers in place of names.

Two systems with equal inputs have equal graphs, up to the names of GPUs and NICs: a search reads
nothing but what stands here. GPUs keep their order, which decides between equals. NICs are taken
in the order in which the search tries them, links in the order in which paths cross them.
"""

from collections.abc import Hashable, Iterable, Iterator

import msgspec

from ....model.versions import numbers
from ...nodes import CPU, GPU, NET, NVS, CpuArch, SystemKind, SystemLink, SystemPath
from ...settings import Settings
from ...versions import Version
from ..nics import EVERY
from ..rccl_models import is_rome_like
from ..space import SearchSpace

try:
    from _blake2 import blake2b  # `hashlib` loads OpenSSL, which takes 3 MiB
except ImportError:
    from hashlib import blake2b

VARIABLES = (
    "NCCL_CROSS_NIC",
    "NCCL_NETDEVS_POLICY",
    "NCCL_MNNVL_SCATTER_NETS_ENABLE",
    "NCCL_MNNVL_RAIL_PER_HOST",
)
"""The variables that the search itself reads; others act through paths."""

ANYWHERE = -1
"""A path type nearer than all: only the preferred NICs are within it."""


class Inputs:
    """The inputs of one search."""

    def __init__(
        self, space: SearchSpace, version: Version, settings: Settings, *, nvls: bool
    ) -> None:
        self._space, self._nvls = space, nvls
        self._version, self._settings = version, settings
        self._numbers: dict[SystemLink, int] = {}
        self.nets = self._nets_in_order()
        """NICs by index in `System.nodes`, in the order in which they are numbered here."""
        self._places = {net: place for place, net in enumerate(self.nets)}

    def digest(self) -> bytes:
        """Equal where all inputs are; they themselves would take megabytes."""
        paths = self._path_figures()
        every = (
            self._head(),
            [self._gpu(index) for index in range(self._space.count)],
            self._net_figures(),
            list(self._lists()),
            paths,
            self._link_figures(),
        )
        return blake2b(msgspec.msgpack.encode(every), digest_size=32).digest()

    def _head(self) -> list[object]:
        space, system, version = self._space, self._space.system, self._version
        cpu = system.nodes[CPU][:1]
        rules = space.version
        older = numbers(version.number) < numbers(rules.number)
        return [
            version.library,
            version.path_types,
            version.path_names,
            version.kinds_apart,
            # Versions that search alike come to the same graphs.
            msgspec.structs.replace(rules, number=rules.number * older, after=None, tested=False),
            self._nvls,
            system.inter,
            system.hosts,
            system.widest,
            len(system.withdrawn),
            space.count,
            space.min_sm,
            space.switched,
            version.is_rccl and is_rome_like(system, version, self._settings),
            [(one.arch, one.vendor) == ("x86", "amd") for one in cpu],
            [repr(self._settings.text(name)) for name in VARIABLES],
        ]

    def _nets_in_order(self) -> list[int]:
        space = self._space
        tried = space.nics.to_try(max(space.net_types), EVERY) if self._tries_nics else ()
        return [*dict.fromkeys((*tried, *range(len(space.nets))))]

    @property
    def _tries_nics(self) -> bool:
        return self._space.inter and bool(self._space.nets) and bool(self._space.net_types)

    def _gpu(self, index: int) -> list[object]:
        gpu = self._space.gpus[index]
        # `limits` sums them up in this order, and what is rounded depends on it.
        sums = [(link.kind, link.bandwidth_gbs) for link in gpu.links]
        return [sums, [self._number(link) for link in self._space.orders.pci[index]]]

    def _net_figures(self) -> list[object]:
        nets, nics = self._space.nets, self._space.nics
        found: list[object] = []
        same: dict[Hashable, int] = {}
        for index in self.nets:
            net = nets[index]
            names: Iterable[Hashable]
            names = (net.asic, net.port), ("pci", net.pci_ident, net.port), ("host", net.host)
            found.append(
                (
                    net.speed_gbs,
                    net.latency_us,
                    nics.owner(index),
                    [same.setdefault(name, len(same)) for name in names],
                    [link.bandwidth_gbs for link in net.links],
                )
            )
        return found

    def _lists(self) -> Iterator[list[int]]:
        """The NICs to try within each path type that exists, by GPU."""
        space = self._space
        if not space.nets:
            return
        farthest, gpus = [ANYWHERE], [0, space.count - 1]
        if self._tries_nics:
            farthest += space.net_types
            gpus = [EVERY, *range(space.count)]
        for kind in farthest:
            for gpu in gpus:
                yield [self._places[net] for net in space.nics.to_try(kind, gpu)]

    def _paths(self) -> Iterator[SystemPath]:
        nodes = self._space.system.nodes
        switches: tuple[tuple[SystemKind, SystemKind], ...] = ((GPU, NVS), (NVS, GPU))
        for gpu in self._space.gpus:
            yield from gpu.paths[GPU]
        for gpu in self._space.gpus:
            ways = gpu.paths.get(NET, ())
            yield from (ways[net] for net in self.nets if net < len(ways))
        for net in self.nets:
            yield from self._space.nets[net].paths.get(GPU, ())
        for start, end in switches:
            for node in nodes[start]:
                yield from node.paths.get(end, ())

    def _path_figures(self) -> list[object]:
        """Types, bandwidths and links of all paths, in rows: of many GPUs there are thousands."""
        paths = [*self._paths()]
        links = [link for path in paths for link in path.links]
        self._numbers.update((link, at) for at, link in enumerate(dict.fromkeys(links)))
        return [
            [path.type for path in paths],
            [path.bandwidth_gbs for path in paths],
            [len(path.links) for path in paths],
            [*map(self._numbers.__getitem__, links)],
        ]

    def _number(self, link: SystemLink) -> int:
        return self._numbers.setdefault(link, len(self._numbers))

    def _link_figures(self) -> list[object]:
        backs = self._space.ledger.backs
        found: list[object] = []
        links = [*self._numbers]
        # What leads back is numbered too, and has figures of its own.
        for link in links:
            to, back, number = link.to, backs.get(id(link)), None
            if back is not None:
                number = self._number(back)
                if number == len(links):
                    links.append(back)
            found.append(
                (
                    link.kind,
                    link.bandwidth_gbs,
                    (to.kind, to.sm < 80, to.arch == CpuArch.POWER),
                    (to.arch, to.vendor) == ("x86", "intel"),
                    number,
                )
            )
        return found
