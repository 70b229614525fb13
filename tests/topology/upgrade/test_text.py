"""An upgrade in words: two lines that answer, what is an estimate, what was compared."""

from __future__ import annotations

from msgspec.structs import replace

from gputop.topology.flags.what_if.changes import with_changes
from gputop.topology.upgrade.causes import Cause
from gputop.topology.upgrade.text import (
    because,
    cost_line,
    decisions,
    head_lines,
    heading,
    sections,
)
from gputop.topology.upgrade.upgrade import Upgrade, upgrade
from tests.topology.nccl.made import ARM, cpu, gpu, snapshot, switch, system

from .made import C2C, machine, upgraded


def told(found: Upgrade, where: str = "here") -> list[str]:
    return list(head_lines(found, where, ""))


def test_the_first_line_counts_what_changes_and_names_it() -> None:
    lines = told(upgraded("sockets", "nccl-2.21.5", "nccl-2.30.7"))
    assert lines[0] == (
        "6 things change from NCCL 2.21.5 to 2.30.7 on here (4 GPUs): domains, pairs, ring, tree, "
        "channels, algorithms"
    )
    assert lines[1].startswith("NCCL 2.21.5 and 2.30.7: paths, transports, NICs and graphs are")


def test_one_rule_stands_above_all_that_it_changes() -> None:
    found = upgraded("sockets", "nccl-2.21.5", "nccl-2.30.7")
    (rules, lines), *_ = decisions(found)
    (rule,) = rules
    assert rule.startswith("Since NCCL 2.26.2: Two sockets of Sapphire Rapids count 22 GB/s")
    assert rule.endswith("graph/topo.cc:ncclTopoGetInterCpuBw")
    assert "4 pairs (0,1 with 2,3): NET/IB over NET -> SHM/direct over SYS" in lines


def test_nothing_says_what_was_compared_and_which_version_is_an_estimate() -> None:
    found = upgraded("mi300x-8", "rccl-2.21.5", "rccl-2.26.6")
    lines = told(found)
    assert lines[0] == "Nothing changes from RCCL 2.21.5 to 2.26.6 on here (8 GPUs)"
    assert lines[1].startswith("RCCL 2.21.5: paths")
    assert lines[2].startswith("RCCL 2.26.6 is an estimate: ")
    (compared,) = (one for one in sections(found) if one.title == "Compared")
    assert compared.paragraphs[0].startswith("28 pairs, ring, tree, NVLS: every value")


def test_a_version_without_rules_says_whose_are_followed() -> None:
    found = upgraded("grace", "nccl-2.26.2", "nccl-2.26.5")
    assert found.differences == ()
    assert told(found)[2] == (
        "NCCL 2.26.5 is an estimate: no rules for NCCL 2.26.5: those of 2.26.2, the nearest older"
    )


def test_figures_alone_are_no_change() -> None:
    found = upgraded("hgx-h100-8", "nccl-2.27.7", "nccl-2.30.7")
    assert told(found)[0].startswith("No decision changes from NCCL 2.27.7 to 2.30.7")
    titles = [one.title for one in sections(found)]
    assert "Figures of the library's own that differ, no decision" in titles


def test_the_cost_says_where_only_the_model_differs() -> None:
    node = machine("hgx-h100-8")
    found = upgraded("hgx-h100-8", "nccl-2.27.7", "nccl-2.30.7")
    assert cost_line(found, node, whole=True) == (
        "All-reduce 1 GiB: 464 → 473 GB/s, +2 % (predicted); by the same algorithm on the same "
        "channels: only the model's figures differ"
    )
    assert (
        cost_line(found, node, whole=True).split(";")[0]
        == (cost_line(found, node, whole=False).split(";")[0])
    )


def test_the_cost_blames_the_model_only_where_no_decision_changes() -> None:
    node = machine("hgx-h100-8")
    off = with_changes(node, {"NCCL_P2P_DISABLE": "1"})
    found = upgrade(off, "nccl-2.27.3", "nccl-2.29.7")
    assert found.topics == ("channels",)
    assert cost_line(found, off, whole=True).endswith("% (predicted)")


def test_one_figure_alone_is_told_as_one() -> None:
    found = upgraded("hgx-h100-8", "nccl-2.27.7", "nccl-2.30.7")
    alone = next(item for item in found.differences if item.topic == "figures")
    one = replace(found, differences=(replace(alone, pieces=1),))
    (section,) = (item for item in sections(one) if item.title.startswith("Figures of"))
    assert section.bullets[0].startswith("1 figure of its tuning model: latency or bandwidth")


def test_the_cost_of_other_transports_is_no_promise() -> None:
    node = machine("sockets")
    found = upgraded("sockets", "nccl-2.21.5", "nccl-2.30.7")
    assert cost_line(found, node, whole=True).endswith(
        "GB/s, +67 % (estimate); the model does not ask by which transport bytes go"
    )


def test_a_version_that_does_not_start_has_no_cost() -> None:
    below = switch(0x60, gpu(0x10, 0).replace("</gpu>", C2C), gpu(0x11, 1))
    node = snapshot(system(cpu(0, below, kind=ARM)))
    found = upgrade(node, "nccl-2.21.5", "nccl-2.22.3")
    assert found.topics == ("start",)
    assert cost_line(found, node, whole=True) == "NCCL 2.21.5 would not start here"
    (rules, _), *_ = decisions(found)
    assert rules[0].endswith("graph/paths.cc:getLocalCpu")


def test_one_gpu_alone_has_no_cost() -> None:
    node = machine("grace")
    found = upgrade(node, "nccl-2.21.5", "nccl-2.30.7", gpus=[node.machine.gpus[0].address])
    assert cost_line(found, node, whole=False) == ""


def test_a_rule_that_rccl_has_of_nccl_says_so() -> None:
    cause = Cause(since="rccl-2.26.6", rule="X", source="a.cc:b", introduced="nccl-2.24.3")
    assert because(cause, "RCCL") == "Since RCCL 2.26.6 or before, from NCCL 2.24.3: X · a.cc:b"


def test_of_an_older_version_the_rules_are_not_there_yet() -> None:
    there = upgraded("grace", "nccl-2.25.1", "nccl-2.26.2")
    back = upgraded("grace", "nccl-2.26.2", "nccl-2.25.1")
    assert heading(there) == "What changes, and by which rule"
    assert heading(back) == "What changes, and the rule that is not there yet"
    assert {rules for rules, _ in decisions(there)} == {rules for rules, _ in decisions(back)}


def test_what_one_version_is_not_followed_in_is_no_change() -> None:
    found = upgraded("mi300x-8", "rccl-2.26.6", "rccl-2.28.3")
    assert not {"channels", "algorithms"} & {*found.topics, *found.compared}
    (compared,) = (one for one in sections(found) if one.title == "Compared")
    assert (
        "Channels, algorithms and times are not known of RCCL 2.26.6: they are not compared."
        in compared.paragraphs
    )
