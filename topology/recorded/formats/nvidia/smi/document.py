"""Values of nvidia-smi's texts as the <gpu> of its XML, so that one reader understands both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar
from xml.etree.ElementTree import Element, SubElement

import msgspec

from .....model.format import FormatError
from .....model.machine import Gpu
from .....model.part import PartialNode
from .....model.readings import GpuReading
from .....model.record import Gap, Record
from .....model.surroundings import Software
from .....sources.files.failures import Unanswered, problems
from .....sources.files.printed import Printed
from .....sources.nvidia.smi_values import NVIDIA_SMI
from . import gpu as smi_gpu
from .failures import failures

R = TypeVar("R", bound=Record)
MAX_GPUS = 256
_XML = re.compile(r"(?:this )?nvidia-smi -q -x")


class PrintedGpu(msgspec.Struct):
    """One GPU that a text shows."""

    element: Element
    number: int | None
    """NVML's index; None where the text does not number all GPUs."""


def element_of(values: Mapping[str, str]) -> Element:
    """A <gpu> with these texts at these paths, such as "fb_memory_usage/total"."""
    root = Element("gpu")
    for path, text in values.items():
        put(root, path, text)
    return root


def put(root: Element, path: str, text: str) -> Element:
    """Give the element at a path its text, unless it has one; missing elements are made."""
    node = root
    for tag in path.split("/"):
        child = node.find(tag)
        node = SubElement(node, tag) if child is None else child
    if node.text is None:
        node.text = text
    return node


def part_of(
    shown: Iterable[PrintedGpu],
    tool: str,
    software: Mapping[str, str] | None = None,
    assumptions: tuple[str, ...] = (),
) -> PartialNode:
    """The GPUs by their PCI address, else by their number. Raises FormatError for none."""
    gpus: dict[str, Gpu] = {}
    readings: list[GpuReading] = []
    failed: list[Unanswered] = []
    for item in shown:
        own = smi_gpu.address(item.element)
        if own is None and item.number is not None:
            own = f"topo:GPU{item.number}"
        if own is None or own in gpus:
            continue
        if len(gpus) == MAX_GPUS:
            raise FormatError(f"more than {MAX_GPUS} GPUs")
        gpus[own] = said_by(tool, smi_gpu.gpu(item.element, own, item.number))
        readings.append(said_by(tool, smi_gpu.reading(item.element, own)))
        failed += failures(item.element, own)
    if not gpus:
        raise FormatError("no GPU in it")
    return PartialNode(
        gpus=tuple(gpus.values()),
        gpu_readings=tuple(readings),
        software=None if software is None else versions(software, tool),
        problems=problems(tool, failed),
        assumptions=assumptions,
    )


def versions(said: Mapping[str, str], tool: str) -> Software:
    """Versions of the driver and of its CUDA, by the names of the XML's elements."""
    values = Printed(element_of(said), NVIDIA_SMI)
    driver = values.text("nvidia_driver", "driver_version")
    cuda = values.text("cuda_driver", "cuda_version")
    return said_by(tool, Software(nvidia_driver=driver, cuda_driver=cuda, gaps=values.gaps))


def said_by(tool: str, record: R) -> R:
    """The record with gaps that name the tool whose text leaves a value out."""
    changed: dict[str, object] = {
        "gaps": tuple(Gap(gap.field, _XML.sub(tool, gap.why)) for gap in record.gaps)
    }
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, Record):
            changed[name] = said_by(tool, value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Record):
            changed[name] = tuple(said_by(tool, member) for member in value)
    return msgspec.structs.replace(record, **changed)
