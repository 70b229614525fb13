"""Containers and batch jobs, which are given a part of a machine: that is no fault of it."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.expectation.reference import named
from gputop.topology.model.severity import BROKEN, NOTICE, SLOW
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.sources.collect import ONLY_PCI
from tests.support.rule_cases import base, diagnosed, edited, severities
from tests.topology.diagnosis.device_rules import at

BOARD = "demo hgx-h100-8"
RACK = "b6f5ad3c-8f0e-4b8a-9a55-0d7a5a9b0c01"
"""A cluster's UUID on boards whose NVLink spans hosts."""
CONTAINER = {"kind": "kubernetes"}
JOB = {"job": "slurm 12.0"}


@pytest.mark.parametrize(
    ("container", "severity"),
    [({"kind": None}, BROKEN), (CONTAINER, NOTICE), (JOB, NOTICE)],
    ids=["host", "container", "job"],
)
def test_a_container_without_a_channel_did_not_ask_for_one(
    container: dict[str, Any], severity: str
) -> None:
    rack = at(
        BOARD,
        ("machine.gpus[*].fabric.cluster_uuid", RACK),
        ("machine.host.imex_channels", False),
        ("machine.host.container", container),
    )
    assert severities("imex-channel", rack) == [severity]


@pytest.mark.parametrize(
    ("container", "severity"),
    [({"kind": None}, NOTICE), (CONTAINER, NOTICE), (JOB, BROKEN)],
    ids=["login", "container", "job"],
)
def test_the_limit_of_a_login_is_not_that_of_a_job(
    container: dict[str, Any], severity: str
) -> None:
    idle = at(
        BOARD,
        ("readings.processes", []),
        ("machine.host.memlock_bytes", 8 << 20),
        ("machine.host.container", container),
    )
    assert severities("memlock-low", idle) == [severity]


def fewer(*edits: tuple[str, Any]) -> NodeSnapshot:
    """The same board with one GPU less than before."""
    whole = at(BOARD, *edits)
    gone = whole.machine.gpus[7].address
    return edited(
        whole,
        [
            {"path": f"machine.gpus[address={gone}]", "remove": True},
            {"path": f"readings.gpus[address={gone}]", "remove": True},
        ],
    )


def test_a_gpu_that_is_elsewhere_now_has_not_fallen_off_the_bus() -> None:
    earlier = base(BOARD)
    gone = earlier.machine.gpus[7].address
    assert severities("gpu-lost", fewer(), earlier=earlier) == [BROKEN]
    job = fewer(("machine.host.container", JOB))
    assert severities("gpu-lost", job, earlier=earlier) == []
    other = at(BOARD, ("machine.host.container", JOB | {"job": "slurm 12.1"}))
    assert severities("gpu-lost", job, earlier=other) == []
    # The devices of one job stay the same.
    same = at(BOARD, ("machine.host.container", JOB))
    assert severities("gpu-lost", job, earlier=same) == [BROKEN]
    lent = fewer((f"machine.pci[address={gone}].driver", "vfio-pci"))
    assert severities("gpu-lost", lent, earlier=earlier) == []
    # What is not even on the bus any more was not kept from this job.
    off = edited(job, [{"path": f"machine.pci[address={gone}]", "remove": True}])
    assert severities("gpu-lost", off, earlier=earlier) == [BROKEN]


def test_what_was_replaced_or_parted_has_not_fallen_off_the_bus() -> None:
    other = at(BOARD, ("machine.gpus[7].uuid", "GPU-00000000-0000-0000-0000-000000000001"))
    assert severities("gpu-lost", other, earlier=base(BOARD)) == []
    whole = base("demo mi300x-8")
    first = whole.machine.gpus[0].address
    part = {"uuid": "part", "vendor": "amd", "parent": first, "address": f"{first}.1"}
    parts = edited(whole, [{"path": "machine.gpus[0]", "value": part}])
    assert severities("gpu-lost", parts, earlier=whole) == []
    gone = edited(whole, [{"path": "machine.gpus[0]", "remove": True}])
    assert severities("gpu-lost", gone, earlier=whole) == [BROKEN]


def test_a_container_may_have_been_given_some_nics_alone() -> None:
    lost = edited(base(BOARD), [{"path": "machine.rdma[name=mlx5_3]", "remove": True}])
    assert severities("nic-far", lost) == [SLOW]
    inside = edited(lost, [{"path": "machine.host.container", "value": CONTAINER}])
    assert severities("nic-far", inside) == [NOTICE]
    # No scheduler hides NICs: a job without a container sees those of the host.
    job = {"path": "machine.host.container", "value": {"job": "slurm 7"}}
    assert severities("nic-far", edited(lost, [job])) == [SLOW]


def part(name: str, keep: range, container: dict[str, Any], *, bus: bool = True) -> NodeSnapshot:
    """A node of whose GPUs some were given; /sys shows the others where it is the host's."""
    whole = base(name)
    others = [gpu.address for place, gpu in enumerate(whole.machine.gpus) if place not in keep]
    edits: list[dict[str, Any]] = [{"path": "machine.host.container", "value": container}]
    for address in others:
        alone = {
            "address": address,
            "vendor": "nvidia",
            "gaps": [{"field": "uuid", "why": ONLY_PCI}],
        }
        edits.append({"path": f"readings.gpus[address={address}]", "remove": True})
        edits.append(
            {"path": f"machine.gpus[address={address}]"}
            | ({"value": alone} if bus else {"remove": True})
        )
        if not bus:
            edits.append({"path": f"machine.pci[address={address}]", "remove": True})
    return edited(whole, edits)


@pytest.mark.parametrize(
    ("container", "bus", "severity"),
    [(JOB, True, []), (CONTAINER, True, []), (CONTAINER, False, [BROKEN]), ({}, False, [BROKEN])],
)
def test_a_job_with_some_gpus_of_the_expected_node_is_on_that_node(
    container: dict[str, Any], bus: bool, severity: list[str]
) -> None:
    given = part(BOARD, range(2, 4), container, bus=bus)
    assert severities("unexpected-gpus", given, reference=named("dgx-h100")) == severity


@pytest.mark.parametrize("name", ["demo hgx-h100-8", "demo hgx-a100-8", "demo dgx-1v"])
@pytest.mark.parametrize("container", [CONTAINER, JOB], ids=["container", "job"])
@pytest.mark.parametrize("keep", [range(1), range(3, 5), range(4), range(7)], ids=len)
def test_any_part_of_a_healthy_node_is_healthy(
    name: str, container: dict[str, Any], keep: range
) -> None:
    loud = [
        finding.title
        for finding in diagnosed(part(name, keep, container)).findings
        if finding.severity in (BROKEN, SLOW)
    ]
    assert not loud
