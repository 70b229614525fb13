"""Paths, transports, GDR, PXN and NICs against every recorded decision."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.nccl.decide import untuned_builder
from gputop.topology.nccl.decide.timing import Timing
from gputop.topology.nccl.prediction import DomainView, Graphs, NetDecision, Prediction
from tests.grid import share
from tests.support.nccl.captures import emulated, expected, names, predicted, topology_of
from tests.support.places import CAPTURES

LIBRARIES = {"nccl-2.28.9-graph": "nccl-2.28.9", "rccl-2.21.5-graph": "rccl-2.21.5"}
CASES = [(folder, name) for folder in LIBRARIES for name in names(folder)]

pytestmark = [pytest.mark.captures, pytest.mark.gate]

needs_captures = pytest.mark.skipif(not CASES, reason="the recorded decisions are not here")


def same_path(found: Any, recorded: list[Any]) -> bool:
    """Hops and type equal, bandwidth to a thousandth."""
    hops, gbs, kind = found
    return (hops, kind) == (recorded[0], recorded[2]) and abs((gbs or 0.0) - recorded[1]) < 2e-3


def pair_misses(prediction: Prediction, view: dict[str, Any]) -> list[str]:
    """Pairs of a view whose path or transport differs."""
    misses = []
    for key, recorded in view["paths"].items():
        src, dst = map(int, key.split("-"))
        if src == dst:
            continue
        pair = prediction.pair(src, dst)
        assert pair is not None, key
        if not same_path((pair.hops, pair.bandwidth_gbs, pair.path), recorded):
            misses.append(f"path {key}: {recorded}, not {pair.hops, pair.bandwidth_gbs, pair.path}")
        how = view["transports"][key]
        mine = (pair.transport, pair.read, -1 if pair.via is None else pair.via)
        if mine != (how["transport"], how.get("read", 0), how["via"]):
            misses.append(f"transport {key}: {how}, not {mine}")
    for peer in view.get("trimmed_peers", ()):
        pair = prediction.pair(peer["src"], peer["dst"])
        assert pair is not None
        if (pair.path, pair.transport) != ("NET", peer["transport"]):
            misses.append(f"trimmed {peer}: {pair.path} {pair.transport}")
    return misses


def net_misses(found: DomainView, view: dict[str, Any]) -> list[str]:
    """GPU and NIC pairs of a view that differ."""
    mine: dict[str, NetDecision] = {f"{net.rank}-{net.net}": net for net in found.nets}
    recorded = view["nets"] or {}
    misses = [] if set(mine) == set(recorded) else [f"nets {sorted(mine)}, not {sorted(recorded)}"]
    for key, net in recorded.items():
        one = mine.get(key)
        if one is None:
            continue
        if not (same_path(one.to, net["to"]) and same_path(one.back, net["from"])):
            misses.append(f"net {key}: {net}, not {one.to} {one.back}")
        said = (one.gdr_send, one.gdr_recv, one.pxn_rank)
        if said != (net["gdr_send"], net["gdr_recv"], net["pxn_rank"]):
            misses.append(f"gdr {key}: {net}, not {said}")
    local = {rank: list(nets) for rank, nets in found.local_nets.items() if nets}
    if local != {rank: nets for rank, nets in view["local_nets"].items() if nets}:
        misses.append(f"local nets {view['local_nets']}, not {local}")
    return misses


@needs_captures
@pytest.mark.parametrize(("folder", "name"), share(CASES, 3))
def test_every_recorded_view(folder: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_search(monkeypatch)
    path = CAPTURES / folder / "topologies" / f"{name}.xml"
    misses: list[str] = []
    for entry in expected(folder, name):
        found = predicted(path, entry["env"], library=LIBRARIES[folder])
        recorded = entry["single_node"]["views"]
        assert len(found.views) == len(recorded), entry["env"]
        for view in recorded:
            mine = next(shown for shown in found.views if list(shown.ranks) == view["ranks"])
            wrong = (*pair_misses(found, view), *net_misses(mine, view))
            misses.extend(f"{entry['env']}: {miss}" for miss in wrong)
    assert not misses, misses[:5]


def skip_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the search out, which has tests of its own and takes most of the time."""
    here = "gputop.topology.nccl.decide.predict"
    monkeypatch.setattr(untuned_builder, "search_graphs", lambda *_args, **_kw: Graphs())
    monkeypatch.setattr(f"{here}.timing_of", lambda *_args, **_kw: Timing())
    # What has no graphs is kept for nobody else.
    monkeypatch.setattr(f"{here}.keep_untuned", lambda *_args: None)


@pytest.mark.skipif(not emulated(), reason="the recorded runs are not here")
def test_every_real_run_on_an_emulated_topology() -> None:
    misses: list[str] = []
    cases = emulated()
    assert len(cases) == 175
    for case in cases:
        found = predicted(topology_of(case), case["env"])
        for key, labels in case["transports"].items():
            pair = found.pair(*map(int, key.split("-")))
            assert pair is not None
            if sorted(pair.labels) != sorted(labels):
                misses.append(f"{case['case']} {key}: {labels}, not {pair.labels}")
        for key, recorded in case["paths"].items():
            src, dst = map(int, key.split("-"))
            pair = found.pair(src, dst)
            if pair is None:
                continue
            if not same_path((pair.hops, round(pair.bandwidth_gbs or 0, 1), pair.path), recorded):
                misses.append(f"{case['case']} {key}: {recorded}")
        for choice in case["choices"]:
            mine = next(
                (picked for picked in found.choices if picked.bytes == choice["bytes"]), None
            )
            said = mine and (mine.algorithm, mine.protocol, list(mine.channels))
            if said != (choice["algorithm"], choice["protocol"], choice["channels"]):
                misses.append(f"{case['case']}: {choice}, not {said}")
    assert not misses, misses[:5]
