"""Each key of a quantity stands in its probe's declaration, and at most once in topology/."""

from __future__ import annotations

import ast
import re
from collections import Counter

from gputop.measuring.quantities import quantity, specs
from gputop.topology.model import quantities
from tests.support.layers import nodes
from tests.support.places import ROOT

DECLARED = {known.key: known for spec in specs().values() for known in spec.quantities}
KNOWN = {name: key for name, key in vars(quantities).items() if name.isupper()}
MOST_FILES = 3
WORDS_BESIDES = {"gemm", "latency", "transport"}
"""Keys that are ordinary words too: of a probe's name, an attribute of NCCL, a kind of log line."""


def test_topology_asks_for_quantities_that_a_probe_declares() -> None:
    assert set(KNOWN.values()) <= DECLARED.keys()
    assert len(set(KNOWN.values())) == len(KNOWN)


def test_a_probe_declares_what_it_measures_and_each_quantity_once() -> None:
    for name, spec in specs().items():
        keys = [known.key for known in spec.quantities]
        assert keys, name
        assert len(set(keys)) == len(keys), name
        assert all(known.per in ("pair", "device", "ranks") for known in spec.quantities), name
        assert all(re.fullmatch(r"[a-z0-9_]+", key) for key in keys), name
        assert sum(known.headline for known in spec.quantities) <= 1, name
        totals = {known.total_of for known in spec.quantities if known.total_of}
        assert totals <= set(keys), name


def test_a_quantity_of_another_version_is_called_by_its_key() -> None:
    assert quantity("old_bandwidth", "old").title == "old"
    assert quantity("all_reduce_busbw", "nccl").in_check
    assert not quantity("all_reduce_busbw", "collectives").in_check


def test_no_key_is_written_in_many_files() -> None:
    files: Counter[str] = Counter()
    for folder in ("gputop", "topology", "probes"):
        for path in (ROOT / folder).rglob("*.py"):
            found = {node.value for node in nodes(path) if isinstance(node, ast.Constant)}
            files.update(key for key in DECLARED.keys() - WORDS_BESIDES if key in found)
    assert DECLARED.keys() - WORDS_BESIDES - files.keys() == set(), "no file was found"
    assert {key: count for key, count in files.items() if count > MOST_FILES} == {}
