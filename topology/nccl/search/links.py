"""How many steps of a graph are one direct link (RCCL's search.cc:ncclTopoCountXGMI)."""

from __future__ import annotations

from collections.abc import Sequence

from .field import Field


def direct_links(field: Field, orders: Sequence[Sequence[int]]) -> int:
    """Neighbours in the channels' orders, the last and the first too, with a link of their own."""
    count = 0
    for order in orders:
        for place, gpu in enumerate(order):
            other = order[(place + 1) % len(order)]
            links = field.gpus[gpu].paths["GPU"][other].links
            count += len(links) == 1 and links[0].kind == "NVL"
    return count
