"""GPUs that the driver has lost: fallen off the bus, or gone since an earlier reading."""

from __future__ import annotations

import msgspec

from ....hardware.vendors import AMD
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.severity import BROKEN
from ....model.surroundings import Host
from ....sources.files.failures import LOST as KIND
from ...case import Case
from ...rule import Found, Proof, Rule
from ...shared.fabric_words import GONE
from ...shared.numbered import NUMBERED, named, places_of
from .presence import given_away


class _Gone(msgspec.Struct, frozen=True):
    """A GPU that is gone, by its address or else by NVML's number, and what shows it."""

    device: str
    evidence: Proof


def _lost(case: Case) -> Found:
    readings = [(gpu, case.reading(gpu)) for gpu in case.gpus]
    problems = [problem for problem in case.snapshot.problems if problem.kind == KIND]
    told = any(gpu.fabric is not None and gpu.fabric.status == GONE for gpu in case.gpus)
    unasked = case.earlier is None and all(reading is None for _, reading in readings)
    if not problems and not told and unasked:
        return None
    gone = [
        _Gone(
            gpu.address,
            (
                f"answer of the driver for {case.name(gpu)}",
                reading.why("lost") or "GPU is lost",
                "NVML, NVML_ERROR_GPU_IS_LOST",
            ),
        )
        for gpu, reading in readings
        if reading is not None and reading.lost
    ]
    gone += [
        _Gone(
            gpu.address,
            (
                f"end of the registration of {case.name(gpu)} with the fabric",
                gpu.fabric.status,
                "NVML nvmlDeviceGetGpuFabricInfoV",
            ),
        )
        for gpu in case.gpus
        if gpu.fabric is not None and gpu.fabric.status == GONE
    ]
    gone += _named(case, {gpu.device for gpu in gone})
    nameless: list[Proof] = []
    if len(case.gpus) == len(case.machine.gpus):  # some were chosen: the others do not count
        nameless = [
            ("what the driver said", problem.text, problem.source)
            for problem in problems
            if not problem.devices
        ]
        gone += [
            _Gone(
                gpu.address,
                (
                    f"GPU {gpu.address}",
                    "in the earlier reading, not in this one",
                    "NVML nvmlDeviceGetHandleByIndex",
                ),
            )
            for gpu in _vanished(case)
        ]
    return [_finding(case, gone, nameless)] if gone or nameless else []


def _named(case: Case, known: set[str]) -> list[_Gone]:
    """The GPUs of which the driver said so while it was asked something else."""
    places = places_of(case)
    examined = {gpu.address for gpu in case.gpus}
    whole = len(case.gpus) == len(case.machine.gpus)
    found: dict[str, _Gone] = {}
    for problem in case.snapshot.problems:
        for name in problem.devices if problem.kind == KIND else ():
            device = places.get(name, name)
            counts = device in examined or (whole and device.startswith(NUMBERED))
            if counts and device not in known:
                what = ("what the driver said", problem.text, problem.source)
                found.setdefault(device, _Gone(device, what))
    return list(found.values())


def _finding(case: Case, gone: list[_Gone], nameless: list[Proof]) -> Finding:
    devices = list(dict.fromkeys(gpu.device for gpu in gone))
    addresses = [device for device in devices if not device.startswith(NUMBERED)]
    names = named(case, devices)
    evidence = {gpu.evidence: None for gpu in gone} | dict.fromkeys(nameless)
    return LOST.finding(
        BROKEN,
        f"fallen off the bus: {names or 'a GPU'}",
        devices=addresses,
        evidence=list(evidence),
        impact=_loss(case, devices),
        fix=[
            (
                "Read why: Xid 79 says that the GPU has fallen off the bus. "
                "# dmesg | grep -i xid | tail -n 20"
            ),
            "Drain the node and restart it cold; check power cable, seat and heat.",
        ],
    )


def _loss(case: Case, devices: list[str]) -> str:
    here = [gpu for gpu in case.gpus if gpu.address not in devices]
    total = len({*devices, *(gpu.address for gpu in case.gpus)})
    left = f" {len(here)} of {total} GPUs are left." if devices else ""
    return f"Its jobs have crashed, and new ones do not get it until the node restarts.{left}"


def _vanished(case: Case) -> list[Gpu]:
    """GPUs of the earlier reading whose driver answers and does not know them any more."""
    if case.earlier is None:
        return []
    here = {gpu.uuid for gpu in case.machine.gpus}
    on_bus = {device.address: device for device in case.machine.pci}
    packages = {gpu.parent or gpu.address for gpu in case.machine.gpus if gpu.uuid is not None}
    answered = {gpu.vendor for gpu in case.machine.gpus if gpu.uuid is not None}
    job = _job(case.host)
    others = case.may_hide_devices and not (job and job == _job(case.earlier.machine.host))
    return [
        gpu
        for gpu in case.earlier.machine.gpus
        if gpu.uuid is not None
        and gpu.uuid not in here
        and gpu.vendor in answered
        # Another container or job may have fewer GPUs, and a guest may own this one by now.
        and not (others and (not on_bus or gpu.address in on_bus))
        and not given_away(on_bus.get(gpu.address))
        # Another card is there now, or the package is partitioned differently.
        and (gpu.parent or gpu.address) not in packages
    ]


def _job(host: Host | None) -> tuple[str | None, ...]:
    """The batch job and its host, whose devices stay the same until its end; () outside a job."""
    box = host.container if host is not None else None
    return (box.job, box.kind, host.hostname) if host and box and box.job else ()


LOST = Rule(
    id="gpu-lost",
    family="D33",
    title="GPUs that the driver has lost",
    evidence="the driver's answer for each GPU, and an earlier reading where there is one",
    disproof="an answer of `nvidia-smi -q -i N` for this GPU",
    disproof_by=((AMD.id, "an answer of `amd-smi static` for this GPU"),),
    sources=("NVIDIA Xid 79", "DCGM error FALLEN_OFF_BUS", "NVIDIA/gpu-operator#2511"),
    check=_lost,
    without_gpus=True,
)
RULES = (LOST,)
