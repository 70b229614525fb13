"""Whatever a host, a network, a process or a variable says: no rule about them raises."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.rules import NAMES
from gputop.topology.model.readings import HostReading, ProcessReading
from gputop.topology.model.severity import Severity
from gputop.topology.model.snapshot import EnvironmentVariable, Measurement, NodeSnapshot, Problem
from gputop.topology.model.surroundings import (
    CacheFolder,
    Container,
    Host,
    Interface,
    RdmaDevice,
    RdmaPort,
)
from gputop.topology.node import Node
from tests.grid import fewer

from ...support.rule_cases import base

AROUND = ("host.", "network.", "jobs.flags", "jobs.leftovers", "jobs.device_order")
RULES = [
    rule
    for name in NAMES
    if name.startswith(AROUND)
    for rule in import_module(f"gputop.topology.diagnosis.rules.{name}").RULES
]
BASES = ("hgx-h200-4gpu-live", "demo hgx-h100-8", "demo mi300x-8")
odd = st.one_of(st.none(), st.text(max_size=12), st.sampled_from(["0-3,9", "4-1", "0", "-1", "%s"]))
count = st.one_of(st.none(), st.integers(-(2**40), 2**62))
hosts = st.builds(
    Host,
    kernel=odd,
    hypervisor=odd,
    nvidia_module=st.sampled_from([None, "open", "closed", "x"]),
    memory_peers=st.sampled_from([None, (), ("nv_mem",), ("\x1b[2J",)]),
    shm_bytes=count,
    memlock_bytes=count,
    open_files_limit=count,
    numa_balancing=st.sampled_from([None, True, False]),
    cpu_governors=st.sampled_from([None, (), (("powersave", 0),), (("x", -1), ("y", 2))]),
    cpu_frequency_driver=odd,
    container=st.one_of(
        st.none(),
        st.builds(
            Container, kind=odd, cpu_quota=st.one_of(st.none(), st.floats(-1, 9)), cpuset=odd
        ),
    ),
    compile_caches=st.lists(
        st.builds(CacheFolder, name=st.text(max_size=9), path=st.text(max_size=9), filesystem=odd),
        max_size=2,
    ).map(tuple),
)
interfaces = st.lists(
    st.builds(
        Interface,
        name=st.sampled_from(["eth0", "docker0", "ib0", "lo", "", "\n"]),
        index=st.one_of(st.none(), st.integers(-2, 5)),
        kind=odd,
        up=st.sampled_from([None, True, False]),
        ips=st.lists(st.one_of(st.text(max_size=9), st.just("169.254.1.1/16")), max_size=2).map(
            tuple
        ),
        default_route=st.sampled_from([None, True, False]),
    ),
    max_size=4,
).map(tuple)
rdma = st.lists(
    st.builds(
        RdmaDevice,
        name=st.text(max_size=6),
        address=st.sampled_from([None, "", "0000:18:00.0", "0000:00:06.0", "x"]),
        kind=st.sampled_from([None, "infiniband", "efa", "roce"]),
        board_id=odd,
        driver=odd,
        ports=st.lists(
            st.builds(
                RdmaPort,
                port=st.integers(0, 2),
                state=st.sampled_from([None, "ACTIVE", "DOWN", "INIT", "odd"]),
                rate_gbit=st.one_of(st.none(), st.floats(-1, 1e6)),
            ),
            max_size=2,
        ).map(tuple),
    ),
    max_size=4,
).map(tuple)
names = st.sampled_from(
    ["CUDA_VISIBLE_DEVICES", "NCCL_IB_HCA", "NCCL_IB_DISABLE", "NCCL_SOCKET_IFNAME",
     "NCCL_TOPO_FILE", "NCCL_CUMEM_ENABLE", "CUDA_LAUNCH_BLOCKING", "NCCL_P2P_LEVEL", "NCCL_XYZ"]
)  # fmt: skip
values = st.one_of(st.text(max_size=12), st.sampled_from(["1", "0,1", "^=:,", "9" * 400, "GPU-"]))
variables = st.lists(
    st.builds(
        EnvironmentVariable, name=names, value=values, origin=st.sampled_from(["environment", "/e"])
    ),
    max_size=3,
).map(tuple)
processes = st.lists(
    st.builds(
        ProcessReading,
        pid=st.sampled_from([41000, 41001, 5]),
        command=odd,
        cpu_affinity=odd,
        memory_nodes=odd,
        memlock_bytes=count,
        shm_bytes=count,
        cpu_quota=st.one_of(st.none(), st.floats()),
        variables=st.lists(st.tuples(names, values), max_size=2).map(tuple),
    ),
    max_size=3,
).map(tuple)
figures = st.lists(
    st.builds(
        Measurement,
        probe=st.just("made"),
        quantity=st.sampled_from(["transport", "all_reduce_busbw", "h2d_bandwidth"]),
        src=st.sampled_from([None, "0000:00:06.0", "0000:19:00.0", "x"]),
        value=st.one_of(st.none(), st.floats()),
        verdict=odd,
        variant=st.sampled_from([None, "pinned", "pinned, NUMA node 1"]),
        bytes_per_copy=st.one_of(st.none(), st.integers()),
        details=st.dictionaries(
            st.sampled_from(["variables", "ranks", "numa_node"]),
            st.one_of(st.none(), st.integers(), st.dictionaries(st.text(max_size=3), st.none())),
        ),
    ),
    max_size=3,
).map(tuple)


@pytest.mark.parametrize("name", BASES)
@fewer(3)
@given(data=st.data())
def test_no_rule_raises_whatever_is_read(name: str, data: Any) -> None:
    whole = base(name)
    numa = whole.machine.host.numa if whole.machine.host is not None else ()
    host = msgspec.structs.replace(data.draw(hosts), numa=data.draw(st.sampled_from([(), numa])))
    machine = msgspec.structs.replace(
        whole.machine, host=host, interfaces=data.draw(interfaces), rdma=data.draw(rdma)
    )
    readings = msgspec.structs.replace(
        whole.readings,
        processes=data.draw(processes),
        host=HostReading(shm_free_bytes=data.draw(count)),
    )
    snapshot: NodeSnapshot = msgspec.structs.replace(
        whole,
        machine=machine,
        readings=readings,
        environment=data.draw(variables),
        measurements=data.draw(figures),
        problems=(Problem(source="environment", text=data.draw(st.text(max_size=30))),),
    )
    report = Node(snapshot)
    report = report.decide()
    case = Case(report)
    for rule in RULES:
        for found in rule.answer(case) or ():
            assert found.id == rule.id
            assert found.severity in set(Severity)
            assert all((found.title, found.impact, found.evidence))
            assert found.disproof or rule.disproof_for(case.gpus, case.words)
