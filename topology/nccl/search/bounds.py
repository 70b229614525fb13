"""How many channels there can be at most, which spares attempts that cannot matter.

Every channel leaves and enters each GPU once (but for its ends) over a first and a last link;
what these can carry bounds the count, whatever lies between.
"""

from __future__ import annotations

from .draft import RING, GraphDraft
from .field import Carriers, Field
from .ledger import is_dear


class Bounds:
    """Upper bounds for the channels of a ring or tree."""

    def __init__(self, field: Field) -> None:
        self._field = field

    def channels(self, draft: GraphDraft) -> int:
        """No attempt with this draft completes more channels."""
        if self._field.count == 1:
            return draft.most
        out, into, _ = self._carriers(draft.type_intra)
        most = draft.most
        if self._field.inter:
            most = min(most, self._nic_channels(draft))
        for carriers in (out, into):
            room = [_room(links, draft.speed_intra) for links in carriers]
            most = self._fitting(room, most, closed=draft.pattern == RING)
        return most

    def hops(self, draft: GraphDraft, channels: int) -> int:
        """No attempt completes so many channels with fewer links."""
        closes = draft.pattern == RING and not self._field.inter
        steps = self._field.count - (0 if closes else 1)
        return draft.hops + channels * steps * self._carriers(draft.type_intra)[2]

    def _fitting(self, room: list[int], most: int, *, closed: bool) -> int:
        if closed and not self._field.inter:
            return min(most, *room)
        while most and sum(min(channels, most) for channels in room) < most * (len(room) - 1):
            most -= 1
        return most

    def _nic_channels(self, draft: GraphDraft) -> int:
        whole_gbs, speed = draft.speed_inter // 1000, draft.speed_inter
        if not speed:
            return draft.most
        nics = self._field.nics
        starts = sum(
            int(nics.speeds_gbs[net] // whole_gbs) if whole_gbs else draft.most
            for net, sharing in enumerate(nics.sharing)
            if sharing[0] == net or nics.speeds_gbs[net] != nics.speeds_gbs[sharing[0]]
        )
        links = [
            round(sum(link.bandwidth_gbs for link in net.links) * 1000) for net in self._field.nets
        ]
        return min(draft.most, starts, sum(link // speed for link in links))

    def _carriers(self, farthest: int) -> tuple[Carriers, Carriers, int]:
        near = max((kind for kind in self._field.gpu_types if kind <= farthest), default=-1)
        known = self._field.carriers.get(near)
        if known is None:
            known = self._field.carriers[near] = self._collect(near)
        return known

    def _collect(self, farthest: int) -> tuple[Carriers, Carriers, int]:
        field = self._field
        out: list[dict[int, tuple[int, bool]]] = [{} for _ in field.gpus]
        into: list[dict[int, tuple[int, bool]]] = [{} for _ in field.gpus]
        fewest = 0
        for gpu in field.gpus:
            for other, path in enumerate(gpu.paths["GPU"]):
                if other == gpu.index or path.type > farthest or not path.links:
                    continue
                fewest = path.hops if not fewest else min(fewest, path.hops)
                dear = is_dear(path, gpu) and any(link.kind == "PCI" for link in path.links)
                for side, link in ((out[gpu.index], path.links[0]), (into[other], path.links[-1])):
                    mbs, only = side.get(id(link), (round(link.bandwidth_gbs * 1000), True))
                    side[id(link)] = (mbs, only and dear and link.kind == "PCI")
        return (
            [list(links.values()) for links in out],
            [list(links.values()) for links in into],
            fewest,
        )


def _room(links: list[tuple[int, bool]], speed: int) -> int:
    """Channels that fit on all these links together."""
    if not speed:
        return 1 << 20
    return sum(mbs // (speed * 6 // 5 if dear else speed) for mbs, dear in links)
