"""A prediction as a page: transports, graphs, NICs and algorithms, or one pair with its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..explain.nccl import fact_of
from ..model.english import first, plural
from ..model.gathered import gathered_by
from ..model.page import Blank, Block, CellGrid, Facts, Text
from ..model.snapshot import NodeSnapshot
from ..model.surroundings import Software
from ..model.units import sentence
from ..nccl.decide.summary import (
    choice_line,
    clauses,
    graph_line,
    groups,
    instead_line,
    library_name,
)
from ..nccl.followed import followed
from ..nccl.prediction import DecisionStep, DomainView, PairDecision, Prediction
from ..nccl.versions import no_rules
from ..nccl.wording import gbs
from .nics import first_nic

LIVE = ("live",)
"""The source of a node that is this machine."""
MATRIX_RANKS = 16
"""With more ranks than this only groups are shown, and no bottleneck is sought."""
MOST_PAIRS = 28
GDR = {"Default": "GDR", "PCI": "GDR over PCIe", "Disabled": "no GDR"}


def _as_set(prediction: Prediction) -> Iterator[Text]:
    """The variables that it is for, and why it fails with them."""
    for name, value in prediction.environment.items():
        yield Text(f"{name}={value}", indent=2)
    for name, value, why in prediction.ignored:
        yield Text(f"• {name}={value} has no effect: {why}")
    if prediction.failure:
        yield Text(f"✗ {prediction.failure}")


def prediction_blocks(
    prediction: Prediction,
    pair: tuple[int, int] | None = None,
    cost: str = "",
    *,
    narrow: str = "",
    notes: Sequence[str] = (),
    unsure: bool = False,
) -> Iterator[Block]:
    """A prediction, or one ordered pair of ranks of it; `cost`: what is lost here.

    `notes`: what that stands on, and what helps.
    `narrow`: where the order of ranks that it takes is narrowest.
    `unsure`: whether its times hold only if NVLS comes up.
    """
    yield Text(_head(prediction))
    if guess := no_rules(prediction.library):
        yield Text(guess)
    if cost:
        yield Text(sentence(cost).removesuffix("."))
        yield from (Text(sentence(note), indent=2) for note in notes)
    if pair is None and prediction.pairs:
        yield Text(sentence(" · ".join(_in_short(prediction))).removesuffix("."))
    if narrow:
        yield Text(narrow)
    yield from _as_set(prediction)
    yield Blank()
    if pair is None:
        yield from _all(prediction, unsure)
    elif (found := prediction.pair(*pair)) is not None:
        yield from pair_blocks(found)
    if prediction.assumptions:
        yield from (Blank(), Text("Assumed:"))
        yield from (Text(f"- {text}") for text in prediction.assumptions)


def library_line(snapshot: NodeSnapshot, asked: str | None = None) -> str:
    """Which library is followed and why, where jobs run or may run; "" of a recorded idle node."""
    software = snapshot.machine.software or Software()
    live = tuple(snapshot.source) == LIVE
    if not software.running and (asked or not live):
        return ""
    hint = "; `gputop doctor` says what each Python's torch loads, and why"
    more = hint if live and not software.running and software.torch else ""
    return sentence(f"{followed(snapshot.machine, asked)}{more}")


def pair_blocks(pair: PairDecision) -> Iterator[Block]:
    """One ordered pair of ranks with every step of the decision."""
    over = f"path {pair.path}"
    if pair.hops is not None and pair.bandwidth_gbs is not None:
        over += (
            f", {plural(pair.hops, 'hop')}, {gbs(pair.bandwidth_gbs)} GB/s in the library's table"
        )
    yield Text(f"rank {pair.src} ({pair.src_bus_id}) to rank {pair.dst} ({pair.dst_bus_id})")
    yield Text(f"{' and '.join(pair.labels) or 'no transport'}: {over}")
    yield Blank()
    yield _steps(pair.steps)


def _head(prediction: Prediction) -> str:
    words = f"{library_name(prediction)}, {plural(prediction.ranks, 'GPU')}"
    if prediction.hosts > 1:
        words += f" on {prediction.hosts} hosts; pairs and NICs are those of one"
    if len(prediction.views) > 1:
        words += f", on {prediction.nodes} nodes by its count"
    return words


def _in_short(prediction: Prediction) -> Iterator[str]:
    """Algorithm and transports, as the screen Node says them, and the two graphs."""
    yield from clauses(prediction)[:-1]
    yield graph_line("ring", prediction.graphs.ring)
    yield graph_line("tree", prediction.graphs.tree)


def _all(prediction: Prediction, unsure: bool) -> Iterator[Block]:
    ranks = sorted(rank for view in prediction.views for rank in view.ranks)
    if len(ranks) <= MATRIX_RANKS:
        yield from (_matrix(prediction, ranks), Blank())
    for path, label, pairs in groups(prediction):
        rates = sorted({pair.bandwidth_gbs for pair in pairs if pair.bandwidth_gbs is not None})
        over = f"path {path}"
        if rates:
            span = gbs(rates[0]) + (f" to {gbs(rates[-1])}" if len(rates) > 1 else "")
            over += f", {span} GB/s in its table"
        yield Text(f"{label or 'no transport'}: {_which(pairs)}; {over}")
        yield _steps((step for step in pairs[0].steps if step.decides), 4)
    yield Blank()
    for number, view in enumerate(prediction.views):
        if len(prediction.views) > 1:
            yield Text(f"Domain {number}: ranks {', '.join(map(str, view.ranks))}")
        yield Text(graph_line("Ring", view.graphs.ring))
        yield Text(graph_line("Tree", view.graphs.tree))
        model = view.steps.get("model", ())
        nvls = view.steps.get("nvls", ())
        if model:
            yield _steps(model, 2)
        elif nvls and nvls[-1].refuses:
            yield Text(f"NVLS: none; {nvls[-1].question} no: {nvls[-1].because}")
        else:
            yield Text(graph_line("NVLS", view.graphs.nvls))
        yield from _nets(view)
    if prediction.coll_channels is not None:
        yield Text(f"Channels for collectives: {prediction.coll_channels}")
    if prediction.graphs.ring is not None and prediction.graphs.ring.at_floor:
        yield Text("All-reduce by size: none, because its model of time stands on that floor")
    elif prediction.choices:
        yield from (Blank(), Text("All-reduce by size (the library's own model):"))
        for choice in prediction.choices:
            yield Text(choice_line(choice, prediction.ranks), indent=2)
        if unsure:
            yield Text(
                "These times hold if NVLS comes up without P2P, which is not known.", indent=2
            )
        if note := instead_line(prediction.choices):
            yield Text(note, indent=2)


def _steps(steps: Iterable[DecisionStep], indent: int = 0) -> Block:
    return Facts(tuple(map(fact_of, steps)), indent=indent)


def _which(pairs: Sequence[PairDecision]) -> str:
    """Name pairs; two equal directions make one name."""
    keys = {(pair.src, pair.dst) for pair in pairs}
    words = []
    for src, dst in sorted(keys):
        if (dst, src) not in keys:
            words.append(f"{src}>{dst}")
        elif src < dst:
            words.append(f"{src}-{dst}")
    return f"{plural(len(words), 'pair')} ({first(words, MOST_PAIRS, ' ')})"


def _matrix(prediction: Prediction, ranks: Sequence[int]) -> Block:
    cells = {(pair.src, pair.dst): pair for pair in prediction.pairs}

    def rows(*, short: bool) -> Iterator[tuple[str, ...]]:
        for src in ranks:
            row = ((dst, cells.get((src, dst))) for dst in ranks)
            yield tuple(
                ("." if src == dst else "")
                if pair is None
                else pair.transport
                if short or pair.transport == pair.path
                else f"{pair.transport} {pair.path}"
                for dst, pair in row
            )

    names = tuple(map(str, ranks))
    return CellGrid("rank", names, tuple(rows(short=False)), tuple(rows(short=True)))


def _nets(view: DomainView) -> Iterator[Block]:
    by_rank = gathered_by(view.nets, lambda net: net.rank)
    for at, (rank, found) in enumerate(by_rank.items()):
        if at == MATRIX_RANKS:
            yield Text(f"... and {len(by_rank) - at} more ranks")
            return
        # Of several at the same distance the library takes one, which need not be the first.
        nearest = first_nic(view, rank) or max(found, key=lambda net: (net.to[1], -net.to[0]))
        relay = f", through rank {nearest.pxn_rank}" if nearest.pxn_rank >= 0 else ""
        yield Text(
            f"Rank {rank}: nearest NIC {nearest.name or nearest.net}, {nearest.to[2]} "
            f"{gbs(nearest.to[1])} GB/s in its table, send {GDR[nearest.gdr_send]}, "
            f"receive {GDR[nearest.gdr_recv]}{relay}"
        )
