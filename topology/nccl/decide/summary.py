"""A prediction in words: clauses for the Node screen, a few lines for the command line."""

import re
from collections import Counter
from collections.abc import Sequence

from ...model.units import figure
from ..prediction import AlgorithmChoice, PairDecision, Prediction, SearchGraph
from ..wording import gbs, message_size

RELAY = re.compile(r"P2P/indirect/\d+\[\d+\]")
"""The relay's rank and device in a label, which differ from pair to pair."""

CAPITALS = {"nccl": "NCCL", "rccl": "RCCL"}


def library_name(prediction: Prediction) -> str:
    """Name and version: "NCCL 2.28.9"."""
    library = prediction.library
    return f"{CAPITALS.get(library.name, library.name)} {library.version}"


def clauses(prediction: Prediction, whose: str = "") -> tuple[str, ...]:
    """Clauses about the decisions, the most telling first; `whose`: "AMD" on a mixed node."""
    name = library_name(prediction)
    if any("no installed" in text for text in prediction.assumptions):
        name += " (assumed)"
    found = []
    if last := largest_choice(prediction):
        found.append(f"by {last}{f' on the {whose} GPUs' if whose else ''}")
    if len(prediction.views) > 1:
        found.append(f"the host counts as {prediction.nodes} nodes")
    return (*found, transports_in_short(prediction, whose), name)


def largest_choice(prediction: Prediction) -> str:
    """The choice for the largest all-reduce: "NVLS Simple"; "" where no choice is modelled."""
    return algorithm(prediction.choices[-1]) if prediction.choices else ""


def transports_in_short(prediction: Prediction, whose: str = "") -> str:
    """One label for all, "P2P/CUMEM between all 8 GPUs", or the share of each transport.

    `whose`: the vendor of the GPUs that are meant, where a node has others too.
    """
    gpus = f"{whose} GPUs".strip()
    counts: Counter[str] = Counter()
    # 128 GPUs are 16 thousand pairs with a label or two.
    for label, count in Counter(pair.label or pair.transport for pair in prediction.pairs).items():
        counts[RELAY.sub("P2P/indirect", label)] += count
    ranks = sum(len(view.ranks) for view in prediction.views)
    if not counts:
        return f"one {gpus.removesuffix('s')}, nothing to connect"
    if len(counts) == 1:
        both = "the two" if ranks == 2 else f"all {ranks}"
        return f"{next(iter(counts))} between {both} {gpus}"
    return _shares(prediction, counts, gpus if whose else "")


def _shares(prediction: Prediction, counts: Counter[str], gpus: str) -> str:
    """The share of each transport; `gpus`: which GPUs are meant, where a node has others too."""
    kinds = Counter(pair.transport for pair in prediction.pairs)
    relayed = sum(count for label, count in counts.items() if label.startswith("P2P/indirect"))
    both_ways = relayed % 2 == 0 and kinds == _twice(prediction)
    # Both directions are one pair to a reader, unless they differ.
    ways, what = (2, "pairs") if both_ways else (1, "directions")
    words = [f"{kind} {count // ways}" for kind, count in kinds.items()]
    relayed, total = relayed // ways, f"{len(prediction.pairs) // ways} {what}"
    if relayed and set(kinds) == {"P2P"}:
        ranks = sum(len(view.ranks) for view in prediction.views)
        return f"P2P between all {ranks} {gpus or 'GPUs'}, {relayed} of {total} relayed"
    text = f"{', '.join(words)} of {total}{f' of {gpus}' if gpus else ''}"
    return f"{text}, {relayed} relayed by another GPU" if relayed else text


def _twice(prediction: Prediction) -> dict[str, int]:
    """How many directions use each transport, if the way back were always like the way there."""
    there = Counter(pair.transport for pair in prediction.pairs if pair.src < pair.dst)
    return {kind: 2 * count for kind, count in there.items()}


def graph_line(name: str, graph: SearchGraph | None) -> str:
    """One searched graph: channels, bandwidth, how far its members are apart."""
    if graph is None or not graph.channels:
        return f"{name}: none"
    inter = ""
    if graph.nets:
        inter = f", to the NICs {gbs(graph.bw_inter)} GB/s {graph.type_inter}"
    words = f"{graph.channels} × {gbs(graph.bw_intra)} GB/s {graph.type_intra}{inter}"
    kind = {1: "balanced", 2: "split", 3: "plain"}.get(graph.pattern, "")
    if kind:
        words += f" ({kind} tree)"
    if graph.at_floor:
        words += " (no ring fits: the floor of its table)"
    return f"{name}: {words}{' (estimate)' if graph.estimate else ''}"


def algorithm(choice: AlgorithmChoice) -> str:
    """Algorithm and protocol as people write them: "Ring LL128"."""
    names = {"COLLNET_DIRECT": "CollNet direct", "COLLNET_CHAIN": "CollNet chain"}
    title = names.get(choice.algorithm, choice.algorithm.replace("_", " ").title())
    title = title.replace("Nvls", "NVLS").replace("Pat", "PAT")
    protocol = "Simple" if choice.protocol == "SIMPLE" else choice.protocol
    return f"{title} {protocol}"


def choice_line(choice: AlgorithmChoice, ranks: int) -> str:
    """Size, algorithm, channels, time, bus bandwidth by the model; * where MSCCL may run."""
    seconds = choice.expected_us * 1e-6
    bus = choice.bytes / seconds / 1e9 * 2 * (ranks - 1) / ranks if seconds else 0.0
    first, last = choice.channels
    return (
        f"{message_size(choice.bytes):>8}  {algorithm(choice):<16} channels {first}..{last:<3} "
        f"{duration(choice.expected_us):>9}  {bus:6.1f} GB/s bus{' *' if choice.instead else ''}"
    )


def instead_line(choices: Sequence[AlgorithmChoice]) -> str:
    """The note that explains the * of `choice_line`; "" where no line has one."""
    kinds = dict.fromkeys(choice.instead for choice in choices if choice.instead)
    if not kinds:
        return ""
    return f"* in its place {' or '.join(kinds)}, where its files are installed: see Assumed"


def duration(microseconds: float | None) -> str:
    """A time with three digits: "44.4 us", "180 us", "4.61 ms", "not known"."""
    if microseconds is None:
        return "not known"
    if microseconds < 1000:
        return f"{figure(microseconds) if microseconds >= 10 else f'{microseconds:.1f}'} us"
    return f"{figure(microseconds / 1000)} ms"


def groups(prediction: Prediction) -> list[tuple[str, str, list[PairDecision]]]:
    """Pairs that are treated alike, as (path, label, pairs), nearest first."""
    found: dict[tuple[str, str], list[PairDecision]] = {}
    for pair in prediction.pairs:
        label = RELAY.sub("P2P/indirect", pair.label or pair.transport)
        found.setdefault((pair.path, label), []).append(pair)
    return [(path, label, pairs) for (path, label), pairs in found.items()]


def ring_hops(prediction: Prediction) -> Counter[tuple[str, str]]:
    """Count hops of the first ring by (path type, transport); empty without a ring."""
    ring = prediction.graphs.ring
    counted: Counter[tuple[str, str]] = Counter()
    if ring is None or not ring.orders:
        return counted
    known = {(pair.src, pair.dst): pair for pair in prediction.pairs}
    order = ring.orders[0]
    for place, rank in enumerate(order):
        pair = known.get((rank, order[(place + 1) % len(order)]))
        if pair is not None:
            counted[pair.path, pair.transport] += 1
    return counted
