"""Rules about GPUs that do not serve, on odd input: what proves nothing must stay silent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gputop.topology.model.machine import Gpu
from gputop.topology.model.record import Gap
from gputop.topology.model.snapshot import NodeSnapshot, Problem, ProblemKind, SourceState
from gputop.topology.sources.collect import ONLY_PCI
from tests.support.rule_cases import base, edited
from tests.topology.diagnosis.device_rules import H100, H200, MI300X, about, at, device_diagnosis

WHY = tuple({"field": field, "why": ONLY_PCI} for field in ("uuid", "memory_bytes", "index"))


def only_pci(gpu: Gpu, **rest: Any) -> dict[str, Any]:
    return {"address": gpu.address, "vendor": gpu.vendor, "gaps": WHY, **rest}


def hidden(name: str, number: int, **device: Any) -> NodeSnapshot:
    """A base of which PCI alone shows one GPU, with changes to its PCI function."""
    gpu = base(name).machine.gpus[number]
    return at(
        name,
        (f"machine.gpus[{number}]", only_pci(gpu)),
        *((f"machine.pci[address={gpu.address}].{key}", value) for key, value in device.items()),
    )


def test_a_gpu_under_nouveau_has_no_working_driver() -> None:
    (found,) = about("gpu-without-driver", hidden(H100, 2, driver="nouveau"))
    assert "nouveau" in found.fix[0].text
    assert found.impact == "A job on this node gets 7 of 8 GPUs."


@pytest.mark.parametrize(
    "device",
    [
        {"driver": "vfio-pci"},
        {"driver": "nvgrace_gpu_vfio_pci"},
        {"driver": "xen-pciback"},
        {"physical_function": "0000:19:00.0"},
        {"driver": None},  # unknown: no gap says that none is bound
    ],
)
def test_a_gpu_of_a_guest_or_with_an_unread_driver_is_no_finding(device: dict[str, Any]) -> None:
    assert about("gpu-without-driver", hidden(H100, 2, **device)) == []


def test_where_nobody_knows_of_a_container_nothing_is_proven() -> None:
    gpu = base(H100).machine.gpus[2]
    snapshot = at(H100, (f"machine.gpus[{2}]", only_pci(gpu)), ("machine.host.container", None))
    diagnosis = device_diagnosis(snapshot)
    assert "gpu-without-driver" in diagnosis.unexamined
    assert not [one for one in diagnosis.findings if one.id == "gpu-without-driver"]


def test_graphics_in_an_amd_processor_is_no_missing_gpu() -> None:
    gpu = base(MI300X).machine.gpus[7]
    device = f"machine.pci[address={gpu.address}]"
    graphics = at(MI300X, ("machine.gpus[7]", only_pci(gpu)), (f"{device}.class_code", 0x030000))
    assert about("gpu-without-driver", graphics) == []
    assert about("driver-not-answering", graphics) == []
    (found,) = about("gpu-without-driver", at(MI300X, ("machine.gpus[7]", only_pci(gpu))))
    assert found.devices == (gpu.address,)


def test_a_gpu_that_vanished_since_the_earlier_reading_is_lost() -> None:
    whole = base(H100)
    gone = whole.machine.gpus[3]
    rest = tuple(gpu for gpu in whole.machine.gpus if gpu is not gone)
    now = msgspec.structs.replace(whole, machine=msgspec.structs.replace(whole.machine, gpus=rest))
    (found,) = about("gpu-lost", now, earlier=whole)
    assert found.devices == (gone.address,)
    assert "7 of 8 GPUs are left" in found.impact
    assert about("gpu-lost", now) == []
    # Who chose some GPUs does not hear of the others; who cannot ask has lost nothing.
    assert about("gpu-lost", now, earlier=whole, gpus=[rest[0].address]) == []
    deaf = tuple(Gpu(address=gpu.address, vendor="nvidia") for gpu in rest)
    unread = msgspec.structs.replace(
        whole, machine=msgspec.structs.replace(whole.machine, gpus=deaf)
    )
    assert about("gpu-lost", unread, earlier=whole) == []


def test_a_lost_gpu_is_reported_once() -> None:
    address = base(H100).machine.gpus[3].address
    snapshot = at(
        H100,
        ("readings.gpus[3].lost", True),
        (
            "problems",
            [
                {
                    "source": "nvml_readings",
                    "kind": "lost",
                    "text": f"GPU {address} is gone",
                    "devices": [address],
                }
            ],
        ),
    )
    (found,) = about("gpu-lost", snapshot)
    assert len(found.evidence) == 1
    other = base(H100).machine.gpus[0].address
    assert about("gpu-lost", snapshot, gpus=[other]) == []


@pytest.mark.parametrize(
    "nvml", [None, "13.5", "580.159.04", "13.580.159.04.1.2", "\x1b[31m13.1.1"]
)
def test_an_odd_version_of_nvml_is_no_mismatch(nvml: str | None) -> None:
    assert about("driver-mismatch", at(H100, ("machine.software.nvml", nvml))) == []


def test_modules_with_versions_of_their_own_are_no_mismatch() -> None:
    added = [*base(H100).machine.host.modules]  # type: ignore[union-attr]
    modules = [msgspec.to_builtins(one) for one in added]
    modules += [
        {"name": "nvidia_fs", "version": "2.19.6"},
        {"name": "nvidia_peermem", "version": "999.1"},
        {"name": "nvidia_drm", "version": None},
    ]
    assert about("driver-mismatch", at(H100, ("machine.host.modules", modules))) == []


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("not answering", "nvml", True),
        ("failed", "nvml_readings", True),
        ("absent", "nvml", False),  # the GPUs are described, so somebody answered
        ("failed", "network", False),
        ("mismatch", "nvml", False),
        ("denied", "nvml", False),
    ],
)
def test_who_counts_as_not_answering(kind: str, source: str, *, expected: bool) -> None:
    problem = Problem(source=source, kind=ProblemKind(kind), text="x")
    snapshot = msgspec.structs.replace(base(H100), problems=(problem,))
    assert bool(about("driver-not-answering", snapshot)) is expected


def test_a_driver_that_was_asked_just_now_has_time_to_answer() -> None:
    whole = base(H200)
    for number in range(4):
        gpu = whole.machine.gpus[number]
        whole = edited(whole, [{"path": f"machine.gpus[{number}]", "value": only_pci(gpu)}])
    assert about("driver-not-answering", whole) != []
    starting = SourceState(source="nvml")
    early = msgspec.structs.replace(whole, states=(starting,))
    assert about("driver-not-answering", early) == []
    late = msgspec.structs.replace(
        early,
        states=(msgspec.structs.replace(starting, waiting_seconds=9.0),),
        problems=(Problem(source="nvml", kind=ProblemKind.NOT_ANSWERING, text="9 s"),),
    )
    assert about("driver-not-answering", late) != []


def test_one_closed_node_names_its_gpu() -> None:
    nodes = [f"/dev/nvidia{n}{' (no permission)' if n == 5 else ''}" for n in range(8)]
    (found,) = about("device-node-denied", at(H100, ("machine.host.device_nodes", nodes)))
    assert found.devices == (base(H100).machine.gpus[5].address,)
    assert found.severity == "broken"
    nodes = ["/dev/nvidia77 (no permission)", "/dev/nvidia-modeset (no permission)"]
    assert about("device-node-denied", at(H100, ("machine.host.device_nodes", nodes))) == []


def test_mig_without_an_instance_proves_nothing_in_a_container() -> None:
    (found,) = about("mig-enabled", at(H200, ("machine.gpus[0].mig_enabled", True)))
    assert found.severity == "by-design"


def test_bare_gpus_raise_no_rule_and_give_no_finding() -> None:
    whole = base(H100)
    bare = tuple(
        Gpu(address=gpu.address, vendor="nvidia", gaps=(Gap("uuid", "not asked"),))
        for gpu in whole.machine.gpus
    )
    machine = msgspec.structs.replace(
        whole.machine, gpus=bare, host=None, software=None, pci=(), pairs=()
    )
    snapshot = msgspec.structs.replace(whole, machine=machine, readings=type(whole.readings)())
    diagnosis = device_diagnosis(snapshot)
    assert [one.id for one in diagnosis.findings if one.severity != "cannot-tell"] == []
    assert "rule-failed" not in {one.id for one in diagnosis.findings}
