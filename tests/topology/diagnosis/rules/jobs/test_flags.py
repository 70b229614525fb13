"""What variables cost, by the same node without them; and what was left over."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.diagnosis.rules.jobs import leftovers
from gputop.topology.model.finding import Finding
from gputop.topology.model.severity import BROKEN, NOTICE, SLOW
from gputop.topology.model.snapshot import EnvironmentVariable, Measurement, NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.sources.linux import environment
from tests.support.rule_cases import base, diagnosed

H200, H100 = "hgx-h200-4gpu-live", "demo hgx-h100-8"
FIRST, SECOND = "0000:00:06.0", "0000:00:07.0"


def with_variables(name: str, origin: str = "environment", **values: str) -> NodeSnapshot:
    whole = base(name)
    more = tuple(EnvironmentVariable(name=n, value=v, origin=origin) for n, v in values.items())
    return msgspec.structs.replace(whole, environment=(*whole.environment, *more))


def finding(snapshot: NodeSnapshot, rule: str, **rest: Any) -> Finding:
    found = [finding for finding in diagnosed(snapshot, **rest).findings if finding.id == rule]
    assert len(found) == 1, [finding.title for finding in found]
    return found[0]


def silent(snapshot: NodeSnapshot, rule: str, **rest: Any) -> bool:
    return rule not in {finding.id for finding in diagnosed(snapshot, **rest).findings}


def test_p2p_off_says_what_it_costs_in_busbw() -> None:
    found = finding(with_variables(H200, NCCL_P2P_DISABLE="1"), "flag-costs")
    assert found.severity == SLOW
    assert found.title == (
        "NCCL_P2P_DISABLE=1: all-reduce over 4 GPUs drops from about 358 to about 25.5 GB/s busbw"
    )
    assert "all 12 pairs go through shared memory (SHM)" in found.impact
    assert found.fix[0].command == "unset NCCL_P2P_DISABLE"


def test_a_measured_all_reduce_beats_the_estimate_when_it_had_these_variables() -> None:
    def said(**had: str) -> str:
        figure = Measurement(
            probe="collectives",
            quantity="all_reduce_busbw",
            value=24.1,
            unit="GB/s",
            bytes_per_copy=1 << 30,
            device_kind="gpu",
            details={"ranks": 4, "variables": had},
        )
        snapshot = with_variables(H200, NCCL_P2P_DISABLE="1")
        whole = msgspec.structs.replace(snapshot, measurements=(figure,))
        return finding(whole, "flag-costs").title

    here = {v.name: v.value for v in base(H200).environment if v.name.startswith("NCCL_")}
    assert said(**here, NCCL_P2P_DISABLE="1").endswith("to 24.1 GB/s busbw")
    assert said(**here).endswith("to about 25.5 GB/s busbw")
    assert said().endswith("to about 25.5 GB/s busbw")


def test_only_chosen_gpus_are_counted() -> None:
    snapshot = with_variables(H200, NCCL_P2P_DISABLE="1")
    assert "over 2 GPUs" in finding(snapshot, "flag-costs", gpus=(FIRST, SECOND)).title
    assert silent(snapshot, "flag-costs", gpus=(FIRST,))


def test_a_line_of_a_file_is_to_be_deleted_by_root() -> None:
    snapshot = with_variables(H200, "/etc/nccl.conf", NCCL_P2P_DISABLE="1")
    fix = finding(snapshot, "flag-costs").fix
    assert [(action.command, action.needs_root) for action in fix] == [
        ("grep -n NCCL_P2P_DISABLE /etc/nccl.conf", True)
    ]
    hostile = with_variables(H200, "/etc/a; rm -rf x.conf", NCCL_P2P_DISABLE="1")
    assert [fix.command for fix in finding(hostile, "flag-costs").fix] == [""]


def test_what_keeps_nccl_from_starting_is_broken() -> None:
    snapshot = with_variables(
        H200, NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1", NCCL_NET_DISABLE_INTRA="1"
    )
    found = finding(snapshot, "flag-costs")
    assert found.severity == BROKEN
    assert "does not start" in found.title


def test_figures_of_sockets_are_not_reported_for_rdma() -> None:
    found = finding(with_variables(H100, NCCL_P2P_DISABLE="1", NCCL_NVLS_ENABLE="0"), "flag-costs")
    assert found.severity == SLOW
    assert "4.2" not in found.title
    assert "sockets" not in str(found.evidence)


@pytest.mark.parametrize(
    "values",
    [
        {"NCCL_P2P_DISABLE": "0"},
        {"NCCL_P2P_LEVEL": "SYS"},
        {"NCCL_DEBUG": "INFO"},
        {"NCCL_SHM_DISABLE": "1"},
        {"NCCL_IB_DISABLE": "1"},
        {"NCCL_NVLS_ENABLE": "0"},
    ],
)
def test_what_changes_nothing_here_costs_nothing(values: dict[str, str]) -> None:
    assert silent(with_variables(H200, **values), "flag-costs")


def test_a_job_that_lists_its_nics_right_costs_nothing() -> None:
    assert silent(with_variables(H100, NCCL_IB_HCA="mlx5"), "flag-costs")
    assert silent(with_variables(H100, NCCL_IB_DISABLE="0"), "flag-costs")
    lost = finding(with_variables(H100, NCCL_IB_HCA="^mlx5"), "flag-costs")
    assert "leaves none of 8 RDMA devices" in lost.title


def test_without_a_prediction_nothing_is_said() -> None:
    found = diagnose(Case(Node(with_variables(H200, NCCL_P2P_DISABLE="1"))))
    assert {"flag-costs", "flag-ignored"} <= set(found.unexamined)


@pytest.mark.parametrize(
    ("name", "value", "slows"),
    [
        ("CUDA_LAUNCH_BLOCKING", "1", True),
        ("CUDA_LAUNCH_BLOCKING", "0", False),
        ("CUDA_LAUNCH_BLOCKING", "", False),
        ("CUDA_LAUNCH_BLOCKING", "yes", False),
        ("TORCH_DISTRIBUTED_DEBUG", "detail", True),
        ("TORCH_DISTRIBUTED_DEBUG", "INFO", False),
        ("NCCL_DEBUG", "TRACE", True),
        ("NCCL_DEBUG", "WARN", False),
        ("CUDA_DEVICE_MAX_CONNECTIONS", "1", False),
    ],
)
def test_what_debugging_leaves_behind(name: str, value: str, slows: bool) -> None:
    assert leftovers._slows(name, value) is slows


def test_a_file_that_is_not_there_is_read_as_such(tmp_path: Path) -> None:
    there = tmp_path / "topo.xml"
    there.write_text("<system/>")
    raw = environment.read(
        {"NCCL_TOPO_FILE": str(there), "NCCL_GRAPH_FILE": "/no/graph.xml", "HOME": "/none"},
        root="",
    )
    assert raw["unread"] == {"NCCL_GRAPH_FILE": "/no/graph.xml: No such file or directory"}
    problems = environment.parse(raw).problems
    assert [(problem.text, problem.kind) for problem in problems] == [
        ("NCCL_GRAPH_FILE: /no/graph.xml: No such file or directory", "absent")
    ]


def test_a_file_that_a_file_names_counts_too(tmp_path: Path) -> None:
    conf = tmp_path / "mine.conf"
    conf.write_text("NCCL_TOPO_FILE=/no/topo.xml\n")
    raw = environment.read({"NCCL_CONF_FILE": str(conf)}, root="")
    assert list(raw["unread"]) == ["NCCL_TOPO_FILE"]
    bad = environment.read({"NCCL_TOPO_FILE": "a\0b"}, root="")
    assert bad["unread"]["NCCL_TOPO_FILE"].endswith("not a path")


@pytest.mark.parametrize("unread", ["x", [1], {"NCCL_TOPO_FILE": 3}, {"SECRET": "x"}, None])
def test_odd_answers_about_files_say_nothing(unread: Any) -> None:
    raw = {"variables": {"NCCL_TOPO_FILE": "/x"}, "files": [], "unread": unread}
    assert environment.parse(raw).problems == ()


def test_a_mistyped_name_says_which_was_meant() -> None:
    found = finding(
        with_variables(H200, NCCL_P2P_DISABLED="1", NCCL_P2P_LEVEL="nvl"), "flag-ignored"
    )
    assert found.severity == NOTICE
    assert "NCCL_P2P_DISABLE is" in found.evidence[0].value
    assert "NCCL_P2P_LEVEL" in found.title


def test_a_cost_names_no_bandwidth_that_was_not_asked_about() -> None:
    # Large messages lose nothing by this one.
    assert "drops" not in finding(with_variables(H200, NCCL_PROTO="Simple"), "flag-costs").title
    # LL has half the bandwidth of a ring or less; the ring of the table is of the fast protocols.
    low = finding(with_variables(H100, NCCL_PROTO="LL"), "flag-costs").title
    slow = re.search(r"to about (\d+)", low)
    assert slow is not None
    assert float(slow[1]) < 370 / 2
    # Host staging was measured with NCCL on NVIDIA's GPUs alone.
    amd = finding(with_variables("demo mi300x-8", NCCL_P2P_DISABLE="1"), "flag-costs")
    assert amd.severity == SLOW
    assert "25.5" not in amd.title
