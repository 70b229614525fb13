"""Decisions of RCCL as recorded (tests/recordings/rccl-graph), against ours.

`python -m tests.support.nccl.rccl_cases [VERSION ...]` prints what is equal, version by version.
GPUTOP_RCCL_MODELS=FOLDER names the node models of RCCL's topo_expl, of which no copy is kept here.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from gputop.topology.model.element import Element
from gputop.topology.nccl.xml.read import read_topology
from tests.support.places import CAPTURES, RECORDINGS

from .version_cases import COLUMNS, Compared, compare_entries

FOLDER = RECORDINGS / "rccl-graph"
VERSIONS = tuple(sorted(path.name.removesuffix(".json.gz") for path in FOLDER.glob("*.json.gz")))
PLACES = [FOLDER / "topologies", CAPTURES / "rccl-2.21.5-graph" / "topologies"]
"""Where the topology files lie."""
if os.environ.get("GPUTOP_RCCL_MODELS"):
    PLACES.append(Path(os.environ["GPUTOP_RCCL_MODELS"]))
OLD_NAMES = {"topo_8p_942": "topo_8p_940"}
"""Files that RCCL renamed, by their newer names."""


@cache
def recorded(version: str) -> dict[str, list[dict[str, Any]]]:
    """Topology -> what was recorded of it, one entry for each environment."""
    text = gzip.decompress((FOLDER / f"{version}.json.gz").read_bytes())
    found: dict[str, list[dict[str, Any]]] = json.loads(text)
    return found


def file_of(name: str) -> Path | None:
    """The topology file of a name; None where no folder at hand has it."""
    names = (name, OLD_NAMES.get(name, name))
    paths = [folder / f"{one}.xml" for folder in PLACES for one in names]
    return next((path for path in paths if path.exists()), None)


@cache
def topology(path: Path) -> Element:
    """A topology file."""
    return read_topology(path.read_bytes(), path.name)


def at_hand(version: str) -> list[str]:
    """The topologies that were recorded and whose file is there."""
    return [name for name in recorded(version) if file_of(name) is not None]


def compare(version: str, name: str, every: int = 1, start: int = 0) -> Compared:
    """One topology against ours; of its environments every so many, from number `start`."""
    path = file_of(name)
    assert path is not None
    entries = recorded(version)[name][start % every :: every]
    return compare_entries(f"rccl-{version}", topology(path), name, entries)


def main() -> None:
    """Print the table, and what differs first."""
    wanted = tuple(sys.argv[1:]) or VERSIONS
    out = sys.stdout
    out.write(f"{'version':<8}{'files':>8}" + "".join(f"{name:>12}" for name in COLUMNS) + "\n")
    for version in wanted:
        counted, equal, shown = Counter[str](), Counter[str](), Counter[str]()
        names = at_hand(version)
        for name in names:
            found = compare(version, name)
            counted += found.counted
            equal += found.equal
            for miss in found.misses:
                shown[name] += 1
                if shown[name] <= 2:
                    out.write(f"    {version} {miss.column}: {miss.text}\n")
        row = "".join(f"{f'{equal[c]}/{counted[c]}':>12}" for c in COLUMNS)
        out.write(f"{version:<8}{len(names):>8}{row}\n")
        out.flush()


if __name__ == "__main__":
    main()
