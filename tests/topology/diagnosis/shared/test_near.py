"""Which CPUs are near a GPU."""

from __future__ import annotations

import msgspec

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.shared.near import local_cpus, some
from gputop.topology.node import Node
from tests.support.rule_cases import base


def test_cpus_next_to_a_gpu() -> None:
    case = Case(Node(base("demo hgx-h100-8")))
    gpu = case.gpus[0]
    assert 112 in (local_cpus(case, gpu) or ())
    unknown = msgspec.structs.replace(gpu, numa_node=None, memory_affinity=None)
    assert local_cpus(case, unknown) == local_cpus(case, gpu)
    nothing = msgspec.structs.replace(unknown, cpu_affinity=None)
    assert local_cpus(case, nothing) is None
    addresses = [one.address for one in case.gpus]
    assert some(case, addresses) == "all 8 GPUs"
    assert some(case, addresses[:2]) == "GPU0 and GPU1"
