"""Makes the nodes, measures every command and the app on each, and prints a table."""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gputop.exits import CANNOT_TELL
from gputop.topology.exports.nccl_xml import as_nccl_xml
from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.model.snapshot import encode

from .measuring import Cost, of_app, of_command
from .nodes import WIRINGS, MadeNode, numa_nodes_xml, with_links_gone

SIZES = (8, 32, 72, 128)
COMMANDS: dict[str, tuple[str, ...]] = {
    "topo": ("topo",),
    "explain": ("explain",),
    "explain 0 1": ("explain", "0", "1"),
    "check --quick": ("check", "--quick"),
    "flags": ("flags",),
    "flags NCCL_P2P_LEVEL": ("flags", "NCCL_P2P_LEVEL"),
    "flags NCCL_IB_HCA": ("flags", "NCCL_IB_HCA"),
    "flags NCCL_MIN_NCHANNELS": ("flags", "NCCL_MIN_NCHANNELS"),
    "flags NCCL_ALGO": ("flags", "NCCL_ALGO"),
}
PREDICTING = ("explain", "flags")
RULES = {"xgmi": ("--nccl", "rccl-2.30.4")}
"""RCCL before that has room for 64 nodes of a kind, and refuses larger nodes, as `!` in a row says;
this one has for 144 (include/graph.h: NCCL_TOPO_MAX_NODES), and for 8,192 elements of an XML."""
APP, MOVING = "app", "app, figures moving"
SCREENS = {"Map": "2", "Pairs": "3"}
MOST_SECONDS = {"topo": 0.5, "explain": 1.0, "explain 0 1": 1.0, "check --quick": 2.0, "flags": 4.0}
"""At 128 GPUs; a command line is compared with the longest name that it begins with."""
MOST_MIB, MOST_IDLE_PERCENT, STEEPEST = 250.0, 3.0, 2.0
SMALL_SECONDS = 1.0
"""Below this, growth is no matter."""
NUMA_NODES = 128
LINKS_GONE = 17


