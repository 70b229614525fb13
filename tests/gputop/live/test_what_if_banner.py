"""The banner of a what-if says what the screen Flags says of the same value."""

from __future__ import annotations

import re

import msgspec
import pytest

from gputop.live.what_if_work import work_out
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.explain.value_rows import NOT_KNOWN, reach_of, value_rows, version_rows
from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.flags.what_if.outcomes import outcomes
from gputop.topology.flags.what_if.study import Study
from gputop.topology.flags.what_if.wording import sections
from gputop.topology.model import quantities
from gputop.topology.model.snapshot import Measurement
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.node import Node
from gputop.widgets.spans import text_of
from gputop.widgets.status import what_if_line
from tests.grid import share
from tests.support.app import demo_report

CASES = [
    ("hgx-h100-8", "NCCL_P2P_DISABLE", "1"),
    ("pcie-l40s-8", "NCCL_P2P_DISABLE", "1"),
    ("pcie-l40s-8", "NCCL_P2P_LEVEL", "SYS"),
    ("sick-h100-8", "NCCL_P2P_DISABLE", "1"),
    ("sick-h100-8", "NCCL_NVLS_ENABLE", "0"),
    ("mi300x-8", "NCCL_P2P_DISABLE", "1"),
]


@pytest.mark.parametrize(("demo", "name", "value"), CASES)
def test_the_figure_is_that_of_flags(demo: str, name: str, value: str) -> None:
    report = demo_report(demo)
    study = Study(report.snapshot, made=report.prediction)
    outcome = work_out(study, report, {name: value}, lambda node: diagnose(Case(node)))
    flag = catalogue().flag(name)
    assert outcome is not None
    assert flag is not None
    rows = {row.value: row for row in value_rows(flag, study, report.node)}
    line = text_of(what_if_line((f"{name}={value}",), outcome.summary, 200))
    before, after = rows["not set"].large, rows[value].large
    assert "all-reduce 1 GiB: " in line
    if before == after:
        assert f"{after} unchanged (predicted) · NCCL's model does not ask" in line
    else:
        assert f"{before.removesuffix(' GB/s')}" in line
        assert f" → {after}" in line
    comparison = study.compare({}, {name: value})
    if comparison.effect.blind:
        said = str(sections(comparison))
        # What the links allow is a range; times by the library's model are not known.
        assert after == NOT_KNOWN or re.fullmatch(r"~[\d.]+ to [\d.]+ GB/s", after)
        assert rows[value].medium == NOT_KNOWN
        assert "model does not ask" in line
        assert "the times are not known" in said
        assert "Predicted all-reduce" not in said
        table = outcomes(flag, (comparison,), comparison.baseline)[1].table
        assert table[2][-1] == NOT_KNOWN
    assert comparison.effect.blind is (demo == "pcie-l40s-8")


@pytest.mark.parametrize(
    ("demo", "library", "number"),
    share(
        [
            ("pcie-l40s-8", "NCCL", "2.21.5"),
            ("sick-h100-8", "NCCL", "2.26.2"),
            ("mi300x-8", "RCCL", "2.27.7"),
        ],
        2,
    ),
)
def test_another_version_is_a_change_like_any_other(demo: str, library: str, number: str) -> None:
    report = demo_report(demo)
    study = Study(report.snapshot, made=report.prediction)
    outcome = work_out(study, report, {library: number}, lambda node: diagnose(Case(node)))
    assert outcome is not None
    expected = predict(report.snapshot, library=f"{library.lower()}-{number}")
    for made in (outcome.node.prediction, study.predict({library: number})):
        assert made is not None
        assert (made.pairs, made.graphs, made.choices) == (
            expected.pairs,
            expected.graphs,
            expected.choices,
        )
    row = next(row for row in version_rows(study, report.node) if row.value == number)
    comparison = study.compare({}, {library: number})
    assert row.large == reach_of(comparison, report.node, {library: number})[1]
    assert outcome.shown(report) is not None


def test_what_was_measured_without_a_change_says_nothing_of_it() -> None:
    report = demo_report("hgx-h100-8")
    measured = Measurement(
        probe="collectives",
        quantity=quantities.ALL_REDUCE,
        value=470.0,
        unit="GB/s",
        bytes_per_copy=1 << 30,
        device_kind="simulated",
    )
    snapshot = msgspec.structs.replace(report.snapshot, measurements=(measured,))
    node, study = Node(snapshot).decide(), Study(snapshot)
    changes = {"NCCL_P2P_DISABLE": "1"}
    bare = reach_of(study.compare({}, changes), report.node, changes)
    assert reach_of(study.compare({}, changes), node, changes) == ("470 GB/s", bare[1])
    assert bare[1] != "470 GB/s"


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_banner_keeps_the_key_and_the_first_clause(width: int, count: int) -> None:
    changes = ("NCCL_P2P_DISABLE=1", "NCCL_ALGO=Ring", "NCCL 2.30.7", "NCCL_PROTO=Simple")[:count]
    summary = ("P2P for 4 of 28 pairs (28 today)", "all-reduce 1 GiB: 20 GB/s (predicted)")
    line = text_of(what_if_line(changes, summary, width))
    assert len(line.rstrip()) <= width
    assert "· u undo ·" in line
    assert "P2P for 4 of 28 pairs" in line
    assert changes[0] in line
    assert changes[-1] in line or line.count(" more") == 1
