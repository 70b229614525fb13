"""The result of a pair of nodes as text, one row a rail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gputop.answers.figures import WIDTH, table
from gputop.printing.render import texts
from gputop.terminal.clean import clean
from gputop.topology.model import units
from gputop.topology.model.page import Block, Text

if TYPE_CHECKING:
    from gputop.commands.net.document import NetDocument, Result
    from gputop.commands.net.transports import NetWay

_NAME = 24


def text(found: NetDocument) -> str:
    """All lines."""
    return "\n".join(texts((Text(_head(found)), *_figures(found), *_ends(found)), WIDTH))


def _head(found: NetDocument) -> str:
    hosts = " <-> ".join(clean(host, _NAME) for host in found.hosts)
    about = [hosts]
    if found.rails:
        about.append(f"{found.rails} rail{'s' * (found.rails != 1)}")
    version = found.versions.get("nccl")
    if found.engine:
        about.append(" ".join(filter(None, (found.engine, version and clean(version, 20)))))
    if found.device_kind == "cpu":
        about.append("a self-test on the CPU")
    said = found.status if found.why is None else f"{found.status}: {clean(found.why, 400)}"
    return f"{', '.join(about)}: {said}"


def _figures(found: NetDocument) -> Iterator[Block]:
    """A row for each rail and for all, GB/s."""
    if not found.results:
        return
    ways = list(dict.fromkeys((r.src, r.dst) for r in found.results if r.what == "send_recv"))
    verbs = any(result.what == "ib_write_bw" for result in found.results)
    rails = list(dict.fromkeys(result.rail for result in found.results))
    head = [f"{clean(src, _NAME)} -> {clean(dst, _NAME)}" for src, dst in ways]
    by_gpu = found.device_kind != "cpu"  # gloo writes no log, and nothing is predicted for it
    head += ["latency, µs", "all-reduce", "all-to-all", *(["ib_write_bw"] * verbs)]
    head += ["transport"] * by_gpu
    rows = []
    for rail in rails:
        here = [result for result in found.results if result.rail == rail]
        sends = {(r.src, r.dst): r for r in here if r.what == "send_recv"}
        latencies = [r.latency_us for r in sends.values() if r.latency_us is not None]
        rows.append(
            [
                "all rails" if rail is None else f"rail {rail}",
                *(_cell(sends.get(way)) for way in ways),
                f"{max(latencies):.1f}" if latencies else "",
                _cell(_one(here, "all_reduce")),
                _cell(_one(here, "all_to_all")),
                *([_cell(_one(here, "ib_write_bw"))] * verbs),
                *([said_way(found.log.rail(rail), found.predicted.rail(rail))] * by_gpu),
            ]
        )
    yield table(head, rows, "GB/s")


def _one(results: list[Result], what: str) -> Result | None:
    """The lowest of both directions."""
    found = [result for result in results if result.what == what]
    return min(found, key=lambda result: result.gbs, default=None)


def _cell(result: Result | None) -> str:
    if result is None:
        return ""
    digits = 1 if result.gbs >= 10 else 2
    return f"{result.gbs:.{digits}f}" + "!" * (result.verdict == "wrong-data")


def said_way(way: NetWay | None, predicted: NetWay | None) -> str:
    """The logged way, and the predicted one where it is another."""
    expected = _way(predicted)
    if way is None:
        return f"{units.UNKNOWN} ({expected} predicted)" if expected else units.UNKNOWN
    said = _way(way)
    return f"{said} (predicted {expected})" if expected and expected != said else said


def _way(way: NetWay | None) -> str:
    if way is None or way.transport is None:
        return ""
    return clean(way.transport, 30) + {True: " GDR", False: " no GDR", None: ""}[way.gdr]


def _ends(found: NetDocument) -> Iterator[Block]:
    """What stands below the table."""
    if any(result.verdict == "wrong-data" for result in found.results):
        yield Text("!: the data that arrived was wrong")
    if found.results:
        yield Text("One way: bytes sent. Collectives: bus bandwidth, as nccl-tests counts it.")
    for warning in found.log.warnings:
        yield Text(clean(warning, 300))
