"""What the ranks and the network of a job leave of a topology XML.

Each rank keeps its own GPU and the NICs that its network reports, numbers these by their place
(graph/topo.cc:ncclTopoPopulateNics) and drops the branches in which nothing is kept
(graph/xml.cc:ncclTopoTrimXmlRec). What the ranks have is put together in their order
(ncclTopoFuseXml); versions before 2.22 do all that in one XML.
"""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from ...model.element import Element
from .networks import nets_of, number_of
from .ranks import Place

BRANCHES = {"cpu", "pci", "nic", "net"}
NEVER = 1 << 30
"""In place of a rank: none keeps the branch."""


def trimmed(
    root: Element, ranks: Mapping[Place, int], nets: Collection[Element], *, fuses: bool
) -> Element:
    """The XML with the GPUs of these ranks and these NICs alone.

    `fuses`: branches stand in the order of the ranks that have them first.
    """
    first: dict[str, int] = {}
    for (host, _), rank in ranks.items():
        first[host] = min(rank, first.get(host, NEVER))
    numbers = None if len(nets) == len(nets_of(root)) else _numbers(root, nets)
    kept = {id(net) for net in nets}
    return _Trimmer(ranks, first, kept, numbers or {}, fuses=fuses).root(root)


def _numbers(root: Element, nets: Collection[Element]) -> dict[int, int]:
    """The place of each NIC on its host, by id()."""
    kept = {id(net) for net in nets}
    hosts: dict[str, list[Element]] = {}
    for cpu in root.each("cpu"):
        own = [net for net in cpu.walk("net") if id(net) in kept]
        hosts.setdefault(cpu.get("host_hash") or "", []).extend(own)
    return {
        id(net): place
        for own in hosts.values()
        for place, net in enumerate(sorted(own, key=number_of))
    }


class _Trimmer:
    def __init__(
        self,
        ranks: Mapping[Place, int],
        first: Mapping[str, int],
        nets: Collection[int],
        numbers: Mapping[int, int],
        *,
        fuses: bool,
    ) -> None:
        self._ranks, self._first, self._nets = ranks, first, nets
        self._numbers, self._fuses = numbers, fuses

    def root(self, root: Element) -> Element:
        found = [
            self._cut(child, child.get("host_hash") or "") if child.tag == "cpu" else (0, child)
            for child in root.children
        ]
        return self._with(root, [one for one in found if one is not None])

    def _cut(self, element: Element, host: str) -> tuple[int, Element] | None:
        """The first rank that keeps an element, and what is left of it; None for nothing."""
        if element.tag == "net":
            known = id(element) in self._nets and host in self._first
            return (self._first[host], self._numbered(element)) if known else None
        cut = [
            self._cut(child, host) if child.tag in BRANCHES else (NEVER, child)
            for child in element.children
        ]
        left = [one for one in cut if one is not None]
        rank = min((first for first, _ in left), default=NEVER)
        if element.tag == "pci" and any(element.each("gpu")):
            place = host, (element.get("busid") or "").lower()
            rank = min(rank, self._ranks.get(place, NEVER))
        if rank == NEVER:
            return None
        # What is no branch comes with the element itself.
        return rank, self._with(element, [(rank if n == NEVER else n, one) for n, one in left])

    def _with(self, element: Element, children: list[tuple[int, Element]]) -> Element:
        if self._fuses:
            children.sort(key=lambda child: child[0])
        return replace(element, children=tuple(child for _, child in children))

    def _numbered(self, net: Element) -> Element:
        place = self._numbers.get(id(net))
        if place is None:
            return net
        said = tuple((n, str(place) if n == "dev" else value) for n, value in net.attributes)
        return replace(net, attributes=said)
