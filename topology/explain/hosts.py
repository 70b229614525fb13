"""What the library does over several equal hosts, in sections: the answer, rails, rings, trees."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from ..model.english import first as cut
from ..model.gathered import gathered_by
from ..model.page import Section
from ..nccl.decide.summary import (
    CAPITALS,
    algorithm,
    choice_line,
    duration,
    graph_line,
)
from ..nccl.hosts.bound import all_reduce_gbs
from ..nccl.hosts.rails import ring_hops, tree_hops
from ..nccl.hosts.records import (
    ChannelEnd,
    HostRing,
    HostTree,
    MultiNode,
    Rail,
    RingStop,
)
from ..nccl.wording import gbs

MOST_ROWS = 16
"""Of a table; the JSON document has all of them."""
MOST_NUMBERS = 8

Row = tuple[str, ...]
Table = tuple[Row, ...]


def sections(found: MultiNode, said: Container[str] = ()) -> Iterator[Section]:
    """The answer first; tables stay short, however many hosts there are.

    `said`: assumptions that stand elsewhere.
    """
    yield Section(title=answer(found), paragraphs=tuple(_between(found)))
    if found.failure:
        return
    yield Section(title="Rails", table=_rails(found), bullets=tuple(_crossings(found)))
    yield Section(title=_rings_title(found), table=_rings(found))
    yield Section(title="Trees", table=_trees(found), bullets=tuple(_branches(found)))
    yield Section(
        title="Graphs that all hosts agree on",
        bullets=(
            graph_line("Ring", found.graphs.ring),
            graph_line("Tree", found.graphs.tree),
            graph_line("NVLS", found.graphs.nvls),
        ),
    )
    if found.choices:
        yield Section(
            title="All-reduce by size (the library's own model)",
            bullets=tuple(choice_line(choice, found.ranks) for choice in found.choices),
        )
    assumed = tuple(text for text in found.assumptions if text not in said)
    if assumed:
        yield Section(title="Assumed for several hosts", bullets=assumed)


def answer(found: MultiNode) -> str:
    """What a large all-reduce reaches, and what bounds it, in a line."""
    over = f"{found.hosts} hosts, {found.ranks} GPUs"
    what = found.bound.what
    if found.failure:
        return f"{over}: the job would not start"
    low, high = all_reduce_gbs(found)
    if low < high:
        return (
            f"{over}: all-reduce 1 GiB {gbs(low)} to {gbs(high)} GB/s bus (estimate), from RCCL's "
            f"count of its rings to the NICs; by that count bound by {what}"
        )
    if not found.choices:
        return f"{over}: rings carry {gbs(found.ring_gbs)} GB/s (predicted), bound by {what}"
    return f"{over}: all-reduce 1 GiB {gbs(low)} GB/s bus (predicted), bound by {what}"


def _between(found: MultiNode) -> Iterator[str]:
    """The transport, what else is behind the answer, and what is out of the ordinary."""
    if found.failure:
        yield f"✗ {found.failure}"
        return
    gdr = {
        "all": "with GPUDirect RDMA",
        "some": "with GPUDirect RDMA at some ends",
        "none": "without GPUDirect RDMA",
        "unknown": "GPUDirect RDMA not known",
    }[found.gdr]
    rails = "rail to rail" if found.aligned else "rails cross"
    words = [f"NET/{found.network} {gdr}", "one NIC a host" if len(found.rails) == 1 else rails]
    if _relays(found):
        words.append("relays (PXN)")
    if found.choices:
        last = found.choices[-1]
        words.append(f"{algorithm(last)} in {duration(last.expected_us)}")
    yield ", ".join(words)
    name = f"{CAPITALS.get(found.library.name, found.library.name)} {found.library.version}"
    why = f"{name}: rings carry {gbs(found.ring_gbs)} GB/s from host to host; {found.bound.because}"
    if found.bound.ceiling_gbs is not None:
        last = found.choices[-1]
        why += f"; its own ceiling for {algorithm(last)} is {gbs(found.bound.ceiling_gbs)} GB/s bus"
    yield why
    if found.nodes > found.hosts:
        each = found.nodes // found.hosts
        yield f"Each host counts as {each} nodes; the numbers below are those of nodes."
    change = found.change
    if change is not None:
        lacking = ", ".join(f"{nic} on host {host}" for host, nic in found.missing)
        text = (
            f"Without {lacking}: {change.ring_channels[1]} rings instead of "
            f"{change.ring_channels[0]}, {gbs(change.ring_gbs[1])} GB/s from host to host instead "
            f"of {gbs(change.ring_gbs[0])}"
        )
        if change.all_reduce_gbs is not None:
            before, after = change.all_reduce_gbs
            text += f", an all-reduce of 1 GiB at {gbs(after)} GB/s bus instead of {gbs(before)}"
        yield text + "."


def _relays(found: MultiNode) -> bool:
    ports = (stop.sends for ring in found.rings for stop in ring.stops)
    more = (port for tree in found.trees for place in tree.places for port in place.down)
    return any(port.relay is not None for group in (ports, more) for port in group)


def _rails(found: MultiNode) -> Table:
    if not found.rails:
        return ()
    head: Row = ("NIC", "GB/s", "used by", "rings on channels", "rings enter at", "not on host")
    rows = [head, *map(_rail, found.rails[:MOST_ROWS])]
    if not any(rail.missing_on for rail in found.rails):
        rows = [row[:-1] for row in rows]
    return tuple(rows)


def _rail(rail: Rail) -> Row:
    return (
        rail.nic,
        gbs(rail.gbs),
        numbers(rail.ranks),
        numbers(rail.ring_channels) or "none",
        " ".join(rail.ring_to) or "-",
        numbers(rail.missing_on),
    )


def _crossings(found: MultiNode) -> Iterator[str]:
    if len(found.rails) > MOST_ROWS:
        yield f"... and {len(found.rails) - MOST_ROWS} more NICs"
    ring = found.graphs.ring
    if ring is not None and ring.cross_nic and len(found.rails) > 1:
        yield (
            f"rings enter a host by one NIC and may leave by another (cross_nic {ring.cross_nic}); "
            "NCCL_CROSS_NIC=0 keeps them on one"
        )
    if not found.aligned:
        yield from _misaligned(found)
    relayed = [route for route in found.send_routes if route.relay is not None]
    if relayed:
        yield (
            f"send and receive: {len(relayed)} of {len(found.send_routes)} pairs of GPUs hand the "
            "bytes to the GPU beside the receiver's rail (PXN)"
        )
    elif found.send_routes:
        yield "send and receive: no GPU hands bytes over to another (no PXN)"


def _misaligned(found: MultiNode) -> Iterator[str]:
    """Where NICs of different names meet, and what that takes."""
    rings = {
        (place, (place + 1) % found.nodes)
        for ring in found.rings
        for place, (one, other) in enumerate(ring_hops(ring))
        if one.nic != other.nic
    }
    if rings:
        pairs = [f"{one} and {other}" for one, other in sorted(rings)]
        shown = ", ".join(pairs[:MOST_NUMBERS]) + (" and more" if len(pairs) > MOST_NUMBERS else "")
        yield f"rings change rails between {shown}" + (
            ": channels swap NICs from one node to the next, and the number of nodes is odd"
            if rings == {(found.nodes - 1, 0)} and found.nodes % 2 and not found.missing
            else ""
        )
    if any(one.nic != other.nic for tree in found.trees for one, other in tree_hops(tree)):
        yield "trees change rails too"
    yield "switches that join the NICs of one rail alone have no way there"


def _rings_title(found: MultiNode) -> str:
    if not found.rings:
        return "Rings: none"
    last = found.nodes - 1
    inner = map(str, range(1, last)) if last < MOST_NUMBERS else ("...",)
    count = sum(len(ring.channels) for ring in found.rings)
    return f"Rings: {' > '.join(('0', *inner, str(last), '0'))} on {count} channels"


def _rings(found: MultiNode) -> Table:
    """One row for each ring and each way of passing a node."""
    each = found.ranks // found.hosts
    rows: list[Row] = [("channels", "hosts", "receive on rank", "send on rank")]
    for ring in found.rings:
        for places, stop in _alike(ring, found.hosts, each):
            rows.append(
                (numbers(ring.channels), places, end(stop.receives, each), end(stop.sends, each))
            )
    return _cut(rows)


def _alike(ring: HostRing, hosts: int, each: int) -> Iterator[tuple[str, RingStop]]:
    groups = gathered_by(ring.stops, lambda stop: (end(stop.receives, each), end(stop.sends, each)))
    for stops in groups.values():
        yield places_in_words([stop.node for stop in stops], len(ring.stops)), stops[0]


def places_in_words(places: Sequence[int], count: int) -> str:
    """Numbers of nodes in short: "all", "even", "odd", "0-2 5"."""
    for word, every in (("all", 1), ("even", 2)):
        if list(places) == list(range(0, count, every)):
            return word
    return "odd" if list(places) == list(range(1, count, 2)) else numbers(places)


def end(port: ChannelEnd, each: int) -> str:
    """One end of a connection, the rank as on the first host: "1 by mlx5_0 over 0 (PXN)"."""
    text = f"{port.rank % each} by {port.nic or 'no known NIC'}"
    return text if port.relay is None else f"{text} over {port.relay % each} (PXN)"


def _trees(found: MultiNode) -> Table:
    """Which GPUs of a host talk with its parent and its children, tree by tree."""
    each = found.ranks // found.hosts
    rows: list[Row] = [("channels", "to the parent on rank", "to the children on rank")]
    shapes: dict[tuple[str, str], list[int]] = {}
    for tree in found.trees:
        ups = _ends((place.up for place in tree.places if place.up is not None), each)
        downs = _ends((port for place in tree.places for port in place.down), each)
        shapes.setdefault((ups, downs), []).extend(tree.channels)
    rows += [(numbers(sorted(channels)), *ends) for ends, channels in shapes.items()]
    return _cut(rows)


def _ends(ports: Iterable[ChannelEnd], each: int) -> str:
    return ", ".join(dict.fromkeys(end(port, each) for port in ports))


def _branches(found: MultiNode) -> Iterator[str]:
    """Both trees from host to host, and those of NVLS, which are the same."""
    shapes: dict[tuple[int | None, ...], tuple[HostTree, list[int]]] = {}
    for tree in found.trees:
        parents = tuple(place.parent for place in tree.places)
        shapes.setdefault(parents, (tree, []))[1].extend(tree.channels)
    for tree, channels in shapes.values():
        inner = [place for place in tree.places if place.children]
        root = next(place.node for place in tree.places if place.parent is None)
        shown = "; ".join(
            f"{place.node} has {numbers(place.children)}" for place in inner[:MOST_NUMBERS]
        )
        if len(inner) > MOST_NUMBERS:
            shown += f"; and {len(inner) - MOST_NUMBERS} more with children"
        yield f"channels {numbers(sorted(channels))}: root {root}; {shown}"
    nvls = found.nvls_trees
    if nvls is not None:
        heads = len(nvls.heads[0])
        yield (
            f"NVLS: the same two trees, each between {heads} GPUs of a host and those of the same "
            "place elsewhere; inside a host multicast does the work"
        )


def numbers(values: Iterable[int]) -> str:
    """Numbers with runs folded: "0-3 8"; a long list is cut."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    words = [
        f"{first}"
        if first == last
        else f"{first} {last}"
        if last == first + 1
        else f"{first}-{last}"
        for first, last in runs
    ]
    return cut(words, MOST_NUMBERS, " ")


def _cut(rows: list[Row]) -> Table:
    if len(rows) <= MOST_ROWS + 1:
        return tuple(rows)
    blank = ("",) * (len(rows[0]) - 1)
    more = (f"... {len(rows) - MOST_ROWS - 1} more", *blank)
    return (*rows[: MOST_ROWS + 1], more)
