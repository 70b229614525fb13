"""`nvidia-smi -L`: numbers, names and UUIDs of GPUs and of their MIG devices, without addresses."""

from __future__ import annotations

import re
from xml.etree.ElementTree import SubElement

import msgspec

from .....model.format import FormatError, text_format
from .....model.machine import Gpu
from .....model.part import PartialNode
from .document import PrintedGpu, element_of, part_of, put

_GPU = re.compile(r"\A\s*GPU (\d{1,4}): (\S[^\n]{0,120}?) \(UUID: (GPU-[\w-]{1,60})\)\s*\Z")
_MIG = re.compile(r"\A\s*MIG (\S{1,30})\s+Device\s+(\d{1,4}): \(UUID: (MIG-[\w/-]{1,100})\)\s*\Z")


def _parse(lines: list[str]) -> PartialNode:
    gpus: dict[int, PrintedGpu] = {}
    profiles: dict[int, dict[int, str]] = {}
    """By the number of the GPU and that of its MIG device."""
    number: int | None = None
    for line in lines:
        if gpu := _GPU.match(line):
            number = int(gpu[1])
            if number in gpus:
                break  # the list of another moment
            values = {"product_name": gpu[2], "uuid": gpu[3]}
            gpus[number] = PrintedGpu(element_of(values), number)
        elif (mig := _MIG.match(line)) and number is not None:
            known = profiles.setdefault(number, {})
            if int(mig[2]) in known:
                continue  # the list of another moment
            known[int(mig[2])] = f"MIG {mig[1]}"
            device = SubElement(put(gpus[number].element, "mig_devices", ""), "mig_device")
            put(device, "index", mig[2])
            put(device, "uuid", mig[3])
            put(gpus[number].element, "mig_mode/current_mig", "Enabled")
    if not gpus:
        raise FormatError("no line of a GPU in it")
    part = part_of(gpus.values(), "nvidia-smi -L")
    named = tuple(_named(gpu, profiles.get(gpu.index or 0, {})) for gpu in part.gpus)
    return msgspec.structs.replace(part, gpus=named, gpu_readings=())


def _named(gpu: Gpu, profiles: dict[int, str]) -> Gpu:
    """The GPU with the profiles of its MIG devices as their names."""
    devices = tuple(
        msgspec.structs.replace(device, name=profiles.get(device.index))
        for device in gpu.mig_instances
    )
    return msgspec.structs.replace(gpu, mig_instances=devices)


_STARTS = re.compile(r"(?m)^[ \t]*GPU \d{1,4}: [^\n]{1,120} \(UUID: GPU-")
FORMAT = text_format(
    id="nvidia-smi -L",
    parse=_parse,
    starts=_STARTS,
    needs=("(UUID: GPU-",),
    goes_on=re.compile(r"[ \t]*(?:GPU \d{1,4}: |MIG \S{1,30}[ \t]+Device )"),
)
