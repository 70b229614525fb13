"""What CUDA and ROCm say alike is answered in the words and tools of the one that said it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from ...model.finding import Candidate, Finding
from ...model.page import Fix

_AMD = re.compile(r"\bHIP\b|\bhip[A-Z]\w|USE_HIP|ROCm|\brocm|amdgpu|\bgfx\d{3,4}")
_NVIDIA = re.compile(r"CUDA|\bcuda[A-Z]|[Cc]uda failure|nvidia|NVRM|NVIDIA")
_OF_NCCL = re.compile(r"\bNCCL \d")
"""A defect of a version of NCCL, which RCCL need not have."""
_WORDS = tuple(
    (re.compile(theirs), ours)
    for theirs, ours in (
        (r"nvidia-smi --query-gpu=compute_cap --format=csv", "rocminfo | grep gfx"),
        (r"nvidia-smi topo -p2p r(?: \([^)]*\))?", "rocm-smi --showtopoaccess"),
        (r"nvidia-smi topo -m", "rocm-smi --showtopo"),
        (r"nvidia-smi nvlink -s(?:, or amd-smi xgmi)?", "amd-smi xgmi"),
        (r"nvidia-smi -q -d MEMORY\b(?:: BAR1 Memory Usage)?", "rocm-smi --showmeminfo vram"),
        (r"nvidia-smi -q -d ECC[\w,]*", "rocm-smi --showrasinfo all"),
        (r"nvidia-smi -q -d COMPUTE,PIDS", "rocm-smi --showpids"),
        (r"nvidia-smi -c DEFAULT where the compute mode is Exclusive_Process", "end that process"),
        (r"nvidia-smi -L(?:, or rocm-smi)?|nvidia-smi(?: \(CUDA Version\))?", "rocm-smi"),
        (r"CUDA_LAUNCH_BLOCKING=1, compute-sanitizer", "AMD_SERIALIZE_KERNEL=3"),
        (r"CUDA_LAUNCH_BLOCKING=1(?: or compute-sanitizer)?", "AMD_SERIALIZE_KERNEL=3"),
        (r"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
        (r"dmesg \| grep -i nvrm", "dmesg | grep -i amdgpu"),
        (r"\bXid messages\b", "messages of amdgpu"),
        (r"docker run --gpus all", "docker run --device=/dev/kfd --device=/dev/dri"),
        (r"CUDA's documentation \(cudaError_t\)", "HIP's documentation (hipError_t)"),
        (r"\bCUDA\b", "HIP"),
        (r"\bNCCL\b", "RCCL"),
    )
)
"""Words and commands of NVIDIA's side, the longest first, and those of AMD's."""


def in_vendor_words(found: Finding) -> Finding:
    """The finding in AMD's words, where all lines that show it are of HIP, ROCm or amdgpu."""
    said = [fact.value for fact in found.evidence]
    if not any(map(_AMD.search, said)) or any(map(_NVIDIA.search, said)):
        return found
    return msgspec.structs.replace(
        found,
        title=_amd(found.title),
        cause=_amd(found.cause),
        look=tuple(map(_amd, found.look)),
        fix=_fixes(found.fix),
        candidates=tuple(
            Candidate(
                cause=_amd(one.cause),
                supported_by=one.supported_by,
                contradicted_by=one.contradicted_by,
                needs=_amd(one.needs),
                fix=_fixes(one.fix),
            )
            for one in found.candidates
            if not _OF_NCCL.search(one.cause)
        ),
    )


def _fixes(fixes: Iterable[Fix]) -> tuple[Fix, ...]:
    return tuple(msgspec.structs.replace(fix, text=_amd(fix.text)) for fix in fixes)


def _amd(text: str) -> str:
    for theirs, ours in _WORDS:
        text = theirs.sub(ours, text)
    return text
