"""Writes a prediction as text for the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gputop.printing.render import texts, wrapped_text
from gputop.topology.explain.nccl import fact_of
from gputop.topology.model.page import Facts
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.units import sentence
from gputop.topology.nccl.decide.summary import (
    choice_line,
    graph_line,
    groups,
    instead_line,
    library_name,
)
from gputop.topology.nccl.prediction import DecisionStep, NetDecision, PairDecision, Prediction
from gputop.topology.nccl.wording import gbs

LIVE = ("live",)
"""The source of a node that is this machine."""
MATRIX_RANKS = 16
"""With more ranks than this only groups are shown."""


def lines(
    prediction: Prediction, width: int, pair: tuple[int, int] | None = None, cost: str = ""
) -> Iterator[str]:
    """The lines of a prediction, or of one ordered pair of ranks; `cost`: what is lost here."""
    ranks = sorted(rank for view in prediction.views for rank in view.ranks)
    yield _head(prediction)
    if cost:
        yield from wrapped_text(sentence(cost).removesuffix("."), width, 2)
    for name, value in prediction.environment.items():
        yield f"  {name}={value}"
    for name, value, why in prediction.ignored:
        yield from wrapped_text(f"• {name}={value} has no effect: {why}", width, 2)
    if prediction.failure:
        yield from wrapped_text(f"✗ {prediction.failure}", width, 2)
    yield ""
    if pair is not None:
        found = prediction.pair(*pair)
        if found is not None:
            yield from pair_lines(found, width)
    else:
        yield from _all(prediction, ranks, width)
    if prediction.assumptions:
        yield ""
        yield "Assumed:"
        for text in prediction.assumptions:
            yield from wrapped_text(f"- {text}", width, 2)


def installed(snapshot: NodeSnapshot) -> str:
    """Which NCCL lies here for a job, of a live node; "" where none was found."""
    software = snapshot.machine.software
    if tuple(snapshot.source) != LIVE or software is None or not software.nccl_path:
        return ""
    torch = f", beside torch {software.torch}" if software.torch else ""
    more = "; `gputop doctor` says what each Python's torch loads, and why"
    return (
        f"here: NCCL {software.nccl or 'of unknown version'} of {software.nccl_path}{torch}{more}"
    )


def _head(prediction: Prediction) -> str:
    count = prediction.ranks
    words = f"{library_name(prediction)}, {count} GPU{'s' * (count != 1)}"
    if prediction.hosts > 1:
        words += f" on {prediction.hosts} hosts; pairs and NICs are those of one"
    if len(prediction.views) > 1:
        words += f", on {prediction.nodes} nodes by its count"
    return words


def _all(prediction: Prediction, ranks: Sequence[int], width: int) -> Iterator[str]:
    if len(ranks) <= MATRIX_RANKS:
        yield from _matrix(prediction, ranks, width)
        yield ""
    for path, label, pairs in groups(prediction):
        rates = sorted({pair.bandwidth_gbs for pair in pairs if pair.bandwidth_gbs is not None})
        over = f"path {path}"
        if rates:
            span = gbs(rates[0]) + (f" to {gbs(rates[-1])}" if len(rates) > 1 else "")
            over += f", {span} GB/s in its table"
        yield from wrapped_text(f"{label or 'no transport'}: {_which(pairs)}; {over}", width, 2)
        yield from _steps(_deciding(pairs[0].steps), width, 4)
    yield ""
    for number, view in enumerate(prediction.views):
        if len(prediction.views) > 1:
            yield f"Domain {number}: ranks {', '.join(map(str, view.ranks))}"
        yield graph_line("Ring", view.graphs.ring)
        yield graph_line("Tree", view.graphs.tree)
        model = view.steps.get("model", ())
        nvls = view.steps.get("nvls", ())
        if model:
            yield from _steps(model, width, 2)
        elif nvls and nvls[-1].answer == "no":
            yield from wrapped_text(
                f"NVLS: none; {nvls[-1].question} no: {nvls[-1].because}", width, 2
            )
        else:
            yield graph_line("NVLS", view.graphs.nvls)
        yield from _nets(view.nets, width)
    if prediction.coll_channels is not None:
        yield f"Channels for collectives: {prediction.coll_channels}"
    if prediction.choices:
        yield ""
        yield "All-reduce by size (the library's own model):"
        for choice in prediction.choices:
            yield "  " + choice_line(choice, prediction.ranks)
        if note := instead_line(prediction.choices):
            yield "  " + note


def pair_lines(pair: PairDecision, width: int) -> Iterator[str]:
    """One ordered pair of ranks with every step of the decision."""
    over = f"path {pair.path}"
    if pair.hops is not None and pair.bandwidth_gbs is not None:
        over += f", {pair.hops} hop{'s' * (pair.hops != 1)}"
        over += f", {gbs(pair.bandwidth_gbs)} GB/s in the library's table"
    yield f"rank {pair.src} ({pair.src_bus_id}) to rank {pair.dst} ({pair.dst_bus_id})"
    yield f"{' and '.join(pair.labels) or 'no transport'}: {over}"
    yield ""
    yield from _steps(pair.steps, width)


def _steps(steps: Iterable[DecisionStep], width: int, indent: int = 0) -> list[str]:
    return texts((Facts(tuple(map(fact_of, steps))),), width, indent)


def _deciding(steps: Sequence[DecisionStep]) -> list[DecisionStep]:
    return [step for step in steps if step.decides]


def _which(pairs: Sequence[PairDecision]) -> str:
    """Name pairs; two equal directions make one name."""
    keys = {(pair.src, pair.dst) for pair in pairs}
    words = []
    for src, dst in sorted(keys):
        if (dst, src) in keys:
            if src < dst:
                words.append(f"{src}-{dst}")
        else:
            words.append(f"{src}>{dst}")
    shown = " ".join(words[:28]) + (f" and {len(words) - 28} more" if len(words) > 28 else "")
    return f"{len(words)} pair{'s' * (len(words) != 1)} ({shown})"


def _matrix(prediction: Prediction, ranks: Sequence[int], width: int) -> Iterator[str]:
    cells = {(pair.src, pair.dst): pair for pair in prediction.pairs}
    words = {
        key: pair.transport if pair.transport == pair.path else f"{pair.transport} {pair.path}"
        for key, pair in cells.items()
    }
    column = max([*(len(word) for word in words.values()), 5]) + 1
    if column * len(ranks) + 5 > width:
        words = {key: pair.transport for key, pair in cells.items()}
        column = max([*(len(word) for word in words.values()), 3]) + 1
    yield "rank  " + "".join(f"{rank:<{column}}" for rank in ranks).rstrip()
    for src in ranks:
        row = (words.get((src, dst), "." if src == dst else "") for dst in ranks)
        yield f"{src:>4}  " + "".join(f"{word:<{column}}" for word in row).rstrip()


def _nets(nets: Sequence[NetDecision], width: int) -> Iterator[str]:
    by_rank: dict[int, list[NetDecision]] = {}
    for net in nets:
        by_rank.setdefault(net.rank, []).append(net)
    for place, (rank, found) in enumerate(by_rank.items()):
        if place == MATRIX_RANKS:
            yield f"... and {len(by_rank) - place} more ranks"
            return
        nearest = max(found, key=lambda net: (net.to[1], -net.to[0]))
        gdr = {"Default": "GDR", "PCI": "GDR over PCIe", "Disabled": "no GDR"}
        relay = f", through rank {nearest.pxn_rank}" if nearest.pxn_rank >= 0 else ""
        yield from wrapped_text(
            f"Rank {rank}: nearest NIC {nearest.name or nearest.net}, {nearest.to[2]} "
            f"{gbs(nearest.to[1])} GB/s, send {gdr[nearest.gdr_send]}, "
            f"receive {gdr[nearest.gdr_recv]}{relay}",
            width,
            2,
        )
