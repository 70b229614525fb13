"""GPUs that NVML counts and of which it gives no address: "nvml:3" in a problem."""

from __future__ import annotations

from collections.abc import Sequence

from ...hardware.vendors import NVIDIA
from ..case import Case

NUMBERED = "nvml:"


def places_of(case: Case) -> dict[str, str]:
    """The addresses of the GPUs that NVML counts without an address: "nvml:3".

    NVML counts in the order of PCI addresses: where it counts as many GPUs as PCI shows, the number
    says which one it is.
    """
    numbered = {
        device
        for problem in case.snapshot.problems
        for device in problem.devices
        if device.startswith(NUMBERED)
    }
    if not numbered:
        return {}
    nvidia = [gpu for gpu in case.machine.gpus if gpu.vendor == NVIDIA.id]
    known = {gpu.index: gpu.address for gpu in nvidia if gpu.index is not None}
    rest = sorted(gpu.address for gpu in nvidia if gpu.index is None)
    numbers = sorted(int(device.removeprefix(NUMBERED)) for device in numbered)
    numbers = [number for number in numbers if number not in known]
    if len(numbers) != len(rest):
        return {}
    return {f"{NUMBERED}{number}": own for number, own in zip(numbers, rest, strict=True)}


def named(case: Case, devices: Sequence[str]) -> str:
    """Devices in one phrase, also those that have a number of NVML alone."""
    return case.names([device.replace(NUMBERED, "NVML's GPU ") for device in devices])
