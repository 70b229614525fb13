"""Measures that come from NCCL or RCCL: path types, predicted and logged transports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gputop.terminal.clean import clean
from gputop.topology.explain.pair_summary import link_gbs, ways_of
from gputop.topology.model.units import figure
from gputop.widgets.measure import Pair, Value, measured, pairs_of

if TYPE_CHECKING:
    from gputop.topology.nccl.prediction import PairDecision
    from gputop.topology.report import Report

PATH_INKS = {
    "NVL": "link-nvlink",
    "NVB": "link-nvlink",
    "XGMI": "link-xgmi",
    "C2C": "link-nvlink",
    "PIX": "link-pcie",
    "PXB": "link-pcie",
    "PHB": "link-socket",
    "SYS": "link-socket",
    "NET": "strong",
}
TRANSPORT_INKS = {"P2P": "good", "SHM": "link-socket", "NET": "strong", "none": "bad"}
RELAYED = "relay"
"""In the place of P2P where another GPU passes the bytes on."""


def _decided(report: Report, addresses: tuple[str, ...]) -> dict[Pair, PairDecision]:
    prediction = report.prediction
    if prediction is None:
        return {}
    wanted = set(addresses)
    return {
        (pair.src_bus_id, pair.dst_bus_id): pair
        for pair in prediction.pairs
        if pair.src_bus_id in wanted and pair.dst_bus_id in wanted
    }


def _undecided(report: Report) -> Value | None:
    """What stands in a cell without a decision: nothing yet, or a dash for ever."""
    known = report.node.decided
    return Value(word="–", ink="muted") if known else None


def nccl_path(report: Report, addresses: tuple[str, ...]) -> dict[Pair, Value]:
    """Path types as NCCL or RCCL calls them."""
    found = {
        key: Value(word=clean(pair.path, 8), ink=PATH_INKS.get(pair.path, "muted"))
        for key, pair in _decided(report, addresses).items()
    }
    return _filled(report, addresses, found)


def transport(report: Report, addresses: tuple[str, ...]) -> dict[Pair, Value]:
    """P2P, SHM or NET, as predicted; where another GPU passes the bytes on, that."""
    found = {
        key: Value(word=pair.transport, ink=TRANSPORT_INKS.get(pair.transport, "muted"))
        if pair.via is None
        else Value(word=RELAYED, ink="link-nvlink")
        for key, pair in _decided(report, addresses).items()
    }
    return _filled(report, addresses, found)


def taken_gbs(report: Report, addresses: tuple[str, ...]) -> dict[Pair, Value]:
    """Payload rate of the way that the library takes, one way; a dash where it is not known."""
    rates = {pair: link_gbs(ways_of(report.node, *pair)) for pair in pairs_of(addresses)}
    found = {pair: Value(word=figure(rate)) for pair, rate in rates.items()}
    return found if report.node.decided else {}


def logged(report: Report, addresses: tuple[str, ...]) -> dict[Pair, Value]:
    """What NCCL or RCCL logged, with a sign: = as predicted, ≠ not."""
    decided = _decided(report, addresses)
    found: dict[Pair, Value] = {}
    for pair, run in measured(report.snapshot, "transport").items():
        labels = (run.verdict or "").split(" and ")
        word = clean(labels[0].partition("/")[0], 8)
        expected = decided.get(pair)
        if expected is None:
            found[pair] = Value(word=word, ink="strong")
        else:
            same = _plain(labels) <= _plain(expected.labels)
            found[pair] = Value(
                word=f"{word} {'=' if same else '≠'}", ink="good" if same else "bad"
            )
    nothing = Value(word="–", ink="muted")
    return {pair: found.get(pair, nothing) for pair in pairs_of(addresses)}


def _plain(labels: Iterable[str]) -> set[str]:
    """Labels without the mark of send/receive, which depends on what the run did."""
    return {label.removesuffix("/Shared") for label in labels}


def _filled(
    report: Report, addresses: tuple[str, ...], found: dict[Pair, Value]
) -> dict[Pair, Value]:
    nothing = _undecided(report)
    if nothing is None:
        return found
    return {pair: found.get(pair, nothing) for pair in pairs_of(addresses)}
