"""`python -m torch.utils.collect_env`: NVIDIA GPUs by name, and versions of the software.

Its part about the processor is what `lscpu` prints, and is read as that.
"""

from __future__ import annotations

import re

import msgspec

from ....model.format import FormatError, text_format
from ....model.part import PartialNode
from ....model.surroundings import Software
from .smi.document import PrintedGpu, element_of, part_of

TOOL = "torch.utils.collect_env"
_GPU = re.compile(r"(?:GPU models and configuration: *)?GPU (\d{1,4}): (\S[^\n(]{0,118}?) *\Z")
_OTHERS = re.compile(r"\bAMD\b|Instinct|Radeon")
_VERSIONS = {
    "nvidia_driver": re.compile(r"Nvidia driver version: (\d[\d.]{0,20})"),
    "cuda_toolkit": re.compile(r"CUDA used to build PyTorch: (\d[\d.]{0,20})"),
    "rocm": re.compile(r"ROCM used to build PyTorch: (\d[\d.]{0,20})"),
    "torch": re.compile(r"PyTorch version: (\d[\d.]{0,20})"),
    "nccl": re.compile(r"\[pip3?\] nvidia-nccl-cu\d\d==(\d[\d.]{0,20})"),
}
"""Fields of Software, and the lines that tell them."""


def _parse(lines: list[str]) -> PartialNode:
    gpus: dict[int, str] = {}
    said: dict[str, str] = {}
    for line in lines:
        if (gpu := _GPU.match(line)) and not _OTHERS.search(gpu[2]):
            gpus.setdefault(int(gpu[1]), gpu[2])
        for field, form in _VERSIONS.items():
            if version := form.match(line):
                said.setdefault(field, version[1])
    if not (gpus or said):
        raise FormatError("neither a GPU nor a version in it")
    shown = [
        PrintedGpu(element_of({"product_name": name}), number) for number, name in gpus.items()
    ]
    part = part_of(shown, TOOL) if shown else PartialNode()
    software = msgspec.convert(said, Software)
    return msgspec.structs.replace(part, software=software, gpu_readings=())


FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=re.compile(
        r"(?m)^(?:Collecting environment information|PyTorch version: |Versions of relevant lib)"
    ),
    needs=("Collecting environment", "PyTorch version: ", "Versions of relevant libraries:"),
    goes_on=re.compile(
        r"(?:PyTorch version: |Is |CUDA|ROCM|OS: |GCC|Clang|CMake|Libc|Python |GPU|Nvidia driver"
        r"|cuDNN|/\S*libcudnn|HIP |MIOpen|Probably|Caching|Intel GPU|XPU|Level"
        r"|\[(?:pip3?|conda)\] )"
    ),
    repeats=True,
    together=True,
)
