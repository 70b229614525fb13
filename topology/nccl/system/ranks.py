"""The GPUs of a topology XML and their ranks."""

from collections.abc import Iterator

from ...model.element import Element
from ..settings import strtoll

Place = tuple[str, str]
"""Where a GPU is: the `host_hash` of its CPU and its bus id, both as the XML writes them."""


def gpus_of(root: Element) -> Iterator[tuple[Place, Element]]:
    """Every GPU of the XML with its place, in document order."""
    for cpu in root.each("cpu"):
        host = cpu.get("host_hash") or ""
        for pci in cpu.walk("pci"):
            gpu = next(pci.each("gpu"), None)
            if gpu is not None:
                yield (host, (pci.get("busid") or "").lower()), gpu


def ranks_of(root: Element) -> dict[Place, int]:
    """Place -> rank, as the XML says, else by host and bus id; a repeated rank counts once."""
    found = list(gpus_of(root))
    if not any(gpu.get("rank") is not None for _, gpu in found):
        hosts = list(dict.fromkeys(host for (host, _), _ in found))
        places = sorted({place for place, _ in found}, key=lambda p: (hosts.index(p[0]), p[1]))
        return {place: rank for rank, place in enumerate(places)}
    ranks: dict[Place, int] = {}
    taken: set[int] = set()
    for place, gpu in found:
        text = gpu.get("rank")
        rank = strtoll(text)[0] if text is not None else -1
        if rank >= 0 and place not in ranks and rank not in taken:
            ranks[place] = rank
            taken.add(rank)
    return ranks