def main() -> int:
    """Measure what is asked for; 1 where something is over its limit."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.bench")
    parser.add_argument("--gpus", type=int, nargs="+", default=SIZES)
    parser.add_argument("--wiring", nargs="+", choices=[*WIRINGS, "odd"], default=[*WIRINGS, "odd"])
    parser.add_argument("--only", default="", help="only what has this in its name")
    parser.add_argument("--variables", action="store_true", help="flags of all that have values")
    parser.add_argument("--idle", type=float, default=15.0, help="seconds of doing nothing")
    parser.add_argument("--keep", type=Path, default=None, help="a folder for the made nodes")
    given = parser.parse_args()
    if given.variables:
        COMMANDS.clear()
        COMMANDS.update({f"flags {name}": ("flags", name) for name in tried_variables()})
    with tempfile.TemporaryDirectory() as folder:
        bench = _Bench(given.keep or Path(folder), given.only, given.idle)
        for wiring in given.wiring:
            if wiring == "odd":
                bench.odd_nodes()
            else:
                bench.wiring(wiring, sorted(given.gpus))
    print(f"\n{len(bench.over)} over their limit" + "".join(f"\n  {one}" for one in bench.over))
    return 1 if bench.over else 0


class _Bench:
    def __init__(self, folder: Path, only: str, idle_seconds: float) -> None:
        self._folder, self._only, self._idle_seconds = folder, only, idle_seconds
        folder.mkdir(parents=True, exist_ok=True)
        self.over: list[str] = []

    def wiring(self, wiring: str, sizes: list[int]) -> None:
        """One table: a row for each command and form of file, a column for each size."""
        files = {size: self._written(MadeNode(wiring, size)) for size in sizes}
        print(f"\n{wiring:34}" + "".join(f"{f'{size} GPUs':>16}" for size in sizes) + "  exponent")
        for form in ("json", "xml"):
            for name, arguments in COMMANDS.items():
                if self._only in name and not (form == "xml" and arguments[0] == "check"):
                    rules = RULES.get(wiring, ()) if arguments[0] in PREDICTING else ()
                    costs = [
                        of_command((*arguments, *rules, "--from", f"{files[n]}.{form}"))
                        for n in sizes
                    ]
                    self._row(f"{name}, {form}", sizes, costs, name)
        for name in (APP, MOVING):
            if self._only in name:
                self._app(name, wiring, {size: f"{files[size]}.json" for size in sizes})

    def odd_nodes(self) -> None:
        """Nodes whose searches once took gigabytes."""
        parts = self._written(with_links_gone(MadeNode("xgmi", 64), gpu=3, count=LINKS_GONE))
        numa = self._folder / "numa.xml"
        numa.write_text(numa_nodes_xml(NUMA_NODES), encoding="ascii")
        print(f"\n{'odd nodes':34}{'cost':>16}")
        for name, file in (
            (f"explain, {LINKS_GONE} xGMI links gone", f"{parts}.json"),
            (f"explain, {NUMA_NODES} NUMA nodes", str(numa)),
        ):
            if self._only in name:
                self._row(name, [], [of_command(("explain", "--from", file))], "odd")

    def _written(self, node: MadeNode) -> Path:
        snapshot = node.snapshot()
        stem = self._folder / node.name
        stem.with_suffix(".json").write_bytes(encode(snapshot))
        stem.with_suffix(".xml").write_text(as_nccl_xml(snapshot).text, encoding="utf-8")
        return stem

    def _app(self, name: str, wiring: str, files: dict[int, str]) -> None:
        costs, made = {}, []
        for size, file in files.items():
            command = [sys.executable, "-m", "gputop", "--from", file]
            said = self._folder / "made"
            if name == MOVING:
                command = [
                    sys.executable,
                    "-m",
                    "tests.harness.bench.app",
                    wiring,
                    str(size),
                    str(said),
                ]
            costs[size] = of_app(command, SCREENS, self._idle_seconds)
            if name == MOVING:
                made.append(100 * float(said.read_text(encoding="ascii")))
        sizes = list(costs)
        self._row(f"{name}: first figures", sizes, [cost.figures for cost in costs.values()], name)
        self._row(f"{name}: first screen", sizes, [cost.first for cost in costs.values()], name)
        for screen in SCREENS:
            shown = [cost.screens[screen] for cost in costs.values()]
            self._row(f"{name}: {screen}", sizes, shown, name)
        idle = [cost.idle_percent for cost in costs.values()]
        print(f"{f'{name}: idle':34}" + "".join(f"{percent:14.1f} %" for percent in idle))
        if made:
            title = "  making them up, part of idle"
            print(f"{title:34}" + "".join(f"{percent:14.1f} %" for percent in made), flush=True)
        if idle[-1] > MOST_IDLE_PERCENT:
            self.over.append(f"{wiring}: {name}: idle {idle[-1]:.1f} %")

    def _row(self, title: str, sizes: list[int], costs: list[Cost], name: str) -> None:
        cells = [
            f"{cost.seconds:8.2f}s{cost.mib:5.0f}M"
            + (
                "?"
                if cost.code < 0
                else "!"
                if cost.code == CANNOT_TELL and title[0] in "ef"
                else " "
            )
            for cost in costs
        ]
        steep = exponent(sizes, [cost.seconds for cost in costs])
        print(
            f"{title:34}" + "".join(f"{cell:>16}" for cell in cells) + f"{steep:10.1f}", flush=True
        )
        longest = max((key for key in MOST_SECONDS if name.startswith(key)), key=len, default="")
        last = costs[-1]
        if (
            last.seconds > MOST_SECONDS.get(longest, math.inf)
            or last.mib > MOST_MIB
            or (steep > STEEPEST and last.seconds > SMALL_SECONDS)
        ):
            self.over.append(f"{title}: {last.seconds:.2f} s, {last.mib:.0f} MiB, N^{steep:.1f}")


def tried_variables() -> list[str]:
    """The variables of which `flags NAME` predicts what values would change."""
    return [flag.name for flag in catalogue().flags if flag.tries]


def exponent(sizes: Iterable[int], seconds: Iterable[float]) -> float:
    """How the cost grows from the second size to the last, beyond what the smallest node takes."""
    points = list(zip(sizes, seconds, strict=False))
    if len(points) < 3:
        return 0.0
    (_, start), (few, some), (many, most) = points[0], points[1], points[-1]
    grown = max(some - start, 0.02), max(most - start, 0.02)
    return math.log(grown[1] / grown[0]) / math.log(many / few)


if __name__ == "__main__":
    sys.exit(main())
