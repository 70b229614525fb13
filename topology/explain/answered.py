"""The answer before the reasons: about one pair of GPUs, or about changed variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..expectation.cost.costs import costs_of
from ..flags.what_if.effects import Comparison
from ..flags.what_if.remedy import Remedy
from ..flags.what_if.wording import NVLS_UNSURE, brief, everything
from ..hardware.terms import terms_of
from ..model.page import Blank, Block, Heading, Text
from ..model.severity import BY_DESIGN, Severity
from ..model.units import gbs
from ..node import Node
from .nics import gpu_nics
from .pair_summary import NO_P2P, P2P, pair_summary
from .value_rows import NOT_KNOWN, WHY_NOT_KNOWN, reach_in_words, reach_of
from .why import why_device

LARGE = "All-reduce 1 GiB"


def pair_head(node: Node, src: str, dst: str, change: Remedy | None) -> Iterator[Block]:
    """What a pair of GPUs (PCI addresses) uses, why, what would change it, how fast and which way.

    The screen Pairs says the same. `change`: what gives it P2P, as `remedy` found it.
    """
    found = pair_summary(node, src, dst)
    mark, rule = (Severity.BROKEN, "") if found.state == NO_P2P else (None, "")
    if mark and found.by_rule:
        mark, rule = BY_DESIGN, f", by {terms_of(node.snapshot.machine.gpus).library}'s rule"
    yield Heading(f"{found.pair}: {found.head}{rule}", mark)
    if found.because:
        yield Text(found.because, label="Because")
    if found.state == P2P:
        yield Text(found.uses, label="Uses")
    elif found.state == NO_P2P:
        yield Text(_change(change, node, (src, dst)), label="Change")
    cost = None if found.detour else costs_of(node).copy(src, dst)
    reach = f" · copy {cost.pair}" if cost is not None and cost.pair else ""
    yield Text(f"link {gbs(found.link_gbs)} payload{reach}", label="Speed")
    yield Text(found.route or "not known", label="Route")


def gpu_blocks(node: Node, rank: int) -> Iterator[Block]:
    """One GPU: its links, the CPUs and the NIC near it, and what shows its pairs."""
    prediction = node.prediction
    assert prediction is not None
    places = {pair.src: pair.src_bus_id for pair in prediction.pairs}
    page = why_device(node, places[rank])
    yield from (Heading(page.title), *page.blocks)
    yield Blank()
    if (nic := gpu_nics(node).get(places[rank])) is not None:
        yield Text(nic.text, label="NIC")
    other = next(other for other in places if other != rank)
    yield Text(f"`gputop explain {rank} {other}`, `gputop topo` for all", label="Pairs")


def _change(change: Remedy | None, node: Node, pair: tuple[str, str]) -> str:
    if change is None:
        return "no single variable gives this pair P2P"
    text = f"{change.in_words} → {change.effect}"
    if change.value is None:
        return text
    numbers = [node.snapshot.machine.gpu(address) for address in pair]
    named = [str(gpu.number) for gpu in numbers if gpu is not None and gpu.number is not None]
    gpus = f" --gpus {','.join(named)}" if len(named) > 1 else ""
    return f"{text}; may be slower: `gputop probe p2p{gpus}` measures"


def change_head(
    comparison: Comparison, node: Node, changes: Mapping[str, str | None], *, whole: bool
) -> Iterator[Block]:
    """What changed variables do in a few lines; a banner of the app says the same.

    `whole`: all GPUs of the node take part, for which there is a model of cost.
    """
    set_to = " ".join(f"{name}={value}" for name, value in changes.items())
    if not whole:
        yield Heading(f"{set_to}: {'; '.join(brief(comparison))}")
        return
    if comparison.effect.nothing:
        yield Heading(" ".join(everything(comparison)))
        return
    yield Heading(f"{set_to}: {'; '.join(brief(comparison, ''))}")
    before, after = reach_of(comparison, node, changes)
    if not before or NOT_KNOWN in (before, after):
        why = WHY_NOT_KNOWN.format(comparison.changed.library.name.upper())
        yield from [Text(f"{LARGE}: {before} → {why[:1].lower()}{why[1:]}")] * bool(before)
    else:
        yield Text(f"{LARGE}: {reach_in_words(before, after)}")
    if comparison.without_nvls is not None:
        yield Text(NVLS_UNSURE)
