"""Rules on what NCCL's XML and a container show: not all of a machine, and that is no fault."""

from __future__ import annotations

import msgspec
import pytest

from gputop.topology.model.machine import Gpu
from gputop.topology.model.record import Gap
from gputop.topology.recorded.load import load
from gputop.topology.sources.collect import ONLY_PCI
from tests.support.places import RECORDINGS

from ...support.rule_cases import base, diagnosed, ids

TOPOLOGIES = RECORDINGS / "nccl-topologies"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("one_missing_nvlink", ("nvlink-missing",)), ("nvswitch_2s_intel", ()), ("real", ())],
)
def test_half_the_links_of_one_gpu_show_in_a_topology_xml(
    name: str, expected: tuple[str, ...]
) -> None:
    found = diagnosed(load([str(TOPOLOGIES / f"{name}.xml")]).snapshot)
    assert ids(found) == tuple(sorted((*expected, "evidence-missing")))
    if expected:
        one = found.findings[0]
        assert one.evidence[0].value == "9 of 18"
        assert one.evidence[0].source.startswith(f"{name}.xml")


def test_gpus_that_a_container_was_not_given_are_no_other_model() -> None:
    whole = base("demo hgx-h100-8")
    host = whole.machine.host
    assert host is not None
    assert host.container is not None
    gpus = tuple(
        gpu
        if place in (6, 7)
        else Gpu(address=gpu.address, vendor=gpu.vendor, gaps=(Gap("uuid", ONLY_PCI),))
        for place, gpu in enumerate(whole.machine.gpus)
    )
    inside = msgspec.structs.replace(host.container, kind="docker")
    machine = msgspec.structs.replace(
        whole.machine, gpus=gpus, host=msgspec.structs.replace(host, container=inside)
    )
    found = diagnosed(msgspec.structs.replace(whole, machine=machine))
    assert found.verdict == "healthy"
    assert "device-order" not in ids(found)
    named = {device for finding in found.findings for device in finding.devices}
    assert named <= {gpu.address for gpu in gpus[6:]}
