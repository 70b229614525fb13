"""Where a channel among many GPUs may go next, as far as that does not depend on its speed."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import NamedTuple

from ..nodes import SystemLink, SystemNode
from .draft import RING
from .ledger import Lanes
from .orders import FREE, Orders

Ranked = tuple[tuple[int, ...], tuple[int, ...]]
"""(the GPUs to try after one, in order; the links, by number, that all ways to them share)."""


class Gates(NamedTuple):
    """Links that more than half of the ways to a GPU cross; sets of GPUs are bits.

    Where such a link is full, few GPUs can still reach those behind it.
    """

    behind: dict[int, int]
    """By number of a link: the GPUs that it is a gate of."""
    past: list[int]
    """By GPU: those it has a way to that does not cross all of their gates."""


class Choices:
    """The ways between GPUs that are no farther than a type, or `mutual`: nor the ways back."""

    def __init__(
        self, gpus: list[SystemNode], orders: Orders, lanes: Lanes, near: int, mutual: bool
    ) -> None:
        self._gpus, self._orders, self._lanes = gpus, orders, lanes
        self._near, self._mutual = near, mutual
        self._ranked: dict[int, Ranked] = {}

    def after(self, gpu: int) -> Ranked:
        """The GPUs to try after one, where their order depends on nothing else."""
        known = self._ranked.get(gpu)
        if known is None:
            order = self._orders.after(gpu, 0, FREE, -1, RING, 0)
            others = tuple(other for other in order if self._allowed(gpu, other))
            ways = self._gpus[gpu].paths["GPU"]
            links = [ways[other].links for other in others]
            common = set(links[0]).intersection(*links[1:]) if links else set()
            known = self._ranked[gpu] = others, self._lanes.numbers(common)
        return known

    @cached_property
    def gates(self) -> Gates:
        """The gates of all GPUs."""
        behind: dict[int, int] = {}
        past = [0] * len(self._gpus)
        for gpu in range(len(self._gpus)):
            ways = self._ways_to(gpu)
            # A direct link is the way of one GPU alone.
            several = (links for links in ways.values() if len(links) > 1)
            crossed = Counter(link for links in several for link in links)
            gates = {link for link, count in crossed.items() if 2 * count > len(ways)}
            for link in self._lanes.numbers(gates):
                behind[link] = behind.get(link, 0) | 1 << gpu
            for other, links in ways.items():
                if not gates.issubset(links):
                    past[other] |= 1 << gpu
        return Gates(behind, past)

    def _ways_to(self, gpu: int) -> dict[int, tuple[SystemLink, ...]]:
        return {
            other: node.paths["GPU"][gpu].links
            for other, node in enumerate(self._gpus)
            if other != gpu and self._allowed(other, gpu)
        }

    def _allowed(self, gpu: int, other: int) -> bool:
        gpus = self._gpus
        if gpus[gpu].paths["GPU"][other].type > self._near:
            return False
        return not (self._mutual and gpus[other].paths["GPU"][gpu].type > self._near)
