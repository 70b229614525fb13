"""The GPUs of a topology XML and their ranks."""

from __future__ import annotations

from collections.abc import Iterator

from .element import Element
from .settings import strtoll


def gpus_of(root: Element) -> Iterator[tuple[str, Element]]:
    """Every GPU of the XML with the bus id of its PCI device, in document order."""
    for pci in root.walk():
        gpu = next(pci.each("gpu"), None) if pci.tag == "pci" else None
        if gpu is not None:
            yield (pci.get("busid") or "").lower(), gpu


def ranks_of(root: Element) -> dict[str, int]:
    """Bus id -> rank, as the XML says, else by bus id; repeated ranks keep the first GPU."""
    found = list(gpus_of(root))
    if not any(gpu.get("rank") is not None for _, gpu in found):
        return {bus: rank for rank, bus in enumerate(sorted({bus for bus, _ in found}))}
    ranks: dict[str, int] = {}
    for bus, gpu in found:
        text = gpu.get("rank")
        rank = strtoll(text)[0] if text is not None else -1
        if rank >= 0 and bus not in ranks and rank not in ranks.values():
            ranks[bus] = rank
    return ranks
