"""Decisions of many NCCL versions as recorded, against ours.

`python -m tests.support.nccl.version_cases [--every N] [--misses N] [VERSION ...]` prints what is
equal, version by version: of the 57 topologies, and below of the 80 random ones.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gputop.topology.model.element import Element
from gputop.topology.model.versions import numbers
from gputop.topology.nccl.decide.distances import Distances
from gputop.topology.nccl.decide.domain import Domain
from gputop.topology.nccl.decide.netviews import local_nets, net_decisions
from gputop.topology.nccl.decide.transports import decide_pairs
from gputop.topology.nccl.nodes import GPU
from gputop.topology.nccl.prediction import PairDecision, SearchGraph
from gputop.topology.nccl.search.graphs import search_graphs
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.system.domains import views
from gputop.topology.nccl.system.networks import Network
from gputop.topology.nccl.versions import version_for
from gputop.topology.nccl.xml.read import read_topology
from tests.support.places import CAPTURES

FOLDER = CAPTURES / "nccl-versions-graph"
KINDS = {"expected": "57", "expected-gz": "random"}
COLUMNS = ("refused", "paths", "transports", "nets", "ring", "tree", "orders", "nvls", "two hosts")
FIGURES = (
    *("channels", "bw_intra", "bw_inter", "type_intra", "type_inter"),
    *("same_channels", "pattern", "cross_nic"),
)
NEAR = 2e-3


class Case(NamedTuple):
    """One topology under one version, all its environments together."""

    version: str
    kind: str
    name: str


class Miss(NamedTuple):
    """Something that was recorded otherwise."""

    column: str
    text: str


class Compared(NamedTuple):
    """What came of one case: how many of each column there were, and what differs."""

    counted: Counter[str]
    equal: Counter[str]
    misses: list[Miss]


def cases(versions: tuple[str, ...] = ()) -> list[Case]:
    """Everything recorded, oldest version first; [] where the recordings are not there."""
    found = [
        Case(folder.name, kind, path.name.removesuffix(".json.gz"))
        for folder in FOLDER.glob("[0-9]*")
        for kind in KINDS
        for path in (folder / kind).glob("*.json.gz")
        if not versions or folder.name in versions
    ]
    return sorted(found, key=lambda case: (numbers(case.version), case.kind, case.name))


def recorded(case: Case) -> list[dict[str, Any]]:
    """What was recorded of a case, one entry for each environment."""
    path = FOLDER / case.version / case.kind / f"{case.name}.json.gz"
    found: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))
    return found


@cache
def topology(kind: str, name: str) -> Element:
    """The topology file of a case."""
    folder = FOLDER / "topologies-gz"
    if kind == "expected":
        folder = CAPTURES / "nccl-2.28.9-graph" / "topologies"
    path: Path = folder / f"{name}.xml"
    return read_topology(path.read_bytes(), path.name)


def compare(case: Case, every: int = 1, start: int = 0) -> Compared:
    """One case against ours; of its environments every so many, from number `start`."""
    entries = recorded(case)[start % every :: every]
    return compare_entries(case.version, topology(case.kind, case.name), case.name, entries)


def compare_entries(
    version: str, root: Element, name: str, entries: list[dict[str, Any]]
) -> Compared:
    """What was recorded of one topology under some environments, against ours."""
    counted, equal, misses = Counter[str](), Counter[str](), list[Miss]()
    for entry in entries:
        for part in ("single_node", "two_node"):
            for columns, wrong in _part(version, root, entry, part):
                missed = {miss.column for miss in wrong}
                counted.update(columns)
                equal.update(column for column in columns if column not in missed)
                where = f"{name} {entry['env']} {part}"
                misses += [miss._replace(text=f"{where} {miss.text}") for miss in wrong]
    return Compared(counted, equal, misses)


Shown = tuple[list[str], list[Miss]]
"""The columns in which a view is compared, and what differs there."""


def _part(name: str, root: Element, entry: dict[str, Any], part: str) -> Iterator[Shown]:
    """One environment, alone or with a second host: a comparison for every view."""
    version, _ = version_for(name)
    settings = Settings(entry["env"])
    kept = entry[part]
    found = views(root, version, settings, more_nodes=part == "two_node")
    domains = []
    refusals = [text for view in found for text in view.system.refusals]
    for number, view in enumerate(found):
        graphs = search_graphs(view.system, version, settings, nvls=version.library == "nccl")
        refusals += [text for text in view.system.refusals if text not in refusals]
        domain = Domain(view, graphs.ring, number, Distances(version, placed=True))
        domains.append((domain, graphs))
    if "error" in kept:
        yield ["refused"], [] if refusals else [Miss("refused", str(kept)[:200])]
        return
    if refusals:
        yield ["refused"], [Miss("refused", f"not refused: {refusals}")]
    pairs: dict[tuple[int, int], PairDecision] = {}
    if part == "single_node":
        devs = {gpu.rank: gpu for view in found for gpu in view.system.nodes[GPU]}
        names = {rank: gpu.bus_id for rank, gpu in devs.items()}
        only = [domain for domain, _ in domains]
        decided = decide_pairs(only, Network("IB", ""), devs, names)
        pairs = {(pair.src, pair.dst): pair for pair in decided}
    for view in kept["views"]:
        mine = next(
            (
                (domain, graphs)
                for domain, graphs in domains
                if [g.rank for g in domain.computed.system.nodes[GPU]] == view["ranks"]
            ),
            None,
        )
        wrong: list[Miss] = []
        shown = ["nets"]
        if mine is None:
            wrong.append(Miss("nets", f"no view {view['ranks']}"))
        else:
            domain, graphs = mine
            wrong += _nets(domain, view)
            for name in ("ring", "tree", "nvls"):
                if name in view["graphs"]:
                    shown.append(name)
                    wrong += _graph(name, view["graphs"][name], getattr(graphs, name))
            shown.append("orders")
        if part == "single_node":
            shown += ["paths", "transports"]
            wrong += _pairs(pairs, view)
        else:
            wrong = [Miss("two hosts", f"{miss.column}: {miss.text}") for miss in wrong]
            shown = ["two hosts"]
        yield shown, wrong


def _same_path(found: tuple[int | None, float | None, str], kept: list[Any]) -> bool:
    hops, gbs, kind = found
    return (hops, kind) == (kept[0], kept[2]) and abs((gbs or 0.0) - kept[1]) < NEAR


def _pairs(pairs: dict[tuple[int, int], PairDecision], view: dict[str, Any]) -> Iterator[Miss]:
    for key, kept in view["paths"].items():
        src, dst = map(int, key.split("-"))
        if src == dst:
            continue
        pair = pairs[src, dst]
        path = pair.hops, pair.bandwidth_gbs, pair.path
        if not _same_path(path, kept):
            yield Miss("paths", f"{key}: {kept}, not {path}")
        how = view["transports"][key]
        mine = (pair.transport, -1 if pair.via is None else pair.via)
        if mine != (how["transport"], how["via"]):
            yield Miss("transports", f"{key}: {how}, not {mine}")
    for peer in view.get("trimmed_peers", ()):
        pair = pairs[peer["src"], peer["dst"]]
        if (pair.path, pair.transport) != ("NET", peer["transport"]):
            yield Miss("transports", f"trimmed {peer}: {pair.path} {pair.transport}")


def _nets(domain: Domain, view: dict[str, Any]) -> Iterator[Miss]:
    mine = {f"{net.rank}-{net.net}": net for net in net_decisions(domain.computed)}
    kept = view["nets"] or {}
    if set(mine) != set(kept):
        yield Miss("nets", f"{sorted(mine)} for {sorted(kept)}")
        return
    for key, net in kept.items():
        one = mine[key]
        if not (_same_path(one.to, net["to"]) and _same_path(one.back, net["from"])):
            yield Miss("nets", f"{key}: {net}, not {one.to} {one.back}")
        said = (one.gdr_send, one.gdr_recv, one.pxn_rank)
        if said != (net["gdr_send"], net["gdr_recv"], net["pxn_rank"]):
            yield Miss("nets", f"gdr {key}: {net}, not {said}")
    local = {rank: list(nets) for rank, nets in local_nets(domain).items() if nets}
    if local != {rank: nets for rank, nets in view.get("local_nets", local).items() if nets}:
        yield Miss("nets", f"local nets {view['local_nets']}, not {local}")


def _graph(name: str, kept: dict[str, Any], found: SearchGraph | None) -> Iterator[Miss]:
    if found is None:
        if kept["channels"]:
            yield Miss(name, "missing")
        return
    for figure in FIGURES:
        wanted, mine = kept.get(figure), getattr(found, figure)
        same = mine == wanted
        if isinstance(wanted, float) or isinstance(mine, float):
            same = wanted is None or abs(mine - wanted) < 1e-5 * max(1.0, abs(wanted))
        if wanted is not None and not same:
            yield Miss(name, f"{name} {figure} {wanted}, not {mine}")
    if "orders" in kept:
        orders = [order[:1] if name == "nvls" else order for order in kept["orders"]]
        if orders != [list(order) for order in found.orders]:
            yield Miss("orders", f"{name}: {str(orders)[:120]}, not {str(found.orders)[:120]}")


def _job(task: tuple[Case, int, int]) -> tuple[Case, Compared]:
    return task[0], compare(*task)


def main() -> None:
    """Print the table, and what differs first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*")
    parser.add_argument("--every", type=int, default=1, help="of the environments")
    parser.add_argument("--misses", type=int, default=3, help="printed of each column")
    parser.add_argument("--only", default="", help="names that begin like this")
    parser.add_argument("--kind", default="", choices=["", *KINDS])
    asked = parser.parse_args()
    wanted = [
        case
        for case in cases(tuple(asked.versions))
        if case.name.startswith(asked.only) and asked.kind in ("", case.kind)
    ]
    tasks = [(case, asked.every, number) for number, case in enumerate(wanted)]
    counted: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    equal: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    shown: Counter[tuple[str, str, str]] = Counter()
    out = sys.stdout
    out.write(f"{'version':<8}{'':<9}" + "".join(f"{name:>12}" for name in COLUMNS) + "\n")
    left = Counter((case.version, case.kind) for case in wanted)
    with ProcessPoolExecutor(2) as pool:
        for case, result in pool.map(_job, tasks, chunksize=2):
            key = case.version, case.kind
            counted[key] += result.counted
            equal[key] += result.equal
            for miss in result.misses:
                place = (case.version, case.kind, miss.column)
                shown[place] += 1
                if shown[place] <= asked.misses:
                    out.write(f"    {case.version} {miss.column}: {miss.text}\n")
            left[key] -= 1
            if not left[key]:
                row = "".join(f"{f'{equal[key][c]}/{counted[key][c]}':>12}" for c in COLUMNS)
                out.write(f"{case.version:<8}{KINDS[case.kind]:<9}{row}\n")
                out.flush()


if __name__ == "__main__":
    main()
