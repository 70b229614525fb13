"""`nvidia-smi -q -x`: one XML document for all GPUs of a node. Any file is hostile until read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

from .....model.format import Format
from .....model.machine import Gpu
from .....model.part import PartialNode
from .....model.readings import GpuReading
from .....model.snapshot import Problem
from .....model.surroundings import Software
from .....sources.files.answers import left_out, left_out_of
from .....sources.files.failures import Unanswered
from .....sources.files.failures import problems as failed
from .....sources.files.limited_xml import read_xml
from .....sources.files.printed import Printed
from .....sources.nvidia.smi_values import NVIDIA_SMI
from . import gpu as smi_gpu
from .failures import failures as unanswered

_ROOT = "nvidia_smi_log"
_PROLOG = re.compile(rb"<\?xml[ \t]")
_END = b"</" + _ROOT.encode() + b">"
_MAX_GPUS = 256


def _recognises(head: bytes, path: Path) -> bool:
    return b"<" + _ROOT.encode() in head or b"<!DOCTYPE " + _ROOT.encode() in head


def _parse(data: bytes, path: Path) -> PartialNode:
    root, notes = _last(data)
    listed = root.findall("gpu")
    elements = listed[:_MAX_GPUS]
    # Only a list of all GPUs is numbered as NVML numbers them; `-i` leaves some out.
    complete = root.findtext("attached_gpus", "").strip() == str(len(elements))
    gpus: dict[str, Gpu] = {}
    readings: list[GpuReading] = []
    problems: list[Problem] = []
    failures: list[Unanswered] = []
    for place, element in enumerate(elements):
        own = smi_gpu.address(element)
        if own is None or own in gpus:
            name = (element.get("id") or "no id")[:40]
            text = f"GPU {place} of nvidia-smi -q -x has no usable PCI address ({name!r})"
            problems.append(Problem(source="nvidia-smi -q -x", text=text))
            continue
        gpus[own] = smi_gpu.gpu(element, own, place if complete else None)
        readings.append(smi_gpu.reading(element, own))
        failures += unanswered(element, own)
    return PartialNode(
        gpus=tuple(gpus.values()),
        software=_software(root, elements),
        gpu_readings=tuple(readings),
        problems=(
            *problems,
            *failed("nvidia-smi -q -x", failures),
            *left_out_of("nvidia-smi -q -x", left_out("GPUs", listed, _MAX_GPUS)),
        ),
        assumptions=notes,
    )


def _last(data: bytes) -> tuple[Element, tuple[str, ...]]:
    """Read the last whole document of what `nvidia-smi -q -x -l` wrote one after the other."""
    starts = [match.start() for match in _PROLOG.finditer(data)]
    if len(starts) < 2:
        return _document(data), ()
    pieces = [data[a:b] for a, b in zip(starts, [*starts[1:], len(data)], strict=True)]
    whole = [piece for piece in pieces if _END in piece]
    if not whole:
        return _document(data), ()
    what = (
        f"the file holds {len(pieces)} outputs of nvidia-smi, of which the last whole one is read"
    )
    return _document(whole[-1]), (what,)


def _document(data: bytes) -> Element:
    return read_xml(data, _ROOT)


def _software(root: Element, gpus: Sequence[Element]) -> Software | None:
    values = Printed(root, NVIDIA_SMI)
    # The first name of each goes with CUDA 14.0, as nvidia-smi 615 says in its output.
    driver = values.text("nvidia_driver", "driver_version", "kmd_version")
    cuda = values.text("cuda_driver", "cuda_version", "cuda_umd_version")
    return Software(nvidia_driver=driver, cuda_driver=cuda, gaps=values.gaps)


FORMAT = Format(id="nvidia-smi -q -x", recognises=_recognises, parse=_parse)
