"""Channels, tables and picks of RCCL against its own code, compiled for the CPU.

Some machines run every time; all of them with `-m captures`.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.decide.timing import Timing, hardware_of, rccl_input_of, timing_of
from gputop.topology.nccl.nodes import GPU
from gputop.topology.nccl.search.graphs import search_graphs
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.system.domains import views
from gputop.topology.nccl.tuning.rccl import PROTOCOLS, choose, coll_channels, rccl_tuning
from gputop.topology.nccl.tuning.rccl_inputs import rccl_versions
from gputop.topology.nccl.versions import version_for
from tests.support.nccl.rccl_cases import FOLDER, file_of, topology
from tests.support.snapshots import demo_node

NUMBERS = [rules.number for rules in rccl_versions()]
NEAR = 1e-4
TWO_OF_A_NUMBER = "topo_8p_rome_n2_1"
"""Both NICs have one number; its graphs over two hosts are not followed."""


def recorded(version: str) -> dict[str, dict[str, Any]]:
    """Topology -> number of hosts -> channels, tables and choices."""
    text = gzip.decompress((FOLDER / "tuning" / f"{version}.json.gz").read_bytes())
    found: dict[str, dict[str, Any]] = json.loads(text)
    return {name: one for name, one in found.items() if file_of(name) and name != TWO_OF_A_NUMBER}


def misses(number: str, name: str, hosts: int, kept: dict[str, Any]) -> list[str]:
    version, _ = version_for(f"rccl-{number}")
    path = file_of(name)
    assert path is not None
    (view,) = views(topology(path), version, Settings({}), more_nodes=hosts > 1)
    graphs = search_graphs(view.system, version, Settings({}), nvls=False)
    ranks = hosts * len(view.system.nodes[GPU])
    comm = rccl_input_of(hardware_of([view.system]), [graphs], version, ranks=ranks, nodes=hosts)
    assert comm is not None
    case = f"{number} {name} {hosts}"
    channels = coll_channels(comm)
    if channels != kept["channels"]:
        return [f"{case}: {kept['channels']} channels, not {channels}"]
    wrong = []
    figures = rccl_tuning(comm)
    for collective, rows in kept["tables"].items():
        for algorithm, cells in rows.items():
            for protocol, cell in zip(PROTOCOLS, cells, strict=True):
                mine = figures[collective][algorithm.upper()][protocol]
                if any(abs(a - b) > NEAR * max(1, b) for a, b in zip(mine, cell, strict=True)):
                    wrong.append(f"{case}: {collective} {algorithm} {protocol} {cell}, not {mine}")
    for collective, picks in kept["choices"].items():
        for size, algorithm, protocol, count in picks:
            found = choose(comm, figures, channels, collective, size)
            assert found is not None
            said = found.algorithm, found.protocol, found.channels[1] + 1
            if said != (algorithm.upper(), protocol.upper(), count):
                wrong.append(f"{case}: {collective} {size} {algorithm} {protocol}, not {said}")
    return wrong


@pytest.mark.parametrize("number", NUMBERS)
def test_some_machines(number: str) -> None:
    known = recorded(number)
    chosen = [name for name in known if name.startswith("demo_")] + [*known][::27]
    found = [
        miss
        for place, name in enumerate(dict.fromkeys(chosen))
        for hosts in [[*known[name]][place % len(known[name])]]
        for miss in misses(number, name, int(hosts), known[name][hosts])
    ]
    assert not found, "\n".join(found[:5])


@pytest.mark.captures
@pytest.mark.parametrize("number", NUMBERS)
def test_every_machine(number: str) -> None:
    known = recorded(number)
    found = [
        miss
        for name, every in known.items()
        for hosts, kept in every.items()
        for miss in misses(number, name, int(hosts), kept)
    ]
    assert not found, "\n".join(found[:5])


def timed(name: str, library: str, env: dict[str, str]) -> Timing:
    """What is said of one host of a recorded machine."""
    version, _ = version_for(library)
    path = file_of(name)
    assert path is not None
    (view,) = views(topology(path), version, Settings({}))
    graphs = search_graphs(view.system, version, Settings({}), nvls=False)
    return timing_of(
        hardware_of([view.system]),
        [graphs],
        version,
        Settings(env),
        asked=library,
        ranks=len(view.system.nodes[GPU]),
        nodes=1,
    )


@pytest.mark.parametrize(
    ("library", "env"), [("rccl-2.26.6", {}), ("rccl-2.28.3", {"NCCL_PROTO": "LL"})]
)
def test_what_is_not_followed_is_said(library: str, env: dict[str, str]) -> None:
    timing = timed("demo_mi300x-8", library, env)
    assert not timing.choices
    assert timing.assumptions
    assert "is not predicted" in timing.assumptions[0]


@pytest.mark.parametrize(("library", "said"), [("rccl-2.21.5", True), ("rccl-2.28.3", False)])
def test_gpus_that_no_build_is_for_are_said(library: str, said: bool) -> None:
    timing = timed("demo_mi355x-8", library, {})
    assert any("no kernels for gfx950" in text for text in timing.assumptions) == said


def test_one_gpu_has_nothing_to_choose() -> None:
    """One MI300X alone has 128 channels under 2.21.5, as its own code says of such a file."""
    node = demo_node("mi300x-8").snapshot
    (first, *_) = (gpu.address for gpu in node.machine.gpus)
    found = predict(node, library="rccl-2.21.5", gpus=(first,))
    assert (found.choices, found.tuning, found.coll_channels) == ((), {}, 128)
