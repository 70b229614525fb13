"""Rules on running jobs: where they keep quiet, and what they say."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gputop.topology.model.finding import Finding
from gputop.topology.model.machine import Fabric
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import Container, ContainerKind, Host
from tests.support.rule_cases import base, cases, diagnosed, ids

OURS = {"ranks-share-gpu", "ranks-differ", "containers-apart", "job-zombie"}


def sick(name: str) -> NodeSnapshot:
    return next(case for case in cases() if case.name == name).snapshot


def ours(snapshot: NodeSnapshot) -> set[str]:
    return OURS & set(ids(diagnosed(snapshot)))


def one(snapshot: NodeSnapshot, rule: str) -> Finding:
    (found,) = [finding for finding in diagnosed(snapshot).findings if finding.id == rule]
    return found


def with_gpus(snapshot: NodeSnapshot, **fields: Any) -> NodeSnapshot:
    gpus = tuple(replace(gpu, **fields) for gpu in snapshot.machine.gpus)
    return replace(snapshot, machine=replace(snapshot.machine, gpus=gpus))


def with_host(snapshot: NodeSnapshot, **fields: Any) -> NodeSnapshot:
    host = replace(snapshot.machine.host or Host(), **fields)
    return replace(snapshot, machine=replace(snapshot.machine, host=host))


def with_processes(snapshot: NodeSnapshot, **fields: Any) -> NodeSnapshot:
    processes = tuple(replace(process, **fields) for process in snapshot.readings.processes)
    return replace(snapshot, readings=replace(snapshot.readings, processes=processes))


def with_lists(snapshot: NodeSnapshot, lists: Any) -> NodeSnapshot:
    gpus = tuple(replace(gpu, processes=lists) for gpu in snapshot.readings.gpus)
    return replace(snapshot, readings=replace(snapshot.readings, gpus=gpus))


def test_ranks_apart_are_priced_in_pairs_of_gpus() -> None:
    found = one(sick("job-apart-shm"), "containers-apart")
    assert "8 pairs that would use P2P/CUMEM" in found.impact
    assert "GB/s one way in NCCL's model" in found.impact
    assert [e.value for e in found.evidence] == ["26"] * 4 + ["88"] * 2
    assert len(found.devices) == 6


def test_a_rack_joined_by_nvlink_has_p2p_between_hosts() -> None:
    rack = Fabric(state="completed", cluster_uuid="3f1c0e4e-0000-4000-8000-000000000001")
    assert ours(with_gpus(sick("job-apart-shm"), fabric=rack)) == set()
    alone = replace(rack, cluster_uuid="00000000-0000-0000-0000-000000000000")
    assert ours(with_gpus(sick("job-apart-shm"), fabric=alone)) == {"containers-apart"}


def test_host_names_prove_nothing_while_nccl_hostid_may_be_set() -> None:
    assert ours(with_processes(sick("job-apart-hostname"), variables=None)) == set()
    assert ours(with_processes(sick("job-apart-hostname"), namespaces=None)) == set()


def test_one_uts_namespace_has_one_name_whatever_two_files_say() -> None:
    shared = with_processes(sick("job-apart-hostname"), namespaces=(("uts", "4026532222"),))
    assert ours(shared) == set()


def test_idle_gpus_are_named_where_ranks_share_one() -> None:
    found = one(sick("job-ranks-share"), "ranks-share-gpu")
    assert "GPU1" in found.impact
    assert found.devices == ("0000:19:00.0",)
    assert "rank 0 (pid 41000), rank 1 (pid 41001)" in found.evidence[0].value


def test_without_torchrun_a_shared_gpu_may_be_wanted() -> None:
    shared = with_processes(sick("job-ranks-share"), job="slurm 7.0")
    assert one(shared, "ranks-share-gpu").severity == "slow"


@pytest.mark.parametrize("how", ["mig", "mps", "part"])
def test_parts_of_a_gpu_and_mps_are_no_accident(how: str) -> None:
    shared = sick("job-ranks-share")
    if how == "mig":
        shared = with_gpus(shared, mig_enabled=True)
    elif how == "part":
        shared = with_gpus(shared, partition="xcp0")
    else:
        shared = with_host(shared, mps_daemon=True)
    assert "ranks-share-gpu" not in ids(diagnosed(shared))


def test_differing_variables_are_reported_with_the_ranks() -> None:
    (item,) = one(sick("job-ranks-differ"), "ranks-differ").evidence
    assert item.value == "not set on rank 0, 1, 2, 4, 5; Tree on rank 3"


def test_what_nobody_may_read_is_not_examined() -> None:
    denied = sick("job-not-readable")
    found = diagnosed(denied)
    assert {"containers-apart", "ranks-differ", "ranks-share-gpu"} <= set(found.unexamined)
    assert "job-zombie" in found.examined


def test_a_list_that_the_driver_refuses_or_a_container_hides_is_not_examined() -> None:
    whole = base("demo hgx-h100-8")
    assert set(diagnosed(with_lists(whole, None)).unexamined) >= OURS
    bare = with_host(with_lists(whole, ()), container=Container())
    assert set(diagnosed(bare).examined) >= OURS
    inside = with_host(bare, container=Container(kind=ContainerKind.DOCKER))
    assert set(diagnosed(inside).unexamined) >= OURS


def test_only_the_ranks_of_chosen_gpus_count() -> None:
    snapshot = sick("job-ranks-differ")
    first = [gpu.address for gpu in snapshot.machine.gpus[:2]]
    assert not OURS & set(ids(diagnosed(snapshot, gpus=first)))


def test_a_zombie_is_not_called_an_orphan_too() -> None:
    found = one(sick("job-zombie"), "job-zombie")
    assert found.title == "processes that have ended hold GPU2"
    assert "GiB of GPU memory" in found.impact
    left = one(sick("job-orphan"), "job-zombie")
    assert left.title == "processes that have lost their launcher hold GPU2"
